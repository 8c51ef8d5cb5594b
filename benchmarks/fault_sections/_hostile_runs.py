"""Hostile weights, run folders, names, links in the way, and modules in the working folder."""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ._hostile_case import CANARY, OUT, Case, Touch, new_place, ran, start_from

MODULES = ("json", "torch", "random", "numpy", "struct", "pickle", "socket", "subprocess", "yaml", "PIL", "opl")
SCRIPT = "<script>alert(1)</script>"


def _file(name: str, content: Callable[[Path], bytes]) -> Callable[[Path], Path]:
    def make(scratch: Path) -> Path:
        (scratch / name).write_bytes(content(scratch))
        return scratch / name

    return make


def _pickle(scratch: Path) -> bytes:
    return pickle.dumps({"fc.weight": Touch(scratch)}, 2)


def _torch_pickle(scratch: Path) -> bytes:
    import torch

    stream = io.BytesIO()
    torch.save({"fc.weight": Touch(scratch)}, stream)
    return stream.getvalue()


def _nested(_: Path) -> bytes:
    import torch

    state: dict[str, object] = {}
    state["model"] = state
    stream = io.BytesIO()
    torch.save(state, stream)
    return stream.getvalue()


def _packed(scratch: Path) -> bytes:
    """A checkpoint whose archive unpacks to 512 MB."""
    import torch

    stream, packed = io.BytesIO(), io.BytesIO()
    torch.save({"fc.weight": torch.zeros(1 << 27)}, stream)
    with zipfile.ZipFile(stream) as whole, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as small:
        for member in whole.infolist():
            small.writestr(member.filename, whole.read(member))
    return packed.getvalue()


def _safetensors(head: bytes, length: int | None = None) -> Callable[[Path], bytes]:
    return lambda _: (len(head) if length is None else length).to_bytes(8, "little") + head


def _special(name: str, make: Callable[[Path], None]) -> Callable[[Path], Path]:
    def special(scratch: Path) -> Path:
        make(scratch / name)
        return scratch / name

    return special


def _run(files: Callable[[Path, Path], None]) -> Callable[[Path], Path]:
    """A tree of runs with one whose files are made by `files(run folder, scratch)`."""

    def make(scratch: Path) -> Path:
        place = new_place(scratch)
        run = place / "digits-opl/seed-0"
        run.mkdir(parents=True)
        files(run, scratch)
        return place

    return make


def _finished(names: tuple[str, ...], recipe_name: str) -> Callable[[Path], Path]:
    """A finished run, complete, whose class names and recipe are markup."""

    def make(scratch: Path) -> Path:
        import torch

        from opl.experiments.paper import recipe
        from opl.experiments.run_folder import RunFolder
        from opl.experiments.settings import to_json

        place = new_place(scratch)
        settings = {**to_json(recipe("digits-opl", "tiny")), "name": recipe_name}
        folder = RunFolder(place / "digits-opl/seed-0")
        folder.start(settings, {"versions": {"opl": SCRIPT}, "commit": SCRIPT, "machine": {"system": SCRIPT}})
        folder.write_splits({"class_names": list(names), "val": [], "train": 8, "test": 8, "source": SCRIPT})
        folder.log({"epoch": 0, "train/total": 1.0, "val/top1": 50.0, "images_per_second": 1.0, "seconds": 1.0})
        folder.finish({"fc.weight": torch.zeros(2, 2)}, {"test/top1": 50.0, "selection": SCRIPT})
        return place

    return make


def _script_on_page(place: Path) -> bool:
    pages = [file.read_text(errors="replace") for file in place.parent.rglob("*.html")]
    return ran(place) or any(SCRIPT in page or "<img src=x onerror" in page for page in pages)


def _report(place: Path) -> list[str]:
    return ["report", str(place)]


def _check(place: Path) -> list[str]:
    return ["check", str(place)]


def _evaluate(place: Path) -> list[str]:
    return ["evaluate", str(place / "digits-opl/seed-0"), "geometry"]


def _tiny(*flags: str) -> Callable[[Path], list[str]]:
    def words(place: Path) -> list[str]:
        out = str(place.parent / OUT / "deep/down")
        return ["train", "digits-opl", "--scale", "tiny", "--epochs", "1", "--out", out, *flags]

    return words


