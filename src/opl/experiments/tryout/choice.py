"""The methods that are compared, and the network and training settings for given images; flags override each."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...errors import OptionError
from ...functional import GAMMA, WEIGHT
from ...optim import SGD, Cosine
from ..data import UserImages
from ..methods import CrossEntropy, CrossEntropyOPL
from ..models import ResNet, load_pretrained
from ..models.resnet import Stem
from ..models.weights import find_weights
from ..recipe import Precision, Recipe
from ..scales import TRY
from ..types import Method
from .preferences import NETWORKS

LADDER = {"resnet-10-w16": 0, "resnet-10-w32": 1000, "resnet-18": 5000}
"""The candidate networks, and the number of training images from which each is considered."""
SIZES = (32, 64, 128, 224)
LARGE_SIZE = 64  # without an accelerator
STEMS: dict[Stem, int] = {"imagenet": 112, "half": 48, "cifar": 0}
"""The first layers, and the smallest image size that they are used for."""
LR, FINE_TUNING_LR = 0.1, 0.01  # at a batch of 128
STEPS, EPOCHS, FINE_TUNING_EPOCHS = 2000, (15, 60), (5, 20)  # if the time budget allows


@dataclass(frozen=True)
class Arm:
    """A method that is compared; everything else is equal."""

    label: str
    suffix: str
    """Suffix of the name of its recipe."""
    build: Callable[[float, float], Method]
    """Returns the method, given the weight and the gamma of OPL."""


ARMS = (
    Arm("CE", "ce", lambda weight, gamma: CrossEntropy()),
    Arm("CE+OPL", "opl", lambda weight, gamma: CrossEntropyOPL(weight=weight, gamma=gamma)),
)
"""The first arm is the baseline of the others."""


@dataclass(frozen=True)
class Choice:
    """All settings of the runs that the arms share."""

    network: str
    size: int
    batch_size: int
    lr: float
    epochs: int
    train_images: int = 0
    """Number of training images; 0 uses all."""
    flip: float = 0.5
    weight: float = WEIGHT
    gamma: float = GAMMA
    pretrained: str = ""
    stem: Stem | None = None
    """The first layers of pretrained weights; None chooses them by the size of the images."""
    precision: Precision = "32-true"

    def model(self) -> ResNet:
        """Return the network."""
        depth, width = NETWORKS[self.network]
        return ResNet(depth=depth, stem=self.stem or choose_stem(self.size), width=width)

    def recipe(self, arm: Arm, images: UserImages) -> Recipe:
        """Return the recipe of an arm on these images."""
        data = replace(images, images=self.train_images, padding=self.size // 8, flip=self.flip)
        return Recipe(
            name=f"{images.name}-{arm.suffix}",
            data=data,
            model=self.model(),
            method=arm.build(self.weight, self.gamma),
            optimizer=SGD(lr=self.lr, nesterov=True),
            schedule=Cosine(warmup=min(1.0, self.epochs / 5)),
            epochs=self.epochs,
            batch_size=self.batch_size,
            weights=self.pretrained,
            scale=TRY,
            precision=self.precision,
        )


def choose_size(side: int, large: bool) -> int:
    """Return the training size for images with this median side; `large` allows more than 64 pixels.

    Example:
        >>> choose_size(28, False), choose_size(500, False), choose_size(500, True)
        (28, 64, 224)
    """
    if side <= SIZES[0]:
        return max(8, side)
    affordable = [size for size in SIZES if large or size <= LARGE_SIZE]
    return max(size for size in affordable if size <= side)


def choose_stem(size: int) -> Stem:
    """Return the first layers for images of a size: larger images are downsampled earlier.

    Example:
        >>> choose_stem(32), choose_stem(64), choose_stem(224)
        ('cifar', 'half', 'imagenet')
    """
    return next(stem for stem, least in STEMS.items() if size >= least)


def choose_batch_size(train: int, classes: int) -> int:
    """Return the batch size: larger for many images, and so large that a batch has several images per class.

    Example:
        >>> choose_batch_size(300, 5), choose_batch_size(7000, 7), choose_batch_size(7000, 200)
        (32, 128, 256)
    """
    usual = 32 if train < 1000 else 64 if train < 5000 else 128
    while usual < min(2 * classes, 256) and usual <= train // 8:
        usual *= 2
    return usual


def choose_lr(batch_size: int, pretrained: bool) -> float:
    """Return the learning rate, in proportion to the batch size."""
    return round((FINE_TUNING_LR if pretrained else LR) * batch_size / 128, 5)


def wanted_epochs(train: int, batch_size: int, pretrained: bool) -> int:
    """Return the epochs that are worth their time: about 2,000 steps, within limits.

    Example:
        >>> wanted_epochs(7000, 128, False), wanted_epochs(300, 32, False), wanted_epochs(50_000, 128, False)
        (36, 60, 15)
    """
    least, most = FINE_TUNING_EPOCHS if pretrained else EPOCHS
    return max(least, min(most, STEPS // max(1, -(-train // batch_size))))


def network_of(weights: str, channels: int = 3) -> tuple[str, Stem]:
    """Return the network and the first layers that a file of weights fits.

    Raises:
        OptionError: the file cannot be read, or fits none of the networks.
    """
    find_weights(weights)
    errors = []
    for name, (depth, width) in NETWORKS.items():
        for stem in STEMS:
            try:
                load_pretrained(ResNet(depth=depth, stem=stem, width=width).build(channels, 2), weights)
            except OptionError as error:
                errors.append(error)
            else:
                return name, stem
    raise OptionError(f"--pretrained {weights!r} fits none of {', '.join(NETWORKS)}: {errors[-1]}")
