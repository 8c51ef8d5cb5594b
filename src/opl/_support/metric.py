"""`Geometry` as a torchmetrics metric: `opl.geometry.GeometryMetric`, created on first access."""

from functools import cache
from typing import Any, ClassVar

from torch import Tensor
from torchmetrics import Metric

from ..functional import IGNORE_INDEX, check_options


class BaseGeometryMetric(Metric):  # type: ignore[misc,unused-ignore]
    """A torchmetrics `Metric` of s, d, orthogonality and Eq. 8 over all batches of all processes.

    The sums are fp64; mps does not support fp64, so call `set_dtype(torch.float32)` before moving the metric there.

    Args:
        num_classes: C; labels are 0 to C - 1.
        feature_dim: D.
        ignore_index: rows with this label are excluded.
        options: the keyword arguments of `torchmetrics.Metric`.

    Example:
        >>> metric = GeometryMetric(num_classes=2, feature_dim=2)
        >>> metric.update(torch.eye(2), torch.tensor([0, 1]))
        >>> metric.compute()["d"]
        tensor(0., dtype=torch.float64)
    """

    geometry_class: ClassVar[type[Any]]
    is_differentiable = False
    higher_is_better = None
    full_state_update = False

    def __init__(self, num_classes: int, feature_dim: int, ignore_index: int = IGNORE_INDEX, **options: Any) -> None:
        super().__init__(**options)
        check_options(0.0, "mean", ignore_index)
        self.shape, self.ignore_index = (num_classes, feature_dim), ignore_index
        for name, state in self.geometry_class(*self.shape).state_dict().items():
            self.add_state(name, state, dist_reduce_fx="max" if name == "negative" else "sum")

    def geometry(self) -> Any:
        """Return the accumulated state as a `Geometry`, which also offers the class matrices."""
        seen = self.geometry_class(*self.shape, device=self.device)
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