def _escaped(place: Path) -> bool:
    return any((place.parent / part / "escaped").exists() for part in ("", OUT, f"{OUT}/deep"))


def _modules(scratch: Path) -> Path:
    place = new_place(scratch)
    for name in MODULES:
        (place / f"{name}.py").write_text(f"open({str(scratch / CANARY)!r}, 'a').close()\nraise ImportError\n")
    return place


def _links_in_the_way(scratch: Path) -> Path:
    """Every name that could be guessed for a temporary file is a link to the canary."""
    place = new_place(scratch)
    run = scratch / OUT / "deep/down/digits-opl/seed-0"
    run.mkdir(parents=True)
    for name in ("recipe.json", "checkpoint.pt", "result.json", "done", "sums.json", "metrics.jsonl"):
        for process in range(1, 400):
            (run / f".{name}.{process}.tmp").symlink_to(scratch / CANARY)
    (run / "metrics.jsonl").symlink_to(scratch / CANARY)
    return place


def _write_pickles(run: Path, scratch: Path) -> None:
    for name in ("checkpoint.pt", "best.pt", "model.safetensors", "test.npz", "recipe.json", "done", "result.json"):
        (run / name).write_bytes(_pickle(scratch))


def _write_pipes(run: Path, _: Path) -> None:
    for name in ("checkpoint.pt", "recipe.json", "done", "result.json", "metrics.jsonl", "sums.json"):
        os.mkfifo(run / name)


def _write_deep(run: Path, _: Path) -> None:
    for name in ("recipe.json", "done", "result.json", "metrics.jsonl", "splits.json"):
        (run / name).write_bytes(b'{"a":' * 100_000)


def _write_devices(run: Path, _: Path) -> None:
    for name in ("recipe.json", "done", "result.json", "metrics.jsonl", "model.safetensors"):
        (run / name).symlink_to("/dev/zero")


def cases() -> Iterator[Case]:
    """Every hostile run, name and working folder."""
    head = json.dumps({"fc.weight": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    weights: dict[str, Callable[[Path], Path]] = {
        "a pickle called .pth": _file("w.pth", _pickle),
        "a pickle called .bin": _file("w.bin", _pickle),
        "a pickle called .safetensors": _file("w.safetensors", _pickle),
        "a checkpoint that runs code": _file("w.pt", _torch_pickle),
        "a checkpoint in itself": _file("w.pt", _nested),
        "a checkpoint that unpacks to 512 MB": _file("w.pt", _packed),
        "safetensors with 4 TB of weights": _file("w.safetensors", _safetensors(head)),
        "safetensors with a header of 2^60 bytes": _file("w.safetensors", _safetensors(b"{}", 1 << 60)),
        "safetensors nested 100,000 deep": _file("w.safetensors", _safetensors(b"[" * 100_000)),
        "a pipe called .pth": _special("w.pth", os.mkfifo),
        "a link to a device called .pth": _special("w.pth", lambda file: file.symlink_to("/dev/zero")),
    }
    for name, make in weights.items():
        yield Case(name, make, start_from(), ran)
    files = {"pickles": _write_pickles, "pipes": _write_pipes, "deep JSON": _write_deep, "devices": _write_devices}
    for name, write in files.items():
        for command, words in (("report", _report), ("check", _check), ("evaluate", _evaluate)):
            yield Case(f"{command} of a run of {name}", _run(write), words, ran)
    names = (SCRIPT, '"><img src=x onerror=alert(1)>')
    yield Case("markup as class names", _finished(names, "digits-opl"), _report, _script_on_page)
    yield Case("markup as the name of a recipe", _finished(names, SCRIPT), _report, _script_on_page)
    for name in (
        "../../escaped",
        "../../../escaped",
        "/tmp/../escaped",
        "a/../../escaped",
        "..",
        "a\nb",
        "escaped\\..\\..",
    ):
        yield Case(f"the name {name!r}", new_place, _tiny("--name", name), _escaped)
    yield Case("a name of another recipe to come after", new_place, _tiny("--after", "../../escaped"), _escaped)
    yield Case("links where temporary files would be", _links_in_the_way, _tiny(), ran)
    yield Case("modules in the working folder", _modules, _tiny(), ran, fresh=True)
    yield Case("modules in the working folder, two processes", _modules, _tiny("--devices", "2"), ran, fresh=True)
