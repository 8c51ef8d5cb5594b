"""Training methods, one file per method: the settings, and the objective that they build.

An objective is called as `objective(model, batch) -> Terms`. Settings of auxiliary losses, criteria and heads are in
`auxiliaries`, `criteria` and `heads`, generated from the signatures of the library.
"""

from .adversarial import AdversarialTraining
from .auxiliaries import OLE, OPL, Auxiliary, Center, NegativeCAM, NTXent, OPLVariant, Perpetual
from .composite import Composite
from .criteria import Anchor, ClassBalancedFocal, Criterion, Focal, LogitAdjustment, Softmax
from .cross_entropy import CrossEntropy, CrossEntropyOPL
from .heads import LGM, RBF, ArcFace, ASoftmax, CosFace, HeadChoice, Linear, LSoftmax
from .mart import MART
from .pruning import Pruning
from .rotations import Rotations
from .rsc import RSC
from .self_supervision import SelfSupervision
from .teacher_student import Distillation, TwinDistillation
from .trades import TRADES
from .truncated_lq import TruncatedLq

METHODS = (
    CrossEntropy,
    CrossEntropyOPL,
    Composite,
    Distillation,
    Rotations,
    TruncatedLq,
    TwinDistillation,
    AdversarialTraining,
    MART,
    TRADES,
    RSC,
    Pruning,
    SelfSupervision,
)
"""The methods available to recipes."""

__all__ = [
    "LGM",
    "MART",
    "METHODS",
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
    "HeadChoice",
    "LSoftmax",
    "Linear",
    "LogitAdjustment",
    "NTXent",
    "NegativeCAM",
    "OPLVariant",
    "Perpetual",
    "Pruning",
    "Rotations",
    "SelfSupervision",
    "Softmax",
    "TruncatedLq",
    "TwinDistillation",
]
