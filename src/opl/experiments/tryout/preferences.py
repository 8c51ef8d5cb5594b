"""The settings of `opl try` that users may choose. Needs no torch."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ..._ranges import CountOrZero, Fraction, NotNegative, Range, Seed
from ...errors import FolderError

RESNETS = {
    "resnet-10-w16": (10, 16),
    "resnet-10-w32": (10, 32),
    "resnet-18": (18, 64),
    "resnet-34": (34, 64),
    "resnet-50": (50, 64),
}
"""Depth and first width of each ResNet, the cheapest first."""
Network = Literal["auto", "efficientnet-lite0", "resnet-10-w16", "resnet-10-w32", "resnet-18", "resnet-34", "resnet-50"]
TrainingPrecision = Literal["auto", "32-true", "bf16-mixed"]


@dataclass(frozen=True)
class Preferences:
    """Settings of the runs; 0, `auto` and None let the images and the time budget decide."""

    network: Network = "auto"
    """The network; pretrained weights determine it."""
    weights: str = "auto"
    """Weights to start from: none, or a .safetensors or .pth file with torchvision's names, or a Hub id.

    auto: EfficientNet-Lite0 with ImageNet weights if the extra `pretrained` is installed and images have 48 pixels or
    more.
    """
    size: Annotated[int, Range(0, 1024)] = 0
    """Height and width of the images; 0: by the images and the machine."""
    epochs: CountOrZero = 0
    """Epochs per run; 0: as many as are useful and fit."""
    seeds: CountOrZero = 0
    """Runs per method; 0: as many as fit, two to five if possible."""
    batch_size: CountOrZero = 0
    """Images per step; 0: by the number of images and classes."""
    lr: NotNegative = 0.0
    """Peak learning rate; with pretrained weights, of all layers but the classifier. 0: by the batch size."""
    weight: NotNegative | None = None
    """The weight of OPL, the paper's lambda; by default 1, as in the paper."""
    gamma: NotNegative | None = None
    """The weight of d in OPL; by default 0.5, as in the paper."""
    flip: Fraction | None = None
    """Probability of a horizontal flip; default 0.5 for color, 0 for gray images, which may be text."""
    precision: TrainingPrecision = "auto"
    """Numeric precision; auto chooses bf16-mixed where it is at least a third faster."""
    images: CountOrZero = 20_000
    """The most images to use, the same fraction of every class; 0 uses all."""
    split_seed: Seed = 0
    """Random seed of the split, if the data has no split."""
    image_column: str = ""
    """Table column of the images; by default image, img, path, file or similar."""
    label_column: str = ""
    """Table column of the labels; by default label, class, category or similar."""

    def check_equal(self, chosen: dict[str, Any], folder: object) -> None:
        """Raise an error if a setting differs from the one in an earlier start of the same folder."""
        default = Preferences()
        for name, value in vars(self).items():
            value = "" if name == "weights" and value == "none" else value
            if value != vars(default)[name] and name in chosen and chosen[name] != value:
                raise FolderError(
                    f"{folder} was started with --{name.replace('_', '-')} {chosen[name]}, not {value}: omit the flag "
                    "to resume, or choose another folder with --out."
                )
