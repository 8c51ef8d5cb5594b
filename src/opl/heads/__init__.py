"""Classifier heads, one file each: `head(features, labels=None) -> logits`; in training, labels enable the margin.

    loss = F.cross_entropy(head(features, labels), labels) + weight * opl_loss(features, labels)

A head is built as `ArcFaceHead(feature_dim, num_classes=..., ...)`; only the width of the features has no name. The
formula of each head is a pure function in its file, for instance `opl.heads.arcface.arcface`.
"""

from ._head import Head
from .a_softmax import ASoftmaxHead
from .arcface import ArcFaceHead
from .cosface import CosFaceHead
from .l_softmax import LSoftmaxHead
from .lgm import LGMHead
from .linear import LinearHead
from .rbf import RBFHead

__all__ = ["ASoftmaxHead", "ArcFaceHead", "CosFaceHead", "Head", "LGMHead", "LSoftmaxHead", "LinearHead", "RBFHead"]
