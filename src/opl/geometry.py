"""Measures of a feature space: orthogonality, retrieval, neighbors, collapse, calibration and detection.

`Geometry` (s, d, Eq. 8, class matrices, collapse) and `Reliability` (calibration) take one pass over a data set with
any batch size: only sums are kept, and these add up over batches and processes. The sums S_c of the unit features and
the counts n_c give every mean over pairs exactly, without visiting a pair: the cosines within class c sum to
`|S_c|^2 - n_c`, those between c and c' to `S_c . S_c'`. Retrieval and neighbors compare all pairs, some rows at a time;
no N x N matrix is ever held.

    opl.geometry.report(features, labels, logits)    # all of them as a table

**Conventions** are those of the loss. A pair is two different samples; a mean over no pairs is 0. A zero feature vector
has no direction: its cosines are 0, and its pairs count. Scalars are Python floats, matrices are (C, C) tensors. Shares
such as MAP@R or an accuracy are between 0 and 1.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from ._kernels.class_sums import closest
from ._kernels.distributed import message_device
from ._kernels.normalize import accumulation_dtype, inverse_norms
from ._kernels.validate import as_integers, check_positive, check_vectors, validate
from .errors import DistributedError, FeatureError, LabelError, OptionError, did_you_mean
from .functional import IGNORE_INDEX, Form, check_options, orthogonal_projection

Reduction = Literal["sum", "mean"]
Average = Literal["raw", "unit"]

ROWS = 4096  # rows processed at a time, so that a whole data set in one call is not copied to fp64 at once
BLOCK_BYTES = 16 * 2**20  # size of the block of similarities that retrieval and neighbors hold at a time


class Geometry:
    """Per-class feature sums of a data set, and the measures computed from them.

    Args:
        feature_dim: D.
        num_classes: C; labels are 0 to C - 1, and not every class needs to appear.
        device: device of the sums, which are fp64 (fp32 on mps, which has no fp64); by default that of the first batch.
        moments: also keep the (D, D) sum of outer products, which `collapse` needs.

    Example:
        >>> geometry = Geometry(2, num_classes=2)
        >>> for features, labels in [(torch.eye(2), torch.tensor([0, 1])), (torch.eye(2), torch.tensor([0, 0]))]:
        ...     _ = geometry.update(features, labels)
        >>> round(geometry.same, 4), round(geometry.other(), 4)
        (0.3333, 0.3333)
    """

    def __init__(
        self, feature_dim: int, *, num_classes: int, device: torch.device | str | None = None, moments: bool = False
    ) -> None:
        for name, value in (("num_classes", num_classes), ("feature_dim", feature_dim)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionError(f"{name} is {value!r} but must be an integer of at least 1.")
        self.num_classes, self.feature_dim, self._placed = num_classes, feature_dim, device is not None
        with torch.inference_mode(False):  # inference tensors cannot be updated in place outside inference mode
            self.counts = torch.zeros(num_classes, dtype=torch.long, device=device or "cpu")
            self.directed = torch.zeros_like(self.counts)
            self.negative = self.counts.new_zeros(())
            self.unit_sums = self.counts.new_zeros(num_classes, feature_dim, dtype=accumulation_dtype(self.counts))
            self.raw_sums = torch.zeros_like(self.unit_sums)
            self.products = self.raw_sums.new_zeros(feature_dim, feature_dim) if moments else None

    @torch.no_grad()
    def update(self, features: Tensor, labels: Tensor, ignore_index: int = IGNORE_INDEX) -> "Geometry":
        """Add a batch; an invalid batch raises an error and leaves the sums unchanged.

        Args:
            features: (B, D) or (B, D, 1, 1), any floating dtype, on any device.
            labels: (B,) or (B, 1) integers.
            ignore_index: rows with this label are excluded.
        """
        check_options(0.0, "mean", ignore_index)
        x, labels, ignored, _ = validate(features, labels, ignore_index)
        if x.shape[1] != self.feature_dim:
            raise FeatureError(
                f"features have dimension {x.shape[1]}, but this geometry has {self.feature_dim}: build it with "
                f"feature_dim={x.shape[1]}, or pass features of the layer that it was built for."
            )
        if ignored is not None:
            x, labels = x[~ignored], labels[~ignored]
        ids = self._class_ids(labels)
        self._place(x.device)
        for rows, of in zip(torch.split(x, ROWS), torch.split(ids, ROWS), strict=True):
            self._add(rows, of.to(self.counts.device))
        return self

    def _class_ids(self, labels: Tensor) -> Tensor:
        if labels.ndim == 2:
            raise LabelError(
                f"labels are soft, of shape {tuple(labels.shape)}, but a sample has one class here: pass integer "
                "labels, for example labels.argmax(1)."
            )
        ids = labels.long()
        wrong = ids[(ids < 0) | (ids >= self.num_classes)]
        if len(wrong):
            top = int(wrong.max())
            raise LabelError(
                f"label {top} is outside of the {self.num_classes} classes (0 to {self.num_classes - 1}) of this "
                f"geometry: build it with num_classes={max(top + 1, self.num_classes)}, or check the data's labels."
            )
        return ids

    def _place(self, device: torch.device) -> None:
        """Move the sums to the device of the first batch, once, unless the device was given."""
        if not self._placed and device != self.counts.device:
            moments = self.products is not None
            moved = Geometry(self.feature_dim, num_classes=self.num_classes, device=device, moments=moments)
            vars(self).update(moved.load_state_dict(self.state_dict()).state_dict())
        self._placed = True

    def _add(self, x: Tensor, ids: Tensor) -> None:
        pointless = inverse_norms(x, None) == 0  # tested in the dtype of the features, as in the loss
        x, pointless = x.to(self.unit_sums), pointless.to(self.counts.device)
        self.unit_sums.index_add_(0, ids, x * inverse_norms(x, pointless)[:, None])
        self.raw_sums.index_add_(0, ids, x)
        if self.products is not None:
            self.products.addmm_(x.T, x)
        self.counts.index_add_(0, ids, torch.ones_like(ids))
        self.directed.index_add_(0, ids, (~pointless).long())
        self.negative |= (x < 0).any()

    def merge(self, other: "Geometry") -> "Geometry":
        """Add the sums of another geometry, for example from another process.

        Example:
            >>> first, second = Geometry(2, num_classes=2), measure(torch.eye(2), torch.tensor([0, 1]))
            >>> first.merge(second).counts
            tensor([1, 1])
        """
        if not isinstance(other, Geometry):
            raise OptionError(f"a {type(other).__name__} cannot be merged into a Geometry: pass another Geometry.")
        if other._shape != self._shape:
            raise OptionError(
                f"a geometry of {_describe(other._shape)} cannot be merged into a geometry of "
                f"{_describe(self._shape)}: build both with the same num_classes, feature_dim and moments."
            )
        self._place(other.counts.device)
        for name, state in self.state_dict().items():
            state.add_(getattr(other, name).to(state))
        self.negative.clamp_(max=1)
        return self

    def all_reduce(self, group: Any = None) -> "Geometry":
        """Merge the geometries of all processes into each of them; a second call would count every sample again."""
        shape = torch.tensor(self._shape, device=message_device(group))
        shapes = shape.new_empty(dist.get_world_size(group), 3)
        dist.all_gather(list(shapes.unbind(0)), shape, group=group)
        for rank, theirs in enumerate(shapes.tolist()):
            if theirs != list(self._shape):
                raise DistributedError(
                    f"process {rank} has a geometry of {_describe(theirs)}, but this process of "
                    f"{_describe(self._shape)}: build all with the same num_classes, feature_dim and moments."
                )
        _all_reduce(self.state_dict(), group)
        self.negative.clamp_(max=1)
        return self

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.num_classes, self.feature_dim, int(self.products is not None)

    def state_dict(self) -> dict[str, Tensor]:
        """Return `unit_sums`, `raw_sums` (C, D), `counts`, `directed` (nonzero rows; C,) and the flag `negative`.

        With `moments`, also `products` (D, D).
        """
        names = ("unit_sums", "raw_sums", "counts", "directed", "negative")
        moments = {} if self.products is None else {"products": self.products}
        return {name: getattr(self, name) for name in names} | moments

    def load_state_dict(self, state: Mapping[str, Tensor]) -> "Geometry":
        """Replace the sums with a copy of saved ones."""
        current = self.state_dict()
        shapes = {name: tuple(value.shape) for name, value in state.items()}
        expected = {name: tuple(value.shape) for name, value in current.items()}
        if shapes != expected:
            raise OptionError(f"the state has {shapes}, but this geometry needs {expected}: load a matching state.")
        for name, value in current.items():
            value.copy_(state[name])
        return self

    @property
    def same(self) -> float:
        """The paper's s: the mean cosine over all same-class pairs."""
        pairs = (self.counts * (self.counts - 1)).sum()
        return _mean(self._within().sum(), pairs)

    def other(self, form: Form = "abs_mean") -> float:
        """Return the paper's d over all pairs of different classes, computed as in the loss.

        Args:
            form: `"abs_mean"`, |mean of cos|; `"mean"`, signed; `"mean_abs"`, the mean of |cos|, which requires that no
                feature is negative, because then cos = |cos|.
        """
        check_options(0.0, form, IGNORE_INDEX)
        if form == "mean_abs" and self.negative:
            raise OptionError(
                "form='mean_abs' cannot be computed from class sums because some features are negative: use "
                "form='abs_mean' or 'mean', or opl.orthogonal_projection on the features."
            )
        rows = self.counts.sum()
        before = self.unit_sums.cumsum(0)[:-1]
        total = 2 * (self.unit_sums[1:] * before).sum()  # each class with all before it: no cancellation
        mean = _mean(total, rows * rows - self.counts.square().sum())
        return abs(mean) if form == "abs_mean" else mean

    def orthogonality(self, gamma: float = 1.0) -> float:
        """Return the unweighted OPL as a measure, `(1 - s) + gamma * |d|`: 0 is perfect, smaller is better."""
        check_options(gamma, "abs_mean", IGNORE_INDEX)
        return (1 - self.same) + gamma * self.other()

    def expected_orthogonality(self, reduction: Reduction = "sum") -> float:
        """Return Eq. 8, the expected inter-class orthogonality: `|E[cos] - [i = j]|` over present classes i, j.

        A class of one sample has no pairs within it; its diagonal entry counts as 1 and so contributes nothing.

        Args:
            reduction: `"sum"`, as in the paper; or `"mean"` over the entries, to compare different numbers of classes.

        Example:
            >>> measure(torch.eye(3), torch.tensor([0, 0, 1])).expected_orthogonality()
            1.0
        """
        if reduction not in get_args(Reduction):
            raise OptionError(did_you_mean("reduction", reduction, get_args(Reduction)))
        present = self.counts > 0
        cosines = self.class_cosines()[present][:, present]
        off = (cosines - torch.eye(len(cosines)).to(cosines)).abs().sum()
        return float(off) if reduction == "sum" else _mean(off, present.sum().square())

    def class_cosines(self) -> Tensor:
        """Return the (C, C) mean cosines between classes, and within a class on the diagonal: E[cos] of Eq. 8.

        A class with one sample has 1 on the diagonal; a class without samples has NaN in its row and column.
        """
        counts = self.counts.to(self.unit_sums.dtype)
        cosines = self.unit_sums @ self.unit_sums.T / torch.outer(counts, counts)
        within = self._within() / (counts * (counts - 1))
        cosines.diagonal().copy_(within.masked_fill(self.counts == 1, 1))
        return self._without_absent(cosines)

    def class_similarity(self, of: Average = "raw") -> Tensor:
        """Return the (C, C) cosines between the mean features of classes; NaN where a class has no samples.

        A class whose mean is zero has no direction, so its cosines are 0.

        Args:
            of: average the features themselves, `"raw"` (the paper's figure 4), or as `"unit"` vectors.

        Example:
            >>> geometry = measure(torch.tensor([[3.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), torch.tensor([0, 0, 1]))
            >>> geometry.class_similarity().round(decimals=4)
            tensor([[1.0000, 0.7071],
                    [0.7071, 1.0000]], dtype=torch.float64)
        """
        if of not in get_args(Average):
            raise OptionError(did_you_mean("average of", of, get_args(Average)))
        sums = self.raw_sums if of == "raw" else self.unit_sums
        means = sums * inverse_norms(sums, None)[:, None]
        return self._without_absent(means @ means.T)

    def collapse(self) -> "Collapse":
        """Return how far the features have collapsed to their class means; needs `moments` and at least 2 classes."""
        if self.products is None:
            raise OptionError("collapse needs the sum of outer products: build the geometry with moments=True.")
        present = self.counts > 0
        counts = self.counts[present].to(self.products)[:, None].cpu()
        if len(counts) < 2:
            raise LabelError(f"collapse compares classes, but {len(counts)} have samples: pass at least 2 classes.")
        sums, products = self.raw_sums[present].cpu(), self.products.cpu()
        rows, means = counts.sum(), sums / counts
        within = (products - sums.T @ means) / rows
        mean = sums.sum(0) / rows
        total = products / rows - torch.outer(mean, mean)
        units = sums * inverse_norms(sums, None)[:, None]
        pairs = len(units) * (len(units) - 1)
        return Collapse(
            _nc1(within, means - means.mean(0)),
            _effective_rank(total),
            float(units.sum(0).square().sum() - units.square().sum()) / pairs,
            float(closest(self.unit_sums, present)),
        )

    def _within(self) -> Tensor:
        """Return (C,) sums of the cosines within each class, subtracted per class so that few pairs stay accurate."""
        squares = self.unit_sums.square().sum(1)
        return torch.where(self.counts > 1, squares - self.directed, 0)

    def _without_absent(self, matrix: Tensor) -> Tensor:
        absent = self.counts == 0
        return matrix.masked_fill(absent[:, None] | absent, torch.nan)


