"""`Geometry` as a torchmetrics metric: `opl.geometry.GeometryMetric`, created on first access."""

from functools import cache
from typing import Any, ClassVar

from torch import Tensor
from torchmetrics import Metric

from ..functional import IGNORE_INDEX, check_options


class BaseGeometryMetric(Metric):  # type: ignore[misc,unused-ignore]
    """The measures of `Geometry` as a torchmetrics `Metric`, over all batches of all processes.

    Use it as any metric: `update(features, labels)` on every batch, `compute()` at the end of the epoch, `reset()`
    before the next one; or `metric(features, labels)`, which also returns the values of the batch alone. It works in a
    `MetricCollection` and with `self.log_dict(metric)` of Lightning. `compute()` returns a dict of scalars:

    - `s` and `d`: the mean cosine over same-class pairs, and |mean cosine| over different-class pairs.
    - `orthogonality`: `(1 - s) + d`; 0 is perfect.
    - `expected_orthogonality`: Eq. 8 of the paper, a sum over pairs of classes.

    Each is exact over all pairs of all batches, not a mean of batch values: the state is the class sums of the
    features, O(C*D) whatever the number of samples. They are added over processes, so DDP needs nothing else.
    `geometry()` returns the state as a `Geometry`, with the class matrices and the other forms of d. The sums are fp64;
    mps does not support fp64, so call `set_dtype(torch.float32)` before moving the metric there.

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

    geometry_class: ClassVar[type[Any]]
    is_differentiable = False
    higher_is_better = None
    full_state_update = False

    def __init__(self, feature_dim: int, *, num_classes: int, ignore_index: int = IGNORE_INDEX, **options: Any) -> None:
        super().__init__(**options)
        check_options(0.0, "mean", ignore_index)
        self.feature_dim, self.num_classes, self.ignore_index = feature_dim, num_classes, ignore_index
        for name, state in self.geometry_class(feature_dim, num_classes=num_classes).state_dict().items():
            self.add_state(name, state, dist_reduce_fx="max" if name == "negative" else "sum")

    def geometry(self) -> Any:
        """Return the accumulated state as a `Geometry`, which also offers the class matrices."""
        seen = self.geometry_class(self.feature_dim, num_classes=self.num_classes, device=self.device)
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


@cache
def geometry_metric(geometry_class: type[Any], module: str) -> type[Any]:
    """Create the metric class for a geometry class, with `module` as its `__module__`."""
    content = {"geometry_class": geometry_class, "__module__": module, "__doc__": BaseGeometryMetric.__doc__}
    return type("GeometryMetric", (BaseGeometryMetric,), content)
