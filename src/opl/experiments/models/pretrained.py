"""Pretrained weights from a local file, a file below `$OPL_DATA`, or the Hub, verified by SHA-256."""

import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import Any

from torch import nn

from ...errors import OptionError
from ..files import read_limited
from .weights import load_weights

NAMES = ("model.safetensors", "pytorch_model.bin")  # in a Hub repository or a folder, the first that exists is used
MOST_BYTES = 1 << 33  # of a file of weights
FORMATS = (".safetensors", ".pth", ".pt", ".bin")


def load_pretrained(model: nn.Module, weights: str, checksum: str = "") -> str:
    """Load pretrained weights with torchvision's names into a model, except its classifier; return their SHA-256.

    Args:
        model: a model of this package, built for any number of classes.
        weights: a file (`.safetensors`, or one written by `torch.save` that loads with `weights_only=True`) or a folder
            with such a file, as a path or below `$OPL_DATA`; otherwise a Hub id, for instance `timm/resnet50.tv_in1k`.
        checksum: the SHA-256 that the file must have, or its first digits; empty accepts any file.

    Raises:
        OptionError: the weights do not exist, have a different checksum, or belong to a different model.
    """
    file = find_weights(weights)
    data = _bytes(file)
    found = hashlib.sha256(data).hexdigest()
    if not found.startswith(checksum.lower()):
        raise OptionError(
            f"the weights {str(file)!r} have the SHA-256 {found[:16]}... and not {checksum[:16]}...: get the file that "
            "is meant, or leave the checksum empty."
        )
    try:
        load_weights(model, _read(data, file.suffix), skip_classifier=True)
    except OptionError as error:
        raise OptionError(f"{str(file)!r}: {error}") from error
    return found


def _bytes(file: Path) -> bytes:
    try:
        return read_limited(file, MOST_BYTES)
    except OSError as error:
        raise OptionError(f"the weights {str(file)!r} cannot be read ({error.strerror}): {_ways()}.") from error


def find_weights(weights: str) -> Path:
    """Return the path of the weights; from the Hub they are downloaded once."""
    shelf = os.environ.get("OPL_DATA")
    places = [Path(weights).expanduser(), *([Path(shelf).expanduser() / weights] if shelf else [])]
    for place in places:
        for file in (place, *(place / name for name in NAMES)):
            if file.is_file():
                return file
    if weights.count("/") != 1 or Path(weights).suffix in FORMATS:
        raise OptionError(f"there are no weights {weights!r}: {_ways()}.")
    return _from_hub(weights)


def _from_hub(repository: str) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    for name in NAMES:
        try:
            return Path(hf_hub_download(repository, name))
        except LocalEntryNotFoundError as error:  # no network, and not in the cache
            raise _unreachable(repository, error) from error
        except EntryNotFoundError:
            continue
        except Exception as error:  # unknown repository, terms not accepted, invalid name, ...
            raise _unreachable(repository, error) from error
    raise OptionError(f"the Hub's {repository!r} has neither {' nor '.join(NAMES)}: {_ways()}.")


def _unreachable(repository: str, error: Exception) -> OptionError:
    reason = " ".join(str(error).split())[:120] or type(error).__name__
    return OptionError(f"the weights {repository!r} are not here and not to be had from the Hub ({reason}): {_ways()}.")


def _ways() -> str:
    return (
        "give a .safetensors or .pth file in torchvision's names, or a Hub id such as 'timm/resnet50.tv_in1k', with "
        "--weights; put it below $OPL_DATA under that name; or train from scratch with --weights ''"
    )


def check_stored(data: bytes) -> None:
    """Raise an error if a zip archive would unpack to more than it has; `torch.save` never compresses.

    Anything but a zip archive passes.
    """
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > len(data):
        raise OptionError(f"it has {len(data):,} bytes and would unpack to {unpacked:,}; give a file of torch.save.")


def _read(data: bytes, suffix: str) -> Any:
    import torch

    try:
        if suffix == ".safetensors":
            from safetensors.torch import load

            return load(data)
        check_stored(data)
        found = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except OptionError:
        raise
    except Exception as error:  # pickle, zip and safetensors each raise their own errors for a damaged file
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise OptionError(f"no weights can be read from it ({reason}); give a file of weights alone.") from error
    if not isinstance(found, dict):
        raise OptionError(f"it holds a {type(found).__name__} and no weights by name; give the model's state dict.")
    return found
