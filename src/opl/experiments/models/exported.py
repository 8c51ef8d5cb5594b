"""Networks that `opl export` wrote: the content of `config.json`, and loading from a folder or the Hub."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..._ranges import Count, Positive, check_settings
from ...errors import OptionError, did_you_mean
from ...heads import ArcFaceHead, ASoftmaxHead, CosFaceHead, Head, LGMHead, LinearHead, LSoftmaxHead, RBFHead
from ..files import read_json, read_limited
from ..settings import from_json
from ..types import Model
from .network import Network, prepend_standardize
from .weights import load_weights

CONFIG, WEIGHTS = "config.json", "model.safetensors"
MOST_CONFIG = 1 << 22  # bytes of a config
SLACK = 1 << 20  # values that a network may allocate besides its weights
ALLOCATE = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.eye, torch.tensor)
HEADS: tuple[type[Head], ...] = (
    LinearHead, ASoftmaxHead, LSoftmaxHead, CosFaceHead, ArcFaceHead, LGMHead, RBFHead,
)  # fmt: skip


@dataclass(frozen=True)
class HeadConfig:
    """A head of `opl.heads` in place of the linear classifier: its class and its arguments."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class NetworkConfig:
    """All that rebuilds an exported network and describes its input; its weights do not contain the normalization."""

    recipe: str
    seed: int
    scale: str
    data: str
    """Name of the data set."""
    model: Model
    head: HeadConfig | None
    """None for the linear classifier of the model."""
    channels: Count
    size: Count
    """Height and width of the images that it was trained on."""
    num_classes: Count
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    """Mean of each channel that is subtracted from pixels in [0, 1]; empty if they are not normalized."""
    std: tuple[Positive, ...]
    """Standard deviation of each channel that the difference is divided by; empty if pixels are not normalized."""
    torchvision: str
    """The function of torchvision.models whose state dict has the names and shapes of the weights; empty if none."""
    precision: str
    """The precision in which the run was trained and tested."""
    opl_version: str
    sha256: str = ""
    """SHA-256 of the weights' file; empty for unchecked weights, such as weights that were trained further."""


def from_pretrained(source: str | Path, *, normalize: bool = True, revision: str | None = None) -> Network:
    """Load an exported network, in evaluation mode, on the CPU; its input is images with pixels in [0, 1].

    It returns `Output(features, logits)`, bit-identical to the network of the run on the same machine and batches; for
    a run in mixed precision, under the same autocast. The random state is unchanged.

    Args:
        source: a folder that `opl export` wrote; otherwise a Hub id such as `somebody/cifar100-resnet56-opl`.
        normalize: make the normalization of the run the first part of the network. With False, the input must be
            normalized by the caller, with `mean` and `std` of `config.json`.
        revision: the branch, tag or commit of a Hub repository.

    Raises:
        OptionError: there is no export, or it is damaged.
    """
    folder = Path(source).expanduser()
    if not folder.is_dir():
        folder = _download(str(source), revision)
    config = read_config(folder)
    weights = _read_weights(folder / WEIGHTS, config.sha256)
    try:
        with _Limited(2 * sum(value.numel() for value in weights.values()) + SLACK):
            return rebuild(config, weights, normalize=normalize)
    except OptionError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RuntimeError, MemoryError) as error:
        raise _invalid(folder, error) from error


class _Limited(TorchFunctionMode):
    """Raise an error as soon as a network allocates more values than its weights explain, before the memory is used.

    A head replaces the classifier of a network, so a network may allocate twice as many values as it has weights.
    """

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        value = func(*args, **(kwargs or {}))
        if func in ALLOCATE:
            self.left -= value.numel()
            if self.left < 0:
                raise ValueError("its network is larger than its weights")
        return value


def _invalid(folder: Path, error: Exception) -> OptionError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return OptionError(f"{folder} is not a valid export ({CONFIG}: {reason}): choose a folder that opl export wrote.")


def read_config(folder: Path) -> NetworkConfig:
    """Read `config.json` of an export."""
    try:
        return parse_config(read_json(folder / CONFIG, MOST_CONFIG))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _invalid(folder, error) from error


def parse_config(content: dict[str, Any]) -> NetworkConfig:
    """Rebuild a config from the output of `to_json`."""
    from . import MODELS  # this package lists its models after importing this module

    if not isinstance(content, dict):
        raise OptionError(f"it contains a {type(content).__name__} instead of settings.")
    if content.get("kind") != NetworkConfig.__name__:
        raise OptionError(f"its kind is {content.get('kind')!r} and not {NetworkConfig.__name__!r}.")
    config: NetworkConfig = from_json(content, NetworkConfig, {Model: MODELS})
    check_settings(replace(config, head=None))  # options of a head are checked when it is built
    if config.mean and not len(config.mean) == len(config.std) == config.channels:
        raise OptionError(f"mean and std have {len(config.mean)} and {len(config.std)} values, not {config.channels}.")
    return config


def rebuild(config: NetworkConfig, weights: Mapping[str, Tensor], *, normalize: bool = True) -> Network:
    """Build a network from its config and weights, in evaluation mode; see `from_pretrained`."""
    with torch.random.fork_rng(devices=[]):
        network = config.model.build(config.channels, config.num_classes)
        if not isinstance(network, Network):
            raise OptionError(f"{type(config.model).__name__}.build does not return a Network: return one.")
        if config.head is not None:
            kinds = {kind.__name__: kind for kind in HEADS}
            if config.head.name not in kinds:
                raise OptionError(did_you_mean("head", config.head.name, kinds))
            head = kinds[config.head.name]
            network.fc = head(network.feature_dim, num_classes=config.num_classes, **config.head.options)
    load_weights(network, weights)
    if normalize and config.mean:
        network = prepend_standardize(network, config.mean, config.std)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.eval()


def _read_weights(file: Path, expected: str) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        data = read_limited(file)
        weights = load(data)
    except (OSError, SafetensorError, ValueError) as error:
        raise OptionError(f"the weights {str(file)!r} cannot be read ({error}): export the run again.") from error
    if expected and hashlib.sha256(data).hexdigest() != expected:
        raise OptionError(
            f"the weights {str(file)!r} differ from the exported ones: export the run again, or, if you changed them, "
            f"set sha256 in {CONFIG} to an empty string."
        )
    return weights


def _download(repository: str, revision: str | None) -> Path:
    """Download the two files of an export from the Hub, once."""
    if repository.count("/") != 1:
        raise OptionError(f"there is no folder {repository!r}: pass a folder that opl export wrote, or a Hub id.")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise OptionError(
            f"there is no folder {repository!r}, and a Hub id needs pip install 'orthogonal-projection-loss[hub]'."
        ) from error
    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=[CONFIG, WEIGHTS]))
    except Exception as error:  # no network, unknown repository, terms not accepted, invalid name, ...
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise OptionError(
            f"there is no folder {repository!r}, and the Hub does not provide it ({reason}): pass a folder that opl "
            "export wrote, or the id of a repository that you can read."
        ) from error
