"""Architectures, one file per architecture: frozen settings with a method `build(channels, num_classes)`.

The module that it builds returns `Output(features, logits)`, where the features are the input of its classifier `fc`.
"""

from .cifar_resnet import CifarResNet
from .efficientnet_lite import EfficientNetLite0
from .exported import from_pretrained
from .fast_net import FastNet, WhitenedNetwork
from .madry_resnet import MadryResNet
from .network import Network, Standardize, prepend_standardize
from .neural_scale import NeuralScale, PreActResNet18, Vgg11
from .resnet import ResNet
from .resnet12 import ResNet12
from .small_networks import DigitsNet, MnistNet
from .sur_resnet import SurResNet
from .vit import ViT
from .weights import load_pretrained, load_weights
from .wide_resnet import WideResNet

MODELS = (
    CifarResNet,
    ResNet,
    ResNet12,
    Vgg11,
    PreActResNet18,
    NeuralScale,
    MnistNet,
    DigitsNet,
    WideResNet,
    MadryResNet,
    SurResNet,
    ViT,
    FastNet,
    EfficientNetLite0,
)
"""The architectures available to recipes."""

__all__ = [
    "MODELS",
    "CifarResNet",
    "DigitsNet",
    "EfficientNetLite0",
    "FastNet",
    "MadryResNet",
    "MnistNet",
    "Network",
    "NeuralScale",
    "PreActResNet18",
    "ResNet",
    "ResNet12",
    "Standardize",
    "SurResNet",
    "Vgg11",
    "ViT",
    "WhitenedNetwork",
    "WideResNet",
    "from_pretrained",
    "load_pretrained",
    "load_weights",
    "prepend_standardize",
]
