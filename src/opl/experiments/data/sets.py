"""The data sets: frozen values whose fields are a recipe's flags, and that load themselves as `Splits`.

Besides `load`, each has what the other rooms need to know: `name`, `channels`, `size` (of the square images),
`num_classes`, `mean` and `std` of each channel, and `augment`, what is done to training images.
"""

from .cifar import Cifar10, Cifar100
from .digits import Digits
from .domains import DomainFolder, Pacs
from .few_shot import CifarFS, MiniImageNet, TieredImageNet
from .stored import FashionMnist, Mnist
from .synthetic import Synthetic
from .synthetic_domains import SyntheticDomains

Domains = Pacs | DomainFolder | SyntheticDomains
DataSet = (
    Digits | Mnist | FashionMnist | Cifar10 | Cifar100 | CifarFS | MiniImageNet | TieredImageNet | Synthetic | Domains
)

__all__ = [
    "Cifar10",
    "Cifar100",
    "CifarFS",
    "DataSet",
    "Digits",
    "DomainFolder",
    "Domains",
    "FashionMnist",
    "MiniImageNet",
    "Mnist",
    "Pacs",
    "Synthetic",
    "SyntheticDomains",
    "TieredImageNet",
]  # fmt: skip
