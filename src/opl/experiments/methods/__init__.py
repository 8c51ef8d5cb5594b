"""Methods, one file each: its settings, and the objective `objective(model, batch) -> Terms` that they build."""

from .adversarial import AdversarialTraining
from .auxiliaries import OLE, OPL, Auxiliary, Center, NegativeCAM, Perpetual
from .composed import Composite
from .criteria import Anchor, ClassBalancedFocal, Criterion, Focal, Softmax
from .cross_entropy import CrossEntropy
from .cross_entropy_opl import CrossEntropyOPL
from .distilled import Distillation
from .heads import LGM, RBF, ArcFace, ASoftmax, CosFace, HeadSettings, Linear
from .mart import MART
from .rotations import Rotations
from .rsc import RSC
from .trades import TRADES
from .truncated import TruncatedLq
from .turned_twins import TwinDistillation

Method = (
    CrossEntropy
    | CrossEntropyOPL
    | Composite
    | Distillation
    | Rotations
    | TruncatedLq
    | TwinDistillation
    | AdversarialTraining
    | MART
    | TRADES
    | RSC
)

__all__ = [
    "LGM",
    "MART",
    "OLE",
    "OPL",
    "RBF",
    "RSC",
    "TRADES",
    "ASoftmax",
    "AdversarialTraining",
    "Anchor",
    "ArcFace",
    "Auxiliary",
    "Center",
    "ClassBalancedFocal",
    "Composite",
    "CosFace",
    "Criterion",
    "CrossEntropy",
    "CrossEntropyOPL",
    "Distillation",
    "Focal",
    "HeadSettings",
    "Linear",
    "Method",
    "NegativeCAM",
    "Perpetual",
    "Rotations",
    "Softmax",
    "TruncatedLq",
    "TwinDistillation",
]