def measure(
    features: Tensor,
    labels: Tensor,
    *,
    num_classes: int | None = None,
    ignore_index: int = IGNORE_INDEX,
    moments: bool = False,
) -> Geometry:
    """Return the geometry of features that fit in one tensor.

    Args:
        features: (N, D) or (N, D, 1, 1).
        labels: (N,) or (N, 1) integers.
        num_classes: by default one more than the largest label.
        ignore_index: rows with this label are excluded.
        moments: also keep the (D, D) sum of outer products, which `Geometry.collapse` needs.

    Example:
        >>> measure(torch.eye(2), torch.tensor([0, 1])).orthogonality()
        1.0
    """
    check_options(0.0, "mean", ignore_index)
    x, ids, ignored, _ = validate(features, labels, ignore_index)
    if num_classes is None:
        ids = ids if ignored is None else ids[~ignored]
        num_classes = max(1, int(ids.max()) + 1) if ids.numel() else 1
    return Geometry(x.shape[1], num_classes=num_classes, moments=moments).update(features, labels, ignore_index)


class Collapse(NamedTuple):
    """How far features have collapsed to their class means."""

    nc1: float
    """Within-class variability relative to between-class variability, `trace(W B⁺) / C`; 0 is complete collapse."""
    effective_rank: float
    """exp of the entropy of the normalized singular values of the centered features: about how many dimensions vary."""
    mean_class_cosine: float
    """Mean cosine between two class means."""
    class_cosine: float
    """Largest cosine between two class means (of unit features)."""


