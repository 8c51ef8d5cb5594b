"""Network and training settings for some images: chosen by their size and number, each of them changed by a flag."""

from dataclasses import dataclass
from pathlib import Path

from ...errors import OptionError
from ...functional import GAMMA, WEIGHT
from ...optim import SGD, Cosine
from ..data.packed import PackedImages
from ..data.read.pack import PackFacts
from ..models import ResNet, load_pretrained
from ..models.resnet import Stem
from ..models.weights import find_weights
from ..recipe import Precision, Recipe
from ..scales import TRY
from .arms import Arm
from .preferences import NETWORKS

LADDER = {"resnet-10-w16": 0, "resnet-10-w32": 1000, "resnet-18": 5000}
"""The networks that are chosen from, and the training images that each needs."""
SIZES = (32, 64, 128, 224)
LARGE_SIZE = 64  # without an accelerator
STEMS: dict[Stem, int] = {"imagenet": 112, "half": 48, "cifar": 0}
"""The first layers, and from which size of images on they are taken."""
LR, FINE_TUNING_LR = 0.1, 0.01  # at a batch of 128
STEPS, EPOCHS, FINE_TUNING_EPOCHS = 2000, (15, 60), (5, 20)  # wanted, if there is time


@dataclass(frozen=True)
class Choice:
    """All settings of the runs but those of the arms."""

    network: str
    size: int
    batch_size: int
    lr: float
    epochs: int
    train_images: int = 0
    """Training images that are used; 0 uses all."""
    flip: float = 0.5
    weight: float = WEIGHT
    gamma: float = GAMMA
    pretrained: str = ""
    stem: Stem | None = None
    """The first layers of pretrained weights; otherwise they depend on the size of the images."""
    precision: Precision = "32-true"

    def model(self) -> ResNet:
        """The network."""
        depth, width = NETWORKS[self.network]
        return ResNet(depth=depth, stem=self.stem or choose_stem(self.size), width=width)

    def recipe(self, name: str, arm: Arm, facts: PackFacts, folder: Path) -> Recipe:
        """The recipe of an arm; `folder` is that of the images."""
        data = PackedImages(
            name=name,
            root=str(folder),
            key=facts.key,
            size=self.size,
            images=self.train_images,
            padding=self.size // 8,
            flip=self.flip,
        )
        return Recipe(
            name=f"{name}-{arm.suffix}",
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
    """The size of the images, given the usual side of the pictures; `large` if more than 64 pixels can be afforded.

    Example:
        >>> choose_size(28, False), choose_size(500, False), choose_size(500, True)
        (28, 64, 224)
    """
    if side <= SIZES[0]:
        return max(8, side)
    affordable = [size for size in SIZES if large or size <= LARGE_SIZE]
    return max(size for size in affordable if size <= side)


def choose_stem(size: int) -> Stem:
    """The first layers for images of a size: the larger these are, the sooner they are reduced.

    Example:
        >>> choose_stem(32), choose_stem(64), choose_stem(224)
        ('cifar', 'half', 'imagenet')
    """
    return next(stem for stem, least in STEMS.items() if size >= least)


def choose_batch_size(train: int, classes: int) -> int:
    """The batch size: larger for many images, and large enough that classes meet themselves in a batch.

    Example:
        >>> choose_batch_size(300, 5), choose_batch_size(7000, 7), choose_batch_size(7000, 200)
        (32, 128, 256)
    """
    usual = 32 if train < 1000 else 64 if train < 5000 else 128
    while usual < min(2 * classes, 256) and usual <= train // 8:
        usual *= 2
    return usual


def choose_lr(batch_size: int, pretrained: bool) -> float:
    """The learning rate, in proportion to the batch size."""
    return round((FINE_TUNING_LR if pretrained else LR) * batch_size / 128, 5)


def wanted_epochs(train: int, batch_size: int, pretrained: bool) -> int:
    """The epochs that are worth their time: about 2,000 steps, within limits.

    Example:
        >>> wanted_epochs(7000, 128, False), wanted_epochs(300, 32, False), wanted_epochs(50_000, 128, False)
        (36, 60, 15)
    """
    least, most = FINE_TUNING_EPOCHS if pretrained else EPOCHS
    return max(least, min(most, STEPS // max(1, -(-train // batch_size))))


def network_of(weights: str, channels: int = 3) -> tuple[str, Stem]:
    """The network and the first layers that a file of weights belongs to.

    Raises:
        OptionError: the file cannot be read, or belongs to none of the networks.
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
    raise OptionError(f"--pretrained {weights!r} fits none of {', '.join(NETWORKS)}; as the last one: {errors[-1]}")
