"""Label noise: transition matrices between classes, and labels drawn from them.

Each kind of noise is a frozen value that defines a (C, C) transition matrix, whose row i holds the probabilities of the
labels that class i may become. The label of an image depends only on the seed and on the image's row in its source, so
that all methods trained with the same seed see the same wrong labels. Test labels are never changed.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..._ranges import FractionBelowOne, SeedOrOfRun, check_settings
from ...errors import DataError, OptionError
from ..files import read_json, read_limited
from ..seeds import Purpose
from ..types import LabelNoise, Splits

MOST_BYTES = 1 << 28  # bytes of the largest matrix file
_SLACK = 1e-6  # tolerance of the row sums


@dataclass(frozen=True)
class _Noise(LabelNoise):
    """Base class of all kinds of label noise."""

    seed: SeedOrOfRun = field(default=-1, kw_only=True)
    """Random seed of the wrong labels; -1 uses the seed of the run. The paper's code uses 0 for all runs."""

    def matrix(self, class_names: Sequence[str], groups: Sequence[int] = ()) -> Tensor:
        """Return the (C, C) transition matrix in float64; `groups` are the superclasses of the classes, if any."""
        raise NotImplementedError(f"{type(self).__name__} has no matrix: define it in the class.")


@dataclass(frozen=True)
class _RatedNoise(_Noise):
    """Base class of label noise with a rate."""

    rate: FractionBelowOne = 0.4
    """The probability that a label of an affected class is wrong."""

    def __post_init__(self) -> None:
        check_settings(self, "noise.")

    def _flip_to(self, targets: Sequence[int]) -> Tensor:
        """Flip each class to one target class; a class that is its own target stays clean."""
        identity = torch.eye(len(targets), dtype=torch.float64)
        return (1 - self.rate) * identity + self.rate * identity[list(targets)]


@dataclass(frozen=True)
class UniformNoise(_RatedNoise):
    """Symmetric noise: any other class, with equal probability."""

    def matrix(self, class_names: Sequence[str], groups: Sequence[int] = ()) -> Tensor:
        """Keep a label with probability `1 - rate`; every other class has `rate / (C - 1)`."""
        count = len(class_names)
        matrix = torch.full((count, count), self.rate / (count - 1), dtype=torch.float64)
        return matrix.fill_diagonal_(1 - self.rate)


@dataclass(frozen=True)
class PairFlip(_RatedNoise):
    """Flip to the next class id, and the last to the first: what the paper's code calls class-dependent noise."""

    def matrix(self, class_names: Sequence[str], groups: Sequence[int] = ()) -> Tensor:
        """Keep a label with probability `1 - rate`; the next class has `rate`."""
        count = len(class_names)
        return self._flip_to([(label + 1) % count for label in range(count)])


@dataclass(frozen=True)
class ClassDependent(_RatedNoise):
    """Flip to a similar class: the next in the same superclass, or by a map from the literature.

    The maps of CIFAR-10 and Fashion-MNIST are from the truncated loss (Zhang and Sabuncu 2018), the map of MNIST is
    from Patrini et al. 2017. Classes that are not in a map stay clean, so that the overall noise rate is below `rate`.
    """

    def matrix(self, class_names: Sequence[str], groups: Sequence[int] = ()) -> Tensor:
        """Keep a label with probability `1 - rate`; the similar class has `rate`."""
        return self._flip_to(_next_in_group(class_names, groups) if groups else _looks_like(class_names))


@dataclass(frozen=True)
class NoiseMatrix(_Noise):
    """Any transition matrix from a file: `.npy`, JSON (a list of rows), or text with one row per line."""

    path: str = ""

    def matrix(self, class_names: Sequence[str], groups: Sequence[int] = ()) -> Tensor:
        """Return the matrix in the file; raise an error unless it is a transition matrix for these classes."""
        matrix, count = _read(self.path), len(class_names)
        if matrix.shape != (count, count):
            raise OptionError(
                f"the noise matrix {self.path!r} is {' x '.join(map(str, matrix.shape))}, but the data has {count} "
                f"classes: use {count} rows of {count} probabilities."
            )
        error = (matrix.sum(1) - 1).abs()
        if not bool((error <= _SLACK).all()):
            row = int((~(error <= _SLACK)).nonzero()[0])
            raise OptionError(
                f"row {row} of the noise matrix {self.path!r} sums to {float(matrix[row].sum()):g}: the probabilities "
                "in a row must sum to 1."
            )
        if bool((matrix < 0).any()):
            raise OptionError(
                f"the noise matrix {self.path!r} contains {float(matrix.min()):g}: all entries must be probabilities."
            )
        return matrix / matrix.sum(1, keepdim=True)


NOISES = (UniformNoise, PairFlip, ClassDependent, NoiseMatrix)
"""The kinds of label noise that a recipe may name."""

