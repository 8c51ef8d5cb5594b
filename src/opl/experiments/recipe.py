"""A recipe: one frozen value with everything that determines the numbers of a run, convertible to and from JSON."""

from dataclasses import dataclass
from typing import Literal

from ..errors import OptionError
from ..optim import Optimizer, Schedule
from .scales import RunScale
from .serialization import check_name
from .types import DataSet, LabelNoise, Method, Model

Selection = Literal["last", "best-val", "both"]
Normalize = Literal["data", "model", "none"]
Log = Literal["none", "tensorboard", "csv", "wandb"]
Precision = Literal["32-true", "16-mixed", "bf16-mixed", "64-true"]


@dataclass(frozen=True)
class Recipe:
    """All settings of one run. Equal recipes give equal numbers on the same machine."""

    name: str
    data: DataSet
    model: Model
    method: Method
    optimizer: Optimizer
    schedule: Schedule
    epochs: int
    noise: LabelNoise | None = None
    """Label noise for the training and validation sets; the test set is never corrupted."""
    batch_size: int = 128
    """The global batch size, over all processes."""
    selection: Selection = "last"
    """Which weights are tested: those of the last epoch, or those with the best validation accuracy.

    `both` keeps and tests the last weights, and also reports the test numbers of the best ones as `selected/*`. The
    test set is never used for selection.
    """
    eval_every: int = 1
    """Epochs between two validations."""
    clip: float = 0.0
    """Maximum gradient norm; 0 disables clipping."""
    accumulate: int = 1
    """Mini-batches whose gradients are accumulated before an optimizer step."""
    after: str = ""
    """A recipe whose finished run (same seed and output folder) this run needs, as a teacher or to start from."""
    inherit: bool = False
    """Start from the weights of the `after` run instead of new ones."""
    new_head: bool = False
    """With `inherit`: initialize a new classifier, for classes that differ from those of the `after` run."""
    normalize: Normalize = "data"
    """Where images are normalized: before the model, in it, or not at all.

    `data` normalizes before the model. `model` makes normalization the model's first layer, so that the model takes
    pixels in [0, 1], as attacks require. `none` trains on pixels in [0, 1] as they are.
    """
    weights: str = ""
    """Pretrained weights to start from, except for the classifier: a file with torchvision's names, or a Hub id."""
    checksum: str = ""
    """The required SHA-256 of `weights`, or its first digits; empty accepts any. The result records the actual one."""
    oracle: bool = False
    """Also test after every validation, and report the best as ORACLE/test/top1. It is never used for selection."""
    seed: int = 0
    scale: RunScale = "paper"
    changes: tuple[str, ...] = ()
    """Settings that differ from the recipe of this name, for a run of the scale `custom`."""
    precision: Precision = "32-true"
    devices: int = 1
    """Processes on this machine; with torchrun or SLURM, processes per node."""
    nodes: int = 1
    compile: bool = False
    """Compile the model with torch.compile."""
    log: Log = "none"
    """Where numbers are logged beside the run folder."""

    def __post_init__(self) -> None:
        check_name("the name of a recipe", self.name)
        if self.after:
            check_name("the recipe that this run comes after", self.after)
        for name in ("epochs", "batch_size", "eval_every", "accumulate", "devices", "nodes"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)}: give a whole number of at least 1.")
        if self.clip < 0:
            raise OptionError(f"clip is {self.clip}: give the largest norm of the gradient, or 0 to leave it alone.")
        if self.inherit and not self.after:
            raise OptionError("inherit needs a run to take weights from: name its recipe with after.")
        if self.new_head and not self.inherit:
            raise OptionError("new_head leaves the classifier out of what is inherited: set inherit too.")
        if self.normalize == "data" and self.method.takes_pixels:
            raise OptionError(
                f"{type(self.method).__name__} moves pixels in [0, 1]: set normalize='model' (or 'none'), so that the "
                "images are not normalized before it."
            )
        if self.weights and self.inherit:
            raise OptionError("weights and inherit both say where to start from: give one of them.")
        if self.checksum and not self.weights:
            raise OptionError("a checksum needs weights to check: name them, or leave the checksum out.")
        if self.seed < 0:
            raise OptionError(f"seed is {self.seed}: give a whole number from 0 up.")