def collapse(features: Tensor, labels: Tensor, *, ignore_index: int = IGNORE_INDEX) -> Collapse:
    """Return how far features have collapsed to their class means (neural collapse) and how many dimensions they use.

    W is the mean covariance within classes, and B the covariance of the class means, with every class counted once.
    For batches or several processes, use `Geometry(..., moments=True).collapse()`, which gives the same numbers.

    Args:
        features: (N, D) or (N, D, 1, 1).
        labels: (N,) or (N, 1) integers of at least 2 classes.
        ignore_index: rows with this label are excluded.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> result = collapse(features, torch.tensor([0, 0, 1, 1]))
        >>> round(result.nc1, 4), round(result.effective_rank, 4), result.class_cosine
        (0.0, 1.0, 0.0)
    """
    x, ids = _labeled_rows(features, labels, ignore_index)
    return measure(x, torch.unique(ids, return_inverse=True)[1], moments=True).collapse()


def _nc1(within: Tensor, means: Tensor) -> float:
    """Return trace(within @ pinv(between)) / C from the centered class means (C, D); inf if all means are equal."""
    _, sizes, directions = torch.linalg.svd(means, full_matrices=False)
    used = sizes > torch.finfo(sizes.dtype).eps * max(means.shape) * sizes.max()
    sizes, directions = sizes[used], directions[used]
    if not len(sizes):
        return float("inf")
    return float(((directions @ within * directions).sum(1) / sizes.square()).sum())


