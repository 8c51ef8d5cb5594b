"""`Geometry` for people who use torchmetrics: `opl.geometry.GeometryMetric`, made when it is first asked for."""

from functools import cache
from typing import Any, ClassVar

from torch import Tensor
from torchmetrics import Metric

from ..functional import IGNORE_INDEX, check_options


class BaseGeometryMetric(Metric):  # type: ignore[misc,unused-ignore]
    """s, d, orthogonality and Eq. 8 of all batches on all processes, as a torchmetrics `Metric`.

    The sums are fp64; for mps, which has none, call `set_dtype(torch.float32)` before moving it there.

    Args:
        num_classes: C; labels are 0 to C - 1.
        feature_dim: D.
        ignore_index: rows with this label take no part.
        options: those of every torchmetrics metric.

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
        """A copy of what was seen, which has the matrices too."""
        seen = self.geometry_class(*self.shape, device=self.device)
        return seen.load_state_dict({name: getattr(self, name) for name in seen.state_dict()})

    def update(self, features: Tensor, labels: Tensor) -> None:
        """Add a batch."""
        for name, state in self.geometry().update(features, labels, self.ignore_index).state_dict().items():
            setattr(self, name, state)

    def compute(self) -> dict[str, Tensor]:
        """The numbers, d as `"abs_mean"`."""
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
    """The metric of a geometry class, as a class of the module that offers it."""
    content = {"geometry_class": geometry_class, "__module__": module, "__doc__": BaseGeometryMetric.__doc__}
    return type("GeometryMetric", (BaseGeometryMetric,), content)
