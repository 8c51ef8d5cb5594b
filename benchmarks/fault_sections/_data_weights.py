"""Files of pretrained weights that are damaged or wrong."""

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ._data_case import DataCase, Expect

Make = Callable[[Path], object]


def weight_cases() -> Iterator[DataCase]:
    """All of them."""
    yield from (DataCase(name, "weights", make, expect) for name, make, expect in _cases())


def _network() -> dict:
    """The weights of the network that is trained."""
    import torch

    from opl.experiments.models import ResNet

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ResNet(depth=18).build(3, 3).state_dict()


def _safe(change: Callable[[dict], dict] = dict, edit: Callable[[bytes], bytes] = bytes) -> Make:
    def make(folder: Path) -> None:
        from safetensors.torch import save

        weights = {name: value.clone().contiguous() for name, value in change(_network()).items()}
        (folder / "w.safetensors").write_bytes(edit(save(weights)))

    return make


def _pickled(change: Callable[[dict], object] = dict, edit: Callable[[bytes], bytes] = bytes) -> Make:
    def make(folder: Path) -> None:
        import torch

        stream = io.BytesIO()
        torch.save(change(_network()), stream)
        (folder / "w.pth").write_bytes(edit(stream.getvalue()))

    return make


def _flip(share: float) -> Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        place = int(share * (len(data) - 1))
        return data[:place] + bytes([data[place] ^ 2]) + data[place + 1 :]

    return edit


def _first(state: dict, value: Callable) -> dict:
    name = next(name for name in state if name.endswith("weight"))
    return {**state, name: value(state[name])}


def _cases() -> Iterator[tuple[str, Make, Expect]]:
    for kind, make in (("safetensors", _safe), ("pth", _pickled)):
        yield f"{kind}", make(), "any"
        yield f"{kind} cut", make(edit=lambda data: data[: len(data) // 2]), "refused"
        yield f"{kind} cut early", make(edit=lambda data: data[:5]), "refused"
        yield f"{kind} emptied", make(edit=lambda data: b""), "refused"
        yield f"{kind} with text", make(edit=lambda data: b"weights"), "refused"
        yield f"{kind} with zeros", make(edit=lambda data: bytes(1000)), "refused"
        yield f"{kind} with a flipped bit at the start", make(edit=_flip(0.0)), "refused"
        yield f"{kind} with a flipped bit", make(edit=_flip(0.5)), "any"
        yield f"{kind} without weights", make(lambda state: {}), "refused"
        yield (
            f"{kind} with other names",
            make(lambda state: {f"x.{name}": value for name, value in state.items()}),
            "refused",
        )
        yield f"{kind} that lacks one", make(lambda state: {name: state[name] for name in list(state)[1:]}), "refused"
        yield f"{kind} of another shape", make(lambda state: _first(state, lambda value: value[:1])), "refused"
        yield f"{kind} of NaN", make(lambda state: _first(state, lambda value: value * float("nan"))), "refused"
        yield f"{kind} of infinite numbers", make(lambda state: _first(state, lambda value: value / 0)), "refused"
        yield f"{kind} of whole numbers", make(lambda state: _first(state, lambda value: value.long())), "refused"
        yield f"{kind} of half precision", make(lambda state: _first(state, lambda value: value.half())), "any"
    yield "a pth with a list", _pickled(lambda state: [1, 2]), "refused"
    yield "a pth with words", _pickled(lambda state: {"fc": "text"}), "refused"
    yield "a pth with a function", _pickled(lambda state: {"call": print}), "refused"
    yield "no file", lambda folder: None, "refused"
    yield "a pipe", lambda folder: os.mkfifo(folder / "w.safetensors"), "refused"
    yield "an empty folder", lambda folder: (folder / "w").mkdir(), "refused"
    yield "an endless file", lambda folder: (folder / "w.safetensors").symlink_to("/dev/zero"), "refused"