def _effective_rank(covariance: Tensor) -> float:
    """Return exp of the entropy of the normalized square roots of the eigenvalues; 0 if nothing varies."""
    values = torch.linalg.eigvalsh(covariance)
    values = values[values > torch.finfo(values.dtype).eps * len(values) * values.max()].sqrt()
    shares = values / values.sum()
    return float((-(shares * shares.log()).sum()).exp()) if len(values) else 0.0


class Retrieval(NamedTuple):
    """Quality of the ranking of all other samples by cosine similarity, averaged over the samples."""

    recall_at_1: float
    """Share of samples whose nearest neighbor has the same class."""
    map_at_r: float
    """Mean average precision at R, where R is the number of other samples of the same class."""
    r_precision: float
    """Share of the same class among the R nearest neighbors."""


@torch.no_grad()
def retrieval(features: Tensor, labels: Tensor, *, ignore_index: int = IGNORE_INDEX) -> Retrieval:
    """Return Recall@1, MAP@R and R-precision, with every sample as a query for all others.

    Samples that are alone in their class are not queries, but can be retrieved. Equal similarities count as
    wrong: a sample of the same class ranks behind samples of other classes with the same similarity, so that constant
    features score 0. Similarities are computed a block of rows at a time.

    Args:
        features: (N, D) or (N, D, 1, 1).
        labels: (N,) or (N, 1) integers of at least 2 classes, of which at least one has 2 samples.
        ignore_index: rows with this label are excluded.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.5, 0.5]])
        >>> retrieval(features, torch.tensor([0, 0, 1, 1]))
        Retrieval(recall_at_1=0.75, map_at_r=0.75, r_precision=0.75)
    """
    x, ids = _labeled_rows(features, labels, ignore_index)
    order = ids.argsort(stable=True)  # samples of a class become neighbors in memory
    x, ids = _unit(x[order]), ids[order]
    _, counts = torch.unique_consecutive(ids, return_counts=True)
    _check_classes(counts, "retrieval")
    if int(counts.max()) < 2:
        raise LabelError(
            "retrieval needs a class with at least two samples, but every class has one: pass more samples."
        )
    ends = counts.cumsum(0).repeat_interleave(counts)
    starts = ends - counts.repeat_interleave(counts)
    sums = torch.zeros(3, dtype=accumulation_dtype(x), device=x.device)
    for rows in _blocks(x, len(x)):
        similarities = x[rows] @ x.T
        _rank_ties_last(similarities, rows, starts[rows], ends[rows])
        sums += _retrieved(similarities, starts[rows], ends[rows])
    queries = int(counts[counts > 1].sum())
    return Retrieval(*(sums / queries).tolist())


def _rank_ties_last(similarities: Tensor, rows: slice, starts: Tensor, ends: Tensor) -> None:
    """Lower same-class similarities by one unit of rounding, and exclude each sample from its ranking, in place."""
    lowest = similarities.new_tensor(-torch.inf)
    ranges = torch.unique_consecutive(torch.stack([starts, ends], dim=1), dim=0)
    for start, end in ranges.tolist():
        block = similarities[max(0, start - rows.start) : end - rows.start, start:end]
        block.copy_(block.nextafter(lowest))
    similarities.diagonal(rows.start).fill_(-torch.inf)


