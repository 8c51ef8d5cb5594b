"""Measures of a feature space: s, d, orthogonality, and the similarity between classes.

A whole data set takes one pass with any batch size: only per-class sums are kept, O(C*D), and these add up over batches
and processes. The sums S_c of the unit features and the counts n_c give every mean over pairs exactly, without visiting
a pair: the cosines within class c sum to `|S_c|^2 - n_c`, those between c and c' to `S_c . S_c'`.

**Conventions** are those of the loss. A pair is two different samples; a mean over no pairs is 0. A zero feature vector
has no direction: its cosines are 0, and its pairs count. Scalars are Python floats, matrices are (C, C) tensors.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, get_args

import torch
import torch.distributed as dist
from torch import Tensor

from ._kernels.distributed import message_device
from ._kernels.normalize import accumulation_dtype, inverse_norms
from ._kernels.validate import validate
from .errors import DistributedError, FeatureError, LabelError, OptionError, did_you_mean
from .functional import IGNORE_INDEX, Form, check_options

Reduction = Literal["sum", "mean"]
Average = Literal["raw", "unit"]

ROWS = 4096  # rows processed at a time, so that a whole data set in one call is not copied to fp64 at once


class Geometry:
    """Per-class feature sums of a data set, and the measures computed from them.

    Args:
        feature_dim: D.
        num_classes: C; labels are 0 to C - 1, and not every class needs to appear.
        device: device of the sums, which are fp64 (fp32 on mps, which has no fp64); by default that of the first batch.

    Example:
        >>> geometry = Geometry(2, num_classes=2)
        >>> for features, labels in [(torch.eye(2), torch.tensor([0, 1])), (torch.eye(2), torch.tensor([0, 0]))]:
        ...     _ = geometry.update(features, labels)
        >>> round(geometry.same, 4), round(geometry.other(), 4)
        (0.3333, 0.3333)
    """

    def __init__(self, feature_dim: int, *, num_classes: int, device: torch.device | str | None = None) -> None:
        for name, value in (("num_classes", num_classes), ("feature_dim", feature_dim)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionError(f"{name} is {value!r}: give a whole number of at least 1.")
        self.num_classes, self.feature_dim, self._placed = num_classes, feature_dim, device is not None
        with torch.inference_mode(False):  # inference tensors cannot be updated in place outside inference mode
            self.counts = torch.zeros(num_classes, dtype=torch.long, device=device or "cpu")
            self.directed = torch.zeros_like(self.counts)
            self.negative = self.counts.new_zeros(())
            self.unit_sums = self.counts.new_zeros(num_classes, feature_dim, dtype=accumulation_dtype(self.counts))
            self.raw_sums = torch.zeros_like(self.unit_sums)

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
                f"features have {x.shape[1]} numbers a row and this geometry {self.feature_dim}: build it with "
                f"feature_dim={x.shape[1]}, or give the layer that it was built for."
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
                f"labels are soft, of shape {tuple(labels.shape)}: a sample belongs to one class here; give its "
                "integer label, for instance labels.argmax(1)."
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
            there = Geometry(self.feature_dim, num_classes=self.num_classes, device=device).load_state_dict(
                self.state_dict()
            )
            vars(self).update(there.state_dict())
        self._placed = True

    def _add(self, x: Tensor, ids: Tensor) -> None:
        pointless = inverse_norms(x, None) == 0  # tested in the dtype of the features, as in the loss
        x, pointless = x.to(self.unit_sums), pointless.to(self.counts.device)
        self.unit_sums.index_add_(0, ids, x * inverse_norms(x, pointless)[:, None])
        self.raw_sums.index_add_(0, ids, x)
        self.counts.index_add_(0, ids, torch.ones_like(ids))
        self.directed.index_add_(0, ids, (~pointless).long())
        self.negative |= (x < 0).any()

    def merge(self, other: "Geometry") -> "Geometry":
        """Add the sums of another geometry, for instance from another process.

        Example:
            >>> one, two = Geometry(2, num_classes=2), measure(torch.eye(2), torch.tensor([0, 1]))
            >>> one.merge(two).counts
            tensor([1, 1])
        """
        if not isinstance(other, Geometry):
            raise OptionError(f"a {type(other).__name__} cannot be merged into a Geometry: give another Geometry.")
        if (other.num_classes, other.feature_dim) != (self.num_classes, self.feature_dim):
            raise OptionError(
                f"a geometry of {other.num_classes} classes and {other.feature_dim} numbers cannot be merged into one "
                f"of {self.num_classes} and {self.feature_dim}: build both with the same num_classes and feature_dim."
            )
        self._place(other.counts.device)
        for name, mine in self.state_dict().items():
            mine.add_(getattr(other, name).to(mine))
        self.negative.clamp_(max=1)
        return self

    def all_reduce(self, group: Any = None) -> "Geometry":
        """Merge the geometries of all processes into each of them; a second call would count every sample again."""
        device = message_device(group)
        shape = torch.tensor([self.num_classes, self.feature_dim], device=device)
        shapes = shape.new_empty(dist.get_world_size(group), 2)
        dist.all_gather(list(shapes.unbind(0)), shape, group=group)
        for rank, theirs in enumerate(shapes.tolist()):
            if theirs != shape.tolist():
                raise DistributedError(
                    f"process {rank} has a geometry of {theirs[0]} classes and {theirs[1]} numbers, this one of "
                    f"{self.num_classes} and {self.feature_dim}: build all with the same num_classes and feature_dim."
                )
        states = self.state_dict().values()
        flat = torch.cat([state.reshape(-1).to(device, torch.float64) for state in states])  # counts stay exact to 2^53
        dist.all_reduce(flat, group=group)
        for state, piece in zip(states, torch.split(flat, [state.numel() for state in states]), strict=True):
            state.copy_(piece.view_as(state))
        self.negative.clamp_(max=1)
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """Return `unit_sums`, `raw_sums` (C, D), `counts`, `directed` (nonzero rows; C,) and the flag `negative`."""
        return {name: getattr(self, name) for name in ("unit_sums", "raw_sums", "counts", "directed", "negative")}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> "Geometry":
        """Replace the sums with a copy of saved ones."""
        own = self.state_dict()
        shapes = {name: tuple(value.shape) for name, value in state.items()}
        expected = {name: tuple(value.shape) for name, value in own.items()}
        if shapes != expected:
            raise OptionError(f"the state holds {shapes}: a geometry like this one takes {expected}.")
        for name, mine in own.items():
            mine.copy_(state[name])
        return self

    @property
    def same(self) -> float:
        """The paper's s: the mean cosine over all same-class pairs."""
        pairs = (self.counts * (self.counts - 1)).sum()
        return _mean(self._within().sum(), pairs)

    def other(self, form: Form = "abs_mean") -> float:
        """Return the paper's d over all pairs of different classes, computed as in the loss.

        Args:
            form: `"abs_mean"`, |mean of cos|; `"mean"`, signed; `"mean_abs"`, the mean of |cos|, which class sums can
                give only if no feature is negative, because then cos = |cos|.
        """
        check_options(0.0, form, IGNORE_INDEX)
        if form == "mean_abs" and self.negative:
            raise OptionError(
                "form='mean_abs' needs every pair once a feature is negative, and sums of classes cannot know it: use "
                "form='abs_mean' or 'mean', or opl.orthogonal_projection on the features themselves."
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

    def _within(self) -> Tensor:
        """Return (C,) sums of the cosines within each class, subtracted per class so that few pairs stay accurate."""
        squares = self.unit_sums.square().sum(1)
        return torch.where(self.counts > 1, squares - self.directed, 0)

    def _without_absent(self, matrix: Tensor) -> Tensor:
        absent = self.counts == 0
        return matrix.masked_fill(absent[:, None] | absent, torch.nan)


def measure(
    features: Tensor, labels: Tensor, *, num_classes: int | None = None, ignore_index: int = IGNORE_INDEX
) -> Geometry:
    """Return the geometry of features that fit in one tensor.

    Args:
        features: (N, D) or (N, D, 1, 1).
        labels: (N,) or (N, 1) integers.
        num_classes: by default one more than the largest label.
        ignore_index: rows with this label are excluded.

    Example:
        >>> measure(torch.eye(2), torch.tensor([0, 1])).orthogonality()
        1.0
    """
    check_options(0.0, "mean", ignore_index)
    x, ids, ignored, _ = validate(features, labels, ignore_index)
    if num_classes is None:
        ids = ids if ignored is None else ids[~ignored]
        num_classes = max(1, int(ids.max()) + 1) if ids.numel() else 1
    return Geometry(x.shape[1], num_classes=num_classes).update(features, labels, ignore_index)


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
            "opl.geometry.GeometryMetric needs torchmetrics and it is not installed: pip install torchmetrics, or use "
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

        - `s` and `d`: the mean cosine over same-class pairs, and |mean cosine| over different-class pairs.
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