_SIMILAR: tuple[dict[str, str], ...] = (
    {"truck": "automobile", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"},
    {"Ankle boot": "Sneaker", "Sneaker": "Sandal", "Pullover": "Shirt", "Coat": "Dress", "Dress": "Coat"},
    {"2": "7", "3": "8", "5": "6", "6": "5", "7": "1"},
)


def _looks_like(class_names: Sequence[str]) -> list[int]:
    number = {name: index for index, name in enumerate(class_names)}
    for similar in _SIMILAR:
        if number.keys() >= {*similar, *similar.values()}:
            return [number[similar.get(name, name)] for name in class_names]
    raise OptionError(
        f"there is no map of similar classes for {', '.join(map(repr, class_names[:3]))}, ...: use class-dependent "
        "noise with all classes of CIFAR-10, Fashion-MNIST or MNIST, with CIFAR-100, or a matrix (NoiseMatrix)."
    )


def _next_in_group(class_names: Sequence[str], groups: Sequence[int]) -> list[int]:
    members: dict[int, list[int]] = {}
    for label, group in enumerate(groups):
        members.setdefault(group, []).append(label)
    if single := [labels[0] for labels in members.values() if len(labels) == 1]:
        raise OptionError(
            f"{class_names[single[0]]!r} is the only selected class of its superclass: select whole superclasses with "
            "--data.superclasses."
        )
    following = dict(pair for labels in members.values() for pair in zip(labels, [*labels[1:], labels[0]], strict=True))
    return [following[label] for label in range(len(groups))]


def _read(path: str) -> Tensor:
    import numpy as np

    file = Path(path).expanduser()
    try:
        if file.suffix == ".npy":
            rows = np.load(io.BytesIO(read_limited(file, MOST_BYTES)), allow_pickle=False)
        elif file.suffix == ".json":
            rows = read_json(file, MOST_BYTES)
        else:
            lines = read_limited(file, MOST_BYTES).decode().replace(",", " ").splitlines()
            rows = [[float(number) for number in line.split()] for line in lines if line.strip()]
        matrix = torch.from_numpy(np.array(rows, dtype=np.float64))
    except (OSError, EOFError, ValueError, TypeError, MemoryError) as error:
        reason = " ".join(str(error.strerror if isinstance(error, OSError) and error.strerror else error).split())[:150]
        raise DataError(
            f"the noise matrix {path!r} cannot be read ({reason}): use a .npy file, a .json list of rows, or a text "
            "file with one row per line."
        ) from error
    return matrix if matrix.ndim == 2 else matrix.reshape(-1, 1)


# Labels


class NoisyData(NamedTuple):
    """A data set with corrupted training and validation labels, and statistics of the corruption."""

    splits: Splits
    matrix: Tensor
    """The requested (C, C) transition matrix."""
    wrong: dict[str, Tensor]
    """For `train` and `val`: (N,) booleans, whether each label is wrong."""
    counts: dict[str, Tensor]
    """For `train` and `val`: (C, C) counts of true labels (rows) by new labels (columns)."""

    def rates(self) -> dict[str, float]:
        """Return the fraction of wrong labels in each non-empty part."""
        return {part: float(wrong.double().mean()) for part, wrong in self.wrong.items() if len(wrong)}

    def facts(self) -> dict[str, Any]:
        """Return the requested matrix and the resulting noise as plain values."""
        return {
            "matrix": self.matrix.tolist(),
            "rates": self.rates(),
            "counts": {part: counts.tolist() for part, counts in self.counts.items()},
        }


def corrupt_labels(splits: Splits, noise: LabelNoise, seed: int) -> NoisyData:
    """Draw the training and validation labels from the noise; the images and the test set are unchanged."""
    matrix = noise.matrix(splits.class_names, splits.groups)
    count, parts, wrong, counts = len(matrix), {}, {}, {}
    for name, part in (("train", splits.train), ("val", splits.val)):
        inside = part.labels.clamp(0, count - 1)  # the source may contain classes that were not selected
        noisy = draw_labels(inside, matrix, seed if noise.seed == -1 else noise.seed)[part.rows]
        clean, labels = part.labels[part.rows], part.labels.clone()
        labels[part.rows] = noisy  # labels of other images of the source are not changed
        parts[name], wrong[name] = replace(part, labels=labels), noisy != clean
        counts[name] = torch.bincount(clean * count + noisy, minlength=count**2).view(count, count)
    return NoisyData(splits._replace(train=parts["train"], val=parts["val"]), matrix, wrong, counts)


def draw_labels(labels: Tensor, matrix: Tensor, seed: int) -> Tensor:
    """Draw (N,) labels from the rows of a transition matrix; label n depends only on its old label, the seed and n.

    Example:
        >>> draw_labels(torch.tensor([0, 1, 0]), torch.tensor([[0.0, 1.0], [0.0, 1.0]]), seed=0)
        tensor([1, 1, 1])
    """
    generator = Purpose.LABEL_NOISE.generator(seed)
    points = torch.rand(len(labels), generator=generator, dtype=torch.float64)
    ends = matrix.double().cumsum(1)
    ends = ends / ends[:, -1:]  # exactly 1 at the end, despite rounding
    return torch.searchsorted(ends[labels], points[:, None], right=True).squeeze(1)


def pruning_purity(kept: Tensor, wrong: Tensor) -> dict[str, float]:
    """Measure how well a selection of training images excludes wrong labels.

    `kept` is the fraction of images that are kept, `kept/clean` the fraction of kept images with a correct label, and
    `wrong/pruned` the fraction of wrong labels that are removed. Fractions of empty sets are omitted.

    Example:
        >>> pruning_purity(torch.tensor([True, True, False, False]), torch.tensor([False, True, True, True]))
        {'kept': 0.5, 'kept/clean': 0.5, 'wrong/pruned': 0.6666666666666666}
    """
    kept, wrong = kept.cpu().bool(), wrong.cpu().bool()
    shares = {"kept": kept, "kept/clean": ~wrong[kept], "wrong/pruned": ~kept[wrong]}
    return {name: float(share.double().mean()) for name, share in shares.items() if len(share)}
