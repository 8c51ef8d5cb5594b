"""Orthogonal Projection Loss (OPL, ICCV 2021): cluster features of the same class, make classes orthogonal.

Add it to an existing training loop with one line:

    criterion = opl.regularize(nn.CrossEntropyLoss(), model)    # then: criterion(model(images), labels)

Submodules are imported on first use, so `import opl` is cheap and the command line starts without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import errors, functional, geometry, heads, losses, optim
    from .functional import Projection, orthogonal_projection
    from .losses.projection import OrthogonalProjectionLoss
    from .losses.queue import Queue
    from .plugin import FeatureTap, regularize
    from .schedules import AutoGamma, Ramp
    from .verification import verify

__version__ = "0.1.0"
__all__ = [
    "AutoGamma",
    "FeatureTap",
    "OrthogonalProjectionLoss",
    "Projection",
    "Queue",
    "Ramp",
    "__version__",
    "errors",
    "functional",
    "geometry",
    "heads",
    "losses",
    "optim",
    "orthogonal_projection",
    "regularize",
    "verify",
]

_HOME = {
    "AutoGamma": "schedules",
    "FeatureTap": "plugin",
    "OrthogonalProjectionLoss": "losses.projection",
    "Projection": "functional",
    "Queue": "losses.queue",
    "Ramp": "schedules",
    "orthogonal_projection": "functional",
    "regularize": "plugin",
    "verify": "verification",
}
_MODULES = {"errors", "functional", "geometry", "heads", "losses", "optim", "plugin"}


def __getattr__(name: str) -> Any:
    """Import the module that defines `name` on first access."""
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'opl' has no attribute '{name}': it has {', '.join(__all__)}.")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
