"""Architectures, one file each: frozen settings whose `build(channels, num_classes)` gives a module that returns an
`Output(features, logits)`, the features being exactly what its classifier `fc` takes."""

from ._network import Network
from .cifar_resnet import CifarResNet
from .digits import DigitsNet
from .mnist import MnistNet
from .resnet import ResNet
from .vgg import Vgg11
from .weights import load_weights

Model = CifarResNet | ResNet | Vgg11 | MnistNet | DigitsNet

__all__ = ["CifarResNet", "DigitsNet", "MnistNet", "Model", "Network", "ResNet", "Vgg11", "load_weights"]
