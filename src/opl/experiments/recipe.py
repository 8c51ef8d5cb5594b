"""A run as one frozen value: everything that decides its numbers, to and from JSON."""

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
    """All settings of one run. Equal recipes give equal numbers on one machine."""

    name: str
    data: DataSet
    model: Model
    method: Method
    optimizer: Optimizer
    schedule: Schedule
    epochs: int
    noise: LabelNoise | None = None
    """Wrong labels on purpose, in training and in validation, never in testing."""
    batch_size: int = 128
    """Over all processes together."""
    selection: Selection = "last"
    """Which weights are tested: those of the last epoch, or of the best validation accuracy; `both` keeps and tests the
    last and has the others' numbers as `selected/*` besides. Never by the test set."""
    eval_every: int = 1
    """Epochs between two validations."""
    clip: float = 0.0
    """Largest norm of the gradient; 0 leaves it alone."""
    accumulate: int = 1
    """Batches whose gradients are added up before a step."""
    after: str = ""
    """A recipe whose finished run, with the same seed and folder, this one needs: as a teacher, or to start from."""
    inherit: bool = False
    """Start from the weights of that run instead of new ones."""
    new_head: bool = False
    """With inherit: the classifier starts anew, for other classes than that run's."""
    normalize: Normalize = "data"
    """Where images are normalized: before the model; as its first part, so that it takes pixels in [0, 1], which
    attacks need; or nowhere, so that it learns from such pixels as they are."""
    weights: str = ""
    """Pretrained weights to start from, but for the classifier: a file in torchvision's names, or a Hub id."""
    checksum: str = ""
    """The SHA-256 that they must have, or its first digits; empty takes any. The result tells it."""
    oracle: bool = False
    """Also test after every validation, and tell the best as ORACLE/test/top1. Nothing is ever selected by it."""
    seed: int = 0
    scale: Scale = "paper"
    precision: Precision = "32-true"
    devices: int = 1
    """Processes on this machine; under torchrun or SLURM, those of one node."""
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
    """A value of dataclasses as plain JSON; each dataclass says its `kind`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


Kinds = Mapping[type, tuple[type, ...]]
"""For each protocol of `types` the dataclasses that may stand for it."""


def from_json(value: Any, kind: Any, kinds: Kinds | None = None) -> Any:
    """The value that `to_json` wrote.

    Args:
        value: plain JSON.
        kind: the type that the value should have.
        kinds: what may stand where a type is a protocol.

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
