"""Methods, one file each: its settings, and the objective `objective(model, batch) -> Terms` that they build."""

from .cross_entropy import CrossEntropy
from .cross_entropy_opl import CrossEntropyOPL

Method = CrossEntropy | CrossEntropyOPL

__all__ = ["CrossEntropy", "CrossEntropyOPL", "Method"]