def _retrieved(similarities: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Return (3,): sums of recall at 1, average precision at R and R-precision over the rows with R > 0."""
    limits = ends - starts - 1
    longest = max(1, int(limits.max()))
    nearest = similarities.topk(longest, dim=1).indices
    same = (nearest >= starts[:, None]) & (nearest < ends[:, None])
    ranks = torch.arange(1, longest + 1, device=same.device)
    if int(limits.min()) < longest:
        same &= (ranks <= limits[:, None]) & (limits > 0)[:, None]
    hits = same.to(similarities.dtype)  # counts up to 2^24 are exact
    precisions = hits.cumsum(1).div_(ranks).mul_(hits)
    wide, limits = accumulation_dtype(similarities), limits.clamp(min=1)
    shares = [(values.sum(1, dtype=wide) / limits).sum() for values in (precisions, hits)]
    return torch.stack([same[:, 0].sum(dtype=wide), *shares])


class Neighbors(NamedTuple):
    """Accuracy of classifiers that need no training, on cosine similarities."""

    knn: float
    """Accuracy of the weighted vote of the k nearest training samples."""
    ncm: float
    """Accuracy of the nearest class mean of the unit training features."""


@torch.no_grad()
def neighbors(
    train: Tensor,
    train_labels: Tensor,
    test: Tensor,
    test_labels: Tensor,
    *,
    k: int = 20,
    temperature: float = 0.07,
    ignore_index: int = IGNORE_INDEX,
) -> Neighbors:
    """Return the accuracies of k nearest neighbors and of the nearest class mean.

    A neighbor with cosine similarity `c` votes for its class with weight `exp(c / temperature)`; ties go to the lower
    class id. The class means are means of unit features, compared by Euclidean distance. Similarities are computed a
    block of rows at a time.

    Args:
        train: (N, D) features.
        train_labels: (N,) integers.
        test: (M, D) features.
        test_labels: (M,) integers; a class that is absent from the training labels is never predicted.
        k: number of neighbors; all if there are fewer.
        temperature: a smaller value weights the nearest neighbors more.
        ignore_index: rows with this label are excluded.

    Example:
        >>> train, labels = torch.eye(2), torch.tensor([0, 1])
        >>> neighbors(train, labels, torch.tensor([[2.0, 1.0], [3.0, 1.0]]), torch.tensor([0, 1]), k=1)
        Neighbors(knn=0.5, ncm=0.5)
    """
    check_positive("temperature", temperature)
    check_positive("k", k)
    known, known_ids = _labeled_rows(train, train_labels, ignore_index)
    queries, query_ids = _labeled_rows(test, test_labels, ignore_index)
    if known.shape[1] != queries.shape[1]:
        raise FeatureError(
            f"training features have dimension {known.shape[1]} but test features {queries.shape[1]}: pass features of "
            "one layer."
        )
    known, queries = _unit(known), _unit(queries).to(known)
    classes, known_ids, counts = torch.unique(known_ids, return_inverse=True, return_counts=True)
    means = known.new_zeros(len(classes), known.shape[1]).index_add_(0, known_ids, known) / counts[:, None]
    hits = [0, 0]
    for rows in _blocks(queries, len(known)):
        similarities, nearest = (queries[rows] @ known.T).topk(min(k, len(known)), dim=1)
        weights = ((similarities - 1) / temperature).exp()
        votes = weights.new_zeros(len(weights), len(classes)).scatter_add_(1, known_ids[nearest], weights)
        nearness = queries[rows] @ means.T - means.square().sum(1) / 2
        for index, scores in enumerate((votes, nearness)):
            hits[index] += int((classes[scores.argmax(1)] == query_ids[rows]).sum())
    return Neighbors(*(count / len(queries) for count in hits))


class Reliability:
    """Sums of confidences, hits and losses of predictions, and the calibration errors computed from them.

    A prediction falls into one of `bins` intervals (low, high] of its confidence, the largest softmax probability.

    Args:
        bins: number of intervals of equal width.
        device: device of the sums, which are fp64 (fp32 on mps).

    Example:
        >>> reliability = Reliability().update(torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0]))
        >>> round(reliability.ece, 4), round(reliability.nll, 4)
        (0.3808, 1.1269)
    """

    def __init__(self, bins: int = 15, *, device: torch.device | str = "cpu") -> None:
        check_positive("bins", bins)
        self.bins = bins
        zeros = torch.zeros(bins, dtype=torch.float32, device=device)
        self.counts = zeros.to(accumulation_dtype(zeros))
        self.hits, self.confidences = torch.zeros_like(self.counts), torch.zeros_like(self.counts)
        self.losses = self.counts.new_zeros(2)

    @torch.no_grad()
    def update(self, logits: Tensor, labels: Tensor, ignore_index: int = IGNORE_INDEX) -> "Reliability":
        """Add a batch of (B, C) logits and (B,) labels; rows with the label `ignore_index` are excluded."""
        z, ids = _labeled_rows(logits, labels, ignore_index, "logits", empty=True)
        _check_logit_labels(z, ids)
        for block, targets in zip(torch.split(z, ROWS), torch.split(ids, ROWS), strict=True):
            log_p = F.log_softmax(block.to(accumulation_dtype(block)), dim=1)
            confidence, predicted = log_p.exp().max(1)
            index = (confidence * self.bins).ceil().long().sub(1).clamp(0, self.bins - 1).to(self.counts.device)
            nll = -log_p.gather(1, targets[:, None]).squeeze(1)
            brier = (log_p.exp() - F.one_hot(targets, z.shape[1])).square().sum(1)
            self.counts += torch.bincount(index, minlength=self.bins)
            self.hits.index_add_(0, index, (predicted == targets).to(self.hits))
            self.confidences.index_add_(0, index, confidence.to(self.hits))
            self.losses += torch.stack([nll.sum(), brier.sum()]).to(self.losses)
        return self

    def merge(self, other: "Reliability") -> "Reliability":
        """Add the sums of another `Reliability` with the same number of bins."""
        if other.bins != self.bins:
            raise OptionError(f"{other.bins} bins cannot be merged into {self.bins}: build both with the same bins.")
        for name, state in self.state_dict().items():
            state.add_(getattr(other, name).to(state))
        return self

    def all_reduce(self, group: Any = None) -> "Reliability":
        """Add the sums of all processes; a second call would count every sample again."""
        _all_reduce(self.state_dict(), group)
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """Return `counts`, `hits`, `confidences` (bins,) and `losses`, the sums of NLL and Brier score."""
        return {name: getattr(self, name) for name in ("counts", "hits", "confidences", "losses")}

    @property
    def gaps(self) -> Tensor:
        """(bins,): accuracy minus mean confidence of each bin; 0 for empty bins."""
        return (self.hits - self.confidences) / self.counts.clamp(min=1)

    @property
    def ece(self) -> float:
        """Expected calibration error: the mean |accuracy - confidence|, weighted by the samples of each bin."""
        return float((self.gaps.abs() * self.counts).sum() / self._rows)

    @property
    def mce(self) -> float:
        """Maximum calibration error: the largest |accuracy - confidence| of a bin."""
        return float(self.gaps.abs().max())

    @property
    def nll(self) -> float:
        """Mean negative log-likelihood of the true class."""
        return float(self.losses[0] / self._rows)

    @property
    def brier(self) -> float:
        """Mean over samples of the squared distance between probabilities and one-hot label, summed over classes."""
        return float(self.losses[1] / self._rows)

    @property
    def _rows(self) -> Tensor:
        rows = self.counts.sum()
        if not rows:
            raise LabelError("there are no predictions to measure: update with at least one sample first.")
        return rows


class Calibration(NamedTuple):
    """Calibration of predicted probabilities."""

    ece: float
    """Expected calibration error."""
    mce: float
    """Maximum calibration error."""
    nll: float
    """Mean negative log-likelihood."""
    brier: float
    """Mean Brier score, summed over classes."""
    temperature: float
    """The temperature that minimizes the negative log-likelihood of one random half of the samples."""
    scaled_ece: float
    """Expected calibration error of the other half with that temperature."""


@torch.no_grad()
def calibration(
    logits: Tensor, labels: Tensor, *, bins: int = 15, seed: int = 0, ignore_index: int = IGNORE_INDEX
) -> Calibration:
    """Return calibration errors, proper scores, and the effect of temperature scaling.

    For batches or several processes, use `Reliability`, which gives the same numbers without the temperature.

    Args:
        logits: (N, C).
        labels: (N,) integers, at least 2 of them.
        bins: number of confidence intervals of equal width.
        seed: random seed of the halves for fitting and testing the temperature.
        ignore_index: rows with this label are excluded.

    Example:
        >>> logits, labels = torch.tensor([[4.0, 0.0], [0.0, 4.0]]).repeat(10, 1), torch.tensor([0, 0]).repeat(10)
        >>> result = calibration(logits, labels)
        >>> round(result.ece, 3), result.temperature > 10
        (0.482, True)
    """
    z, ids = _labeled_rows(logits, labels, ignore_index, "logits")
    if len(z) < 2:
        raise LabelError("calibration fits a temperature on half of the samples, but there is only 1: pass at least 2.")
    every = Reliability(bins, device=z.device).update(z, ids)
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed)).to(z.device)
    fitted, tested = order[: len(z) // 2], order[len(z) // 2 :]
    temperature = _fit_temperature(z[fitted], ids[fitted])
    scaled = Reliability(bins, device=z.device).update(z[tested] / temperature, ids[tested])
    return Calibration(every.ece, every.mce, every.nll, every.brier, temperature, scaled.ece)


def _fit_temperature(logits: Tensor, labels: Tensor, low: float = 1e-3, high: float = 1e3) -> float:
    """Return the temperature between `low` and `high` with the smallest negative log-likelihood.

    The likelihood is convex in 1 / temperature, so its derivative has one zero, which bisection finds.
    """
    z = logits.to(accumulation_dtype(logits))
    z = z - z.gather(1, labels[:, None])
    for _ in range(60):
        middle = math.sqrt(low * high)
        slope = ((z / middle).softmax(1) * z).sum()  # of the negative log-likelihood by 1 / temperature
        low, high = (middle, high) if slope > 0 else (low, middle)
    return math.sqrt(low * high)


class Detection(NamedTuple):
    """How well a score separates inliers, which should have higher scores, from outliers."""

    auroc: float
    """Probability that an inlier has a higher score than an outlier; ties count half."""
    fpr95: float
    """Share of outliers that are accepted at the highest threshold that accepts 95 % of the inliers."""
    aupr: float
    """Average precision, with the inliers as positives."""


@torch.no_grad()
def detection(scores_in: Tensor, scores_out: Tensor) -> Detection:
    """Return how well scores separate two groups of samples.

    Args:
        scores_in: scores of inliers, such as test images of known classes; should be higher.
        scores_out: scores of outliers.

    Example:
        >>> detection(torch.tensor([0.9, 0.8, 0.7, 0.4]), torch.tensor([0.6, 0.3]))
        Detection(auroc=0.875, fpr95=0.5, aupr=0.95)
    """
    inliers, outliers = (_scores(values, name) for values, name in ((scores_in, "inliers"), (scores_out, "outliers")))
    below = torch.searchsorted(outliers, inliers).to(inliers)
    up_to = torch.searchsorted(outliers, inliers, right=True).to(inliers)
    auroc = float(((below + up_to) / 2).mean() / len(outliers))
    threshold = inliers[len(inliers) - -(-95 * len(inliers) // 100)]
    fpr95 = float((outliers >= threshold).to(inliers).mean())
    levels, counts = torch.unique(inliers, return_counts=True)
    accepted_in = counts.flip(0).cumsum(0).to(inliers)
    accepted_out = len(outliers) - torch.searchsorted(outliers, levels.flip(0)).to(inliers)
    precisions = accepted_in / (accepted_in + accepted_out)
    return Detection(auroc, fpr95, float((counts.flip(0) * precisions).sum() / len(inliers)))


def _scores(values: Tensor, name: str) -> Tensor:
    """Return scores as a sorted vector in fp64 (fp32 on mps)."""
    if not isinstance(values, Tensor) or not values.is_floating_point():
        raise FeatureError(f"the scores of {name} must be a floating-point torch.Tensor, for example scores.float().")
    if not values.numel():
        raise FeatureError(f"there are no scores of {name}: pass at least one.")
    if values.isnan().any():
        raise FeatureError(f"the scores of {name} contain NaN: check the model that made them.")
    return values.flatten().to(accumulation_dtype(values)).sort().values


MEASURES = {
    "s": "s, mean cosine within classes",
    "d": "d, mean |cosine| between classes",
    "recall_at_1": "Recall@1",
    "map_at_r": "MAP@R",
    "r_precision": "R-precision",
    "nc1": "NC1, within / between variability",
    "effective_rank": "effective rank",
    "mean_class_cosine": "mean cosine of class means",
    "class_cosine": "largest cosine of class means",
    "ece": "ECE",
    "mce": "MCE",
    "nll": "negative log-likelihood",
    "brier": "Brier score",
    "temperature": "fitted temperature",
    "scaled_ece": "ECE with that temperature",
    "failure_auroc": "AUROC of errors by confidence",
}
"""The numbers of `summarize`, and their labels in `report`."""


def summarize(
    features: Tensor, labels: Tensor, logits: Tensor | None = None, *, ignore_index: int = IGNORE_INDEX
) -> dict[str, float]:
    """Return all measures of a labeled data set by name; measures that are undefined for it are omitted.

    Args:
        features: (N, D).
        labels: (N,) integers.
        logits: (N, C), for the measures of predictions.
        ignore_index: rows with this label are excluded.

    Example:
        >>> sorted(summarize(torch.eye(4), torch.tensor([0, 0, 1, 1])))[:4]
        ['class_cosine', 'd', 'effective_rank', 'map_at_r']
    """
    x, ids = _labeled_rows(features, labels, ignore_index)
    geometry = measure(x, torch.unique(ids, return_inverse=True)[1], moments=True)
    other = float(orthogonal_projection(x, ids, form="mean_abs").other) if geometry.negative else geometry.other()
    numbers = {"s": geometry.same, "d": other}
    for compute in (lambda: retrieval(x, ids), geometry.collapse):
        with suppress(LabelError):  # one class, or one sample per class
            numbers |= compute()._asdict()
    if logits is not None:
        z, ids = _labeled_rows(logits, labels, ignore_index, "logits")
        _check_logit_labels(z, ids)
        with suppress(LabelError):  # a single sample
            numbers |= calibration(z, ids)._asdict()
        numbers |= failure_detection(*z.softmax(1).max(1), ids)
    return numbers


def failure_detection(confidences: Tensor, predictions: Tensor, labels: Tensor) -> dict[str, float]:
    """Return `failure_auroc`, the AUROC of right vs wrong predictions by confidence; empty if all or none are right."""
    right = predictions == labels
    if right.all() or not right.any():
        return {}
    return {"failure_auroc": detection(confidences[right], confidences[~right]).auroc}


def report(
    features: Tensor, labels: Tensor, logits: Tensor | None = None, *, ignore_index: int = IGNORE_INDEX
) -> dict[str, float]:
    """Print all measures of a labeled data set as a table, and return them; see `summarize`.

    Example:
        >>> numbers = report(torch.eye(2).repeat(2, 1), torch.tensor([0, 1, 0, 1]))
        s, mean cosine within classes       1.0000
        d, mean |cosine| between classes    0.0000
        Recall@1                            1.0000
        MAP@R                               1.0000
        R-precision                         1.0000
        NC1, within / between variability   0.0000
        effective rank                      1.0000
        mean cosine of class means          0.0000
        largest cosine of class means       0.0000
    """
    numbers = summarize(features, labels, logits, ignore_index=ignore_index)
    for name, label in MEASURES.items():
        if name in numbers:
            print(f"{label:<33} {numbers[name]:8.4f}")
    return numbers


def _labeled_rows(
    x: Tensor, labels: Tensor, ignore_index: int, name: str = "features", empty: bool = False
) -> tuple[Tensor, Tensor]:
    """Return finite (N, D) rows and their (N,) class ids, without ignored rows; N > 0 unless `empty` is allowed."""
    x = check_vectors(x, name).detach()
    ids = as_integers(labels, x)
    kept = ids != ignore_index
    x, ids = (x, ids) if kept.all() else (x[kept], ids[kept])
    if not len(x) and not empty:
        raise FeatureError(f"there are no {name} to measure: pass at least one row that is not ignored.")
    if not x.isfinite().all():
        raise FeatureError(f"the {name} contain NaN or infinite values: check the model and its input.")
    if len(ids) and int(ids.min()) < 0:
        lowest = int(ids.min())
        raise LabelError(
            f"label {lowest} is negative: number classes from 0 and label excluded rows ignore_index ({ignore_index}), "
            f"or pass ignore_index={lowest}."
        )
    return x, ids


def _check_logit_labels(logits: Tensor, labels: Tensor) -> None:
    if len(labels) and int(labels.max()) >= logits.shape[1]:
        raise LabelError(
            f"label {int(labels.max())} is out of range: the logits have {logits.shape[1]} classes; "
            "pass the logits of all classes, or check the labels."
        )


def _check_classes(counts: Tensor, name: str) -> None:
    if len(counts) < 2:
        raise LabelError(f"{name} compares classes, but all samples have the same class: pass at least 2 classes.")


def _unit(x: Tensor) -> Tensor:
    return x * inverse_norms(x, None)[:, None]


def _blocks(x: Tensor, columns: int) -> Iterator[slice]:
    """Yield slices of rows, so that a block of rows by `columns` similarities has at most `BLOCK_BYTES`."""
    size = max(1, BLOCK_BYTES // (columns * x.element_size()))
    for start in range(0, len(x), size):
        yield slice(start, min(start + size, len(x)))


def _describe(shape: Sequence[int]) -> str:
    moments = " and moments" if shape[2] else ""
    return f"{shape[0]} classes, dimension {shape[1]}{moments}"


def _all_reduce(states: Mapping[str, Tensor], group: Any) -> None:
    """Sum tensors over processes in one message, in place; counts stay exact up to 2^53."""
    tensors, device = list(states.values()), message_device(group)
    flat = torch.cat([state.reshape(-1).to(device, torch.float64) for state in tensors])
    dist.all_reduce(flat, group=group)
    for state, piece in zip(tensors, torch.split(flat, [state.numel() for state in tensors]), strict=True):
        state.copy_(piece.view_as(state))


def _mean(total: Tensor, pairs: Tensor) -> float:
    return float(total) / int(pairs) if pairs else 0.0


def __getattr__(name: str) -> Any:
    """Create `GeometryMetric`, and with it import torchmetrics, on first access."""
    if name != "GeometryMetric":
        raise AttributeError(f"module 'opl.geometry' has no attribute '{name}'.")
    try:
        return _metric_class()
    except ImportError as error:
        raise ImportError(
            "opl.geometry.GeometryMetric needs torchmetrics, which is not installed: pip install torchmetrics, or use "
            "opl.geometry.Geometry, which needs torch alone."
        ) from error


@cache
def _metric_class() -> type[Any]:
    from torchmetrics import Metric

    class GeometryMetric(Metric):  # type: ignore[misc,unused-ignore]
        """The measures of `Geometry` as a torchmetrics `Metric`, over all batches of all processes.

        Use it as any metric: `update(features, labels)` on every batch, `compute()` at the end of the epoch, `reset()`
        before the next one; or `metric(features, labels)`, which also returns the values of the batch alone. It works
        in a `MetricCollection` and with `self.log_dict(metric)` of Lightning. `compute()` returns a dict of scalars:

        - `s` and `d`: the mean cosine over same-class pairs, and |mean cosine| over different-class pairs, which is the
          d of the loss if no feature is negative; otherwise it is smaller, and `summarize` computes the d of the loss.
        - `orthogonality`: `(1 - s) + d`; 0 is perfect.
        - `expected_orthogonality`: Eq. 8 of the paper, a sum over pairs of classes.

        Each is exact over all pairs of all batches, not a mean of batch values: the state is the class sums of the
        features, O(C*D) whatever the number of samples. They are added over processes, so DDP needs nothing else.
        `geometry()` returns the state as a `Geometry`, with the class matrices and the other forms of d. The sums are
        fp64; mps does not support fp64, so call `set_dtype(torch.float32)` before moving the metric there.

        Args:
            feature_dim: D.
            num_classes: C; labels are 0 to C - 1.
            ignore_index: rows with this label are excluded.
            options: the keyword arguments of `torchmetrics.Metric`.

        Example:
            >>> metric = GeometryMetric(2, num_classes=2)
            >>> for features, labels in [(torch.eye(2), torch.tensor([0, 1])), (torch.eye(2), torch.tensor([0, 0]))]:
            ...     metric.update(features, labels)
            >>> {name: round(value.item(), 4) for name, value in metric.compute().items()}
            {'s': 0.3333, 'd': 0.3333, 'orthogonality': 1.0, 'expected_orthogonality': 1.3333}
            >>> metric.geometry().class_cosines().shape
            torch.Size([2, 2])
            >>> metric.reset()
        """

        is_differentiable = False
        higher_is_better = None
        full_state_update = False

        def __init__(
            self, feature_dim: int, *, num_classes: int, ignore_index: int = IGNORE_INDEX, **options: Any
        ) -> None:
            super().__init__(**options)
            check_options(0.0, "mean", ignore_index)
            self.feature_dim, self.num_classes, self.ignore_index = feature_dim, num_classes, ignore_index
            for name, state in Geometry(feature_dim, num_classes=num_classes).state_dict().items():
                self.add_state(name, state, dist_reduce_fx="max" if name == "negative" else "sum")

        def geometry(self) -> Geometry:
            """Return the accumulated state as a `Geometry`, which also offers the class matrices."""
            seen = Geometry(self.feature_dim, num_classes=self.num_classes, device=self.device)
            return seen.load_state_dict({name: getattr(self, name) for name in seen.state_dict()})

        def update(self, features: Tensor, labels: Tensor) -> None:
            """Add a batch."""
            for name, state in self.geometry().update(features, labels, self.ignore_index).state_dict().items():
                setattr(self, name, state)

        def compute(self) -> dict[str, Tensor]:
            """Return s, d (in the form `"abs_mean"`), orthogonality and Eq. 8 by name."""
            seen = self.geometry()
            numbers = {
                "s": seen.same,
                "d": seen.other(),
                "orthogonality": seen.orthogonality(),
                "expected_orthogonality": seen.expected_orthogonality(),
            }
            return {name: seen.unit_sums.new_tensor(number) for name, number in numbers.items()}

    GeometryMetric.__qualname__ = "GeometryMetric"  # so that instances can be pickled
    return GeometryMetric
