"""Loss functions, one file each: the formula as a pure function, then a thin module around it.

On features, `loss(features, labels)`: OPL, Center, OLE, Perpetual OPL, NT-Xent. On logits, `loss(logits, labels)`:
Focal, class-balanced Focal, logit adjustment, Anchor, and for noisy labels Lq and truncated Lq. On class activation
maps: HNC (`NegativeCAMLoss`). For distillation from a teacher: `DistillationProjectionLoss` on features,
`KnowledgeDistillationLoss` on logits. Heads with margins are in `opl.heads`.
The pure functions are imported from their files, for instance `opl.losses.focal.focal`. `opl.losses.metric_learning` is
OPL for pytorch-metric-learning.

Settings are passed by name, in all losses and heads. Every loss has `ignore_index`, and a `reduction` unless its value
belongs to the batch (OPL, OLE, Perpetual OPL, NT-Xent).
"""

from .anchor import AnchorLoss
from .center import CenterLoss, update_centers
from .class_balanced import ClassBalancedFocalLoss, class_balanced_weights
from .distillation import DistillationProjectionLoss, distillation_projection
from .focal import FocalLoss
from .knowledge import KnowledgeDistillationLoss, knowledge_distillation
from .logit_adjustment import LogitAdjustmentLoss, class_log_priors
from .negative_cam import NegativeCAMLoss, class_activation_maps
from .nt_xent import NTXentLoss
from .ole import OLELoss
from .perpetual import PerpetualProjectionLoss
from .projection import OrthogonalProjectionLoss
from .queue import Queue
from .truncated import GeneralizedCrossEntropyLoss, TruncatedLoss

__all__ = [
    "AnchorLoss",
    "CenterLoss",
    "ClassBalancedFocalLoss",
    "DistillationProjectionLoss",
    "FocalLoss",
    "GeneralizedCrossEntropyLoss",
    "KnowledgeDistillationLoss",
    "LogitAdjustmentLoss",
    "NTXentLoss",
    "NegativeCAMLoss",
    "OLELoss",
    "OrthogonalProjectionLoss",
    "PerpetualProjectionLoss",
    "Queue",
    "TruncatedLoss",
    "class_activation_maps",
    "class_balanced_weights",
    "class_log_priors",
    "distillation_projection",
    "knowledge_distillation",
    "update_centers",
]
