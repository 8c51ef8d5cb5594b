"""What a user may set for `opl try`; whatever is not set is chosen. Needs no torch."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ..._ranges import CountOrZero, Fraction, NotNegative, Range, Seed
from ...errors import FolderError

NETWORKS = {
    "resnet-10-w16": (10, 16),
    "resnet-10-w32": (10, 32),
    "resnet-18": (18, 64),
    "resnet-34": (34, 64),
    "resnet-50": (50, 64),
}
"""Depth and first width of each network, from the cheapest on."""
Network = Literal["auto", "resnet-10-w16", "resnet-10-w32", "resnet-18", "resnet-34", "resnet-50"]
TrainingPrecision = Literal["auto", "32-true", "bf16-mixed"]


@dataclass(frozen=True)
class Preferences:
    """Settings of the runs; 0, `auto` and None are chosen by the images and the time."""

    network: Network = "auto"
    """With pretrained weights it is theirs."""
    size: Annotated[int, Range(0, 1024)] = 0
    """Height and width of the images; 0: by the pictures, without an accelerator at most 64."""
    epochs: CountOrZero = 0
    """0: as many as are worth their time and fit."""
    seeds: CountOrZero = 0
    """Runs of each method; 0: as many as fit, two to five if possible."""
    batch_size: CountOrZero = 0
    lr: NotNegative = 0.0
    """Learning rate of SGD at the start of a cosine."""
    weight: NotNegative | None = None
    """The weight of OPL, lambda; the paper's 1."""
    gamma: float | None = None
    """The weight of d in OPL; the paper's 0.5."""
    flip: Fraction | None = None
    """Probability that a training image is mirrored; chosen: 0.5 for color, 0 for gray, which may be text."""
    pretrained: str = ""
    """Weights to start from: a .safetensors or .pth file with torchvision's names, or a Hub id."""
    precision: TrainingPrecision = "auto"
    """auto: bf16-mixed where that is faster by a third or more, as measured."""
    images: CountOrZero = 20_000
    """The most pictures that are used, a fraction of each class; 0 uses all."""
    split_seed: Seed = 0
    """Of which pictures are held out, where the data has no parts of its own."""
    image_column: str = ""
    """Of a table; by default image, img, path, file and the like."""
    label_column: str = ""
    """Of a table; by default label, class, category and the like."""

    def check_against(self, chosen: dict[str, Any], folder: object) -> None:
        """Raise an error if a setting differs from what an earlier run of the same folder chose."""
        default = Preferences()
        for name, value in vars(self).items():
            if value != vars(default)[name] and name in chosen and chosen[name] != value:
                raise FolderError(
                    f"{folder} was begun with --{name.replace('_', '-')} {chosen[name]}, and {value} is given now: "
                    "leave it out to resume, or give another --out."
                )
