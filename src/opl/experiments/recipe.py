"""A recipe: one frozen value with everything that determines the numbers of a run, convertible to and from JSON."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from ..errors import OptionError, did_you_mean
from ..optim import Optimizer, Schedule
from .scales import Scale
from .types import DataSet, LabelNoise, Method, Model

Selection = Literal["last", "best-val", "both"]
Normalize = Literal["data", "model", "none"]
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
    scale: Scale = "paper"
    precision: Precision = "32-true"
    devices: int = 1
    """Processes on this machine; with torchrun or SLURM, processes per node."""
    nodes: int = 1
    compile: bool = False
    """Compile the model with torch.compile."""
    log: Literal["none", "tensorboard"] = "none"

    def __post_init__(self) -> None:
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


def to_json(value: Any) -> Any:
    """Convert a value made of dataclasses to plain JSON; each dataclass stores its class name as `kind`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


Kinds = Mapping[type, tuple[type, ...]]
"""For each protocol in `types`, the dataclasses that implement it."""


def from_json(value: Any, kind: Any, kinds: Kinds | None = None) -> Any:
    """Rebuild a value from the output of `to_json`.

    Args:
        value: plain JSON.
        kind: the type that the value should have.
        kinds: the dataclasses that implement each protocol.

    Example:
        >>> from opl.optim import SGD
        >>> from_json(to_json(SGD(lr=0.2)), SGD).lr
        0.2
    """
    kinds = kinds or {}
    if isinstance(value, dict) and "kind" in value:
        known = {option.__name__: option for option in _dataclasses(kind, kinds)}
        if value["kind"] not in known:
            raise OptionError(did_you_mean("kind", value["kind"], known))
        return _build(known[value["kind"]], value, kinds)
    if isinstance(value, list):
        options = [option for option in _options(kind) if get_origin(option) is tuple]
        inner = get_args(options[0])[0] if options and get_args(options[0]) else Any
        return tuple(from_json(item, inner, kinds) for item in value)
    return value


def _build(kind: type, value: dict[str, Any], kinds: Kinds) -> Any:
    hints = typing.get_type_hints(kind)
    names = {field.name for field in dataclasses.fields(kind)}
    for name in value:
        if name != "kind" and name not in names:
            raise OptionError(did_you_mean(f"setting of {kind.__name__}", name, sorted(names)))
    return kind(**{name: from_json(item, hints[name], kinds) for name, item in value.items() if name != "kind"})


def _options(kind: Any) -> list[Any]:
    if get_origin(kind) in (Union, types.UnionType):
        return [option for part in get_args(kind) for option in _options(part)]
    return [kind]


def _dataclasses(kind: Any, kinds: Kinds) -> list[type]:
    options = [choice for option in _options(kind) for choice in kinds.get(option, (option,))]
    return [option for option in options if isinstance(option, type) and dataclasses.is_dataclass(option)]
