"""A recipe: one frozen value with everything that determines the numbers of a run, convertible to and from JSON."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from .._ranges import Count, FolderName, Name, NotNegative, Positive, Seed, check_settings
from ..errors import OptionError
from ..optim import Cosine, Optimizer, Schedule, Steps
from .scales import FULL, RunScale
from .types import DataSet, LabelNoise, Method, Model

Selection = Literal["last", "best-val", "both"]
Normalize = Literal["data", "model", "none"]
Log = Literal["none", "tensorboard", "csv", "wandb"]
Precision = Literal["32-true", "16-mixed", "bf16-mixed", "64-true"]
Strategy = Literal["ddp", "fsdp"]
Accumulation = Literal["micro", "exact"]
OnNaN = Literal["stop", "skip"]


@dataclass(frozen=True)
class Recipe:
    """All settings of one run. Equal recipes yield equal numbers on the same machine."""

    name: Name
    data: DataSet
    model: Model
    method: Method
    optimizer: Optimizer
    schedule: Schedule
    epochs: Count
    noise: LabelNoise | None = None
    """Label noise for the training and validation sets; the test set is never corrupted."""
    batch_size: Count = 128
    """The global batch size, over all processes."""
    drop_last: bool = False
    """Drop the last batch of an epoch if it is incomplete and not the only one."""
    selection: Selection = "last"
    """Which weights are tested: those of the last epoch, or those with the best validation accuracy.

    `both` keeps and tests the last weights, and also reports the test numbers of the best ones as `selected/*`. The
    test set is never used for selection.
    """
    eval_every: Count = 1
    """Epochs between two validations."""
    clip: NotNegative = 0.0
    """Maximum gradient norm; 0 disables clipping."""
    accumulate: Count = 1
    """Mini-batches whose gradients are accumulated before an optimizer step."""
    accumulation: Accumulation = "micro"
    """What a loss over pairs, such as OPL, sees of accumulated mini-batches: one at a time, or all as one batch.

    `exact` computes the gradient of the whole batch in the memory of one mini-batch, with a second forward pass.
    """
    after: Annotated[str, FolderName(or_empty=True)] = ""
    """A recipe whose finished run (same seed and output folder) this run needs, as a teacher or to start from."""
    inherit: bool = False
    """Start from the weights of the `after` run instead of new ones."""
    new_head: bool = False
    """With `inherit`: initialize a new classifier, for classes that differ from the `after` run's."""
    members: tuple[Name, ...] = ()
    """Recipes whose runs (same seed and output folder) are evaluated together with this run."""
    normalize: Normalize = "data"
    """Where images are normalized: before the model, in it, or not at all.

    `data` normalizes before the model. `model` makes normalization the model's first layer, so that the model takes
    pixels in [0, 1], as attacks require. `none` trains on the pixels in [0, 1].
    """
    weights: str = ""
    """Pretrained weights to start from, except for the classifier.

    A file with torchvision's names, a Hub id, or `efficientnet-lite0`, the ImageNet weights of the extra `pretrained`.
    """
    checksum: str = ""
    """The required SHA-256 of `weights`, or its first digits; empty accepts any. The result records it."""
    head_lr_mult: Positive = 1.0
    """Learning rate of the classifier, relative to that of the other weights: above 1 for fine-tuning."""
    oracle: bool = False
    """Also test after every validation, and report the best as ORACLE/test/top1. It is never used for selection."""
    seed: Seed = 0
    scale: RunScale = FULL
    changes: tuple[str, ...] = ()
    """Settings that differ from the recipe of this name, for a run of the scale `custom`."""
    precision: Precision = "32-true"
    devices: Count = 1
    """Processes on this machine; with torchrun or SLURM, processes per node."""
    nodes: Count = 1
    strategy: Strategy = "ddp"
    """With several processes: a copy of the weights on each (DDP), or a share of them (FSDP)."""
    sync_batch_norm: bool = False
    """With several processes: compute the statistics of BatchNorm over the global batch."""
    channels_last: bool = True
    """Store images and weights with the channels last, which is faster for convolutions."""
    on_nan: OnNaN = "stop"
    """What to do if the loss of a step is not finite: end the run, or skip the step and count it in `skipped_steps`."""
    checkpoint_every: str = "10 minutes"
    """Time or steps between checkpoints inside an epoch, such as `30 minutes`, `500 steps` or `never`."""
    timeout: Positive = 300.0
    """Seconds to wait for another process before the run ends."""
    compile: bool = False
    """Compile the model with torch.compile."""
    log: Log = "none"
    """Where to log numbers in addition to the run folder."""

    def __post_init__(self) -> None:
        check_settings(self)
        if isinstance(self.schedule, Steps | Cosine) and self.schedule.warmup > self.epochs:
            raise OptionError(
                f"schedule.warmup is {self.schedule.warmup:g} epochs but training has {self.epochs}: use a shorter "
                "warmup, or more epochs."
            )
        if self.inherit and not self.after:
            raise OptionError("inherit needs a run to take weights from: name its recipe with after.")
        if self.new_head and not self.inherit:
            raise OptionError("new_head applies only to inherited weights: set inherit too.")
        if self.normalize == "data" and self.method.takes_pixels:
            raise OptionError(
                f"{type(self.method).__name__} needs pixels in [0, 1]: set normalize='model' (or 'none'), so that "
                "images are not normalized before it."
            )
        if self.weights and self.inherit:
            raise OptionError("weights and inherit both set the initial weights: use only one of them.")
        if self.checksum and not self.weights:
            raise OptionError("a checksum needs weights to check: set weights, or remove the checksum.")
        checkpoint_interval(self.checkpoint_every)
        if self.accumulation == "exact" and self.precision == "16-mixed":
            raise OptionError(
                "accumulation='exact' does not scale gradients, which 16-mixed needs: use bf16-mixed or 32-true."
            )
        if self.strategy == "fsdp" and self.compile:
            raise OptionError("compile needs unsharded weights: use strategy='ddp' with it, or remove it.")


def checkpoint_interval(text: str) -> tuple[float, int]:
    """Return the seconds and the steps between checkpoints inside an epoch; the unused one is 0.

    Example:
        >>> checkpoint_interval("2 minutes"), checkpoint_interval("500 steps"), checkpoint_interval("never")
        ((120.0, 0), (0.0, 500), (0.0, 0))
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)[ -]?(minute|step)s?", text)
    if text != "never" and (match is None or float(match[1]) == 0 or (match[2] == "step" and "." in match[1])):
        raise OptionError(
            f"checkpoint_every is {text!r} but must be minutes or steps, such as '10 minutes' or '500 steps', or never."
        )
    if match is None:
        return 0.0, 0
    return (float(match[1]) * 60, 0) if match[2] == "minute" else (0.0, int(match[1]))
