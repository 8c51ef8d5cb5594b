"""Classifier heads, one file each: `head(features, labels=None) -> logits`, with labels a margin while training.

loss = F.cross_entropy(head(features, labels), labels) + weight * opl_loss(features, labels)
"""

from ._head import Head
from .a_softmax import ASoftmaxHead, a_softmax
from .arcface import ArcFaceHead, arcface
from .cosface import CosFaceHead, cosface
from .lgm import LGMHead, gaussian, unlikelihood
from .linear import LinearHead
from .rbf import RBFHead, rbf

__all__ = [
    "ASoftmaxHead",
    "ArcFaceHead",
    "CosFaceHead",
    "Head",
    "LGMHead",
    "LinearHead",
    "RBFHead",
    "a_softmax",
    "arcface",
    "cosface",
    "gaussian",
    "rbf",
    "unlikelihood",
]
