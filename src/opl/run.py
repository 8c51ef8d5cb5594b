"""Recipe in, finished run folder out: the one place that joins the rooms."""

import atexit
import gc
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from . import __version__
from .data.batches import Batches, seed_for
from .data.noise import Noisy, purity, spoil
from .errors import FolderError, OplError, OptionError
from .evaluate.accuracy import accuracy
from .evaluate.episodes import episodes
from .evaluate.outputs import FEATURE_ROWS, outputs, pictures
from .evaluate.settings import FewShot
from .geometry import measure
from .models import Network, load_weights, standardized, start_from
from .progress import Counting, Progress
from .recipe import Recipe, from_json, to_json
from .results import RunFolder
from .statistics import interval
from .train import fit
from .types import Batch, EpochRecord, Images, Splits, TaskShape

EVAL_BATCH = 500
PICTURES_EVERY = 5  # epochs, on TensorBoard
ORACLE = "ORACLE/test/top1"  # loud, so that nobody takes it for a result
GEOMETRY = ("s", "d", "orthogonality")  # the records name these without the part that they were measured on


def run(recipe: Recipe, out: Path | str) -> dict[str, Any] | None:
    """Train and test what the recipe says, below `out`; a finished run is only read, a broken one is gone on with.

    Returns the result; on processes other than the first, None.
    """
    folder = RunFolder.of(out, recipe.name, recipe.seed)
    folder.start(to_json(recipe), about())
    if folder.done:
        return folder.result()
    fabric = launch(recipe)
    try:
        result = _run(fabric, recipe, folder)
        return result if fabric.is_global_zero else None
    except OplError as error:
        if fabric.is_global_zero:
            folder.fail(str(error))
        raise


def launch(recipe: Recipe) -> Any:
    """The engine: devices, precision and processes; under torchrun and SLURM it takes theirs."""
    from lightning_fabric import Fabric

    several = recipe.devices * recipe.nodes > 1
    if several and not torch.cuda.is_available():
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // recipe.devices))
    fabric = Fabric(
        devices=recipe.devices,
        num_nodes=recipe.nodes,
        strategy="ddp" if several else "auto",
        precision=recipe.precision,
    )
    fabric.launch()
    if fabric.world_size > 1:
        atexit.unregister(_leave)
        atexit.register(_leave)
    return fabric


def _leave() -> None:
    """End the group of processes when Python ends, not after a run: the next run of a script would race for its port.

    DDP refers to itself, so it is collected first: alive, it keeps gloo's threads, and now and then one of those aborts
    the process while Python shuts down.
    """
    if torch.distributed.is_initialized():
        gc.collect()
        torch.distributed.destroy_process_group()


def _run(fabric: Any, recipe: Recipe, folder: RunFolder) -> dict[str, Any]:
    started = time.time()
    splits = recipe.data.load(recipe.seed)
    noisy = spoil(splits, recipe.noise, recipe.seed) if recipe.noise else None
    splits = noisy.splits if noisy else splits
    model = build_model(recipe)
    teacher = finished_model(folder.beside(recipe.after)) if recipe.after else None
    if recipe.inherit and teacher is not None:
        inherit(model, teacher, recipe)
    state = folder.load()
    start = str(state.get("start", "")) if state else _start(recipe, model)
    model.to(fabric.device)
    data = batches(fabric, recipe, splits.train)
    objective = build_objective(recipe, model, splits.train, data.steps, teacher).to(fabric.device)
    _check_judge(recipe, objective, splits)
    if recipe.compile:
        model.compile()
    first = int(state["epoch"]) if state else 0
    best = float(state["best"]) if state else -1.0
    fabric.barrier()
    if fabric.is_global_zero:
        folder.write_splits(_describe(splits))
        if noisy:
            folder.write_noise(noisy.facts(), _labels(noisy))
        folder.keep_epochs(first)
    writer = _writer(recipe, folder) if fabric.is_global_zero else None

    def validate(trained: nn.Module) -> dict[str, float]:
        numbers = _measure(fabric, recipe, trained, splits.val)
        named = {name if name in GEOMETRY else f"val/{name}": value for name, value in numbers.items()}
        if _peeks(objective):
            named["test/top1"] = _measure(fabric, recipe, trained, splits.test)["top1"]
        return {**named, **_oracle(fabric, recipe, trained, splits.test)}

    def save(state: dict[str, Any], record: EpochRecord) -> None:
        nonlocal best
        if not fabric.is_global_zero:
            return
        if hasattr(objective, "kept"):  # clean labels are for the record, and reach no loss
            wrong = noisy.wrong["train"] if noisy else torch.zeros(len(splits.train))
            record |= purity(objective.kept, wrong)  # type: ignore[arg-type]
        if record.get("val/top1", -1.0) > best:
            best = record["val/top1"]
            folder.save_best({"model": state["model"]})
        folder.log(record)
        folder.save({**state, "best": best, "start": start})
        if writer is not None:
            _write_scalars(writer, record)
            if record["epoch"] % PICTURES_EVERY == 0 or record["epoch"] + 1 == recipe.epochs:
                _write_pictures(writer, fabric, recipe, model, splits, record["epoch"])
        bar.epoch(record)

    with Progress(recipe, data.steps, first, fabric.is_global_zero) as bar:
        trained = fit(
            fabric,
            recipe,
            model,
            objective,
            data,
            everything=lambda: _cast(data.plain(EVAL_BATCH), model),
            state=state,
            validate=validate,
            save=save,
            watcher=bar,
        )
    fabric.barrier()
    selected = _selected(fabric, recipe, model, splits, folder)
    result = _result(fabric, recipe, trained, splits, folder, time.time() - started) | selected
    result["start"] = start
    if noisy:
        result |= {f"noise/{part}": rate for part, rate in noisy.rates().items()}
    if _peeks(objective):
        result["selection"] = f"{recipe.selection}, guided by the TEST set as released"
    if fabric.is_global_zero:
        if len(splits.test):
            folder.write_outputs(test_outputs(fabric, recipe, trained, splits.test))
        weights = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
        folder.finish(weights, result)
    fabric.barrier()
    return result


def _selected(fabric: Any, recipe: Recipe, model: nn.Module, splits: Splits, folder: RunFolder) -> dict[str, float]:
    """Take the weights that were best on validation, or test them beside the last ones, as the recipe says."""
    if recipe.selection == "last":
        return {}
    last = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(folder.load_best()["model"])
    if recipe.selection == "best-val":
        return {}
    numbers = _measure(fabric, recipe, model, splits.test)
    model.load_state_dict(last)
    return {f"selected/{name}": value for name, value in numbers.items() if name in ("top1", "top5", "s", "d")}


def _check_judge(recipe: Recipe, objective: nn.Module, splits: Splits) -> None:
    """A model that is chosen by validation needs images for that; better said now than after hours."""
    method = str(getattr(objective, "judged_by", "")).startswith("val/")
    if (method or recipe.selection != "last") and not len(splits.val):
        who = type(recipe.method).__name__ if method else f"selection {recipe.selection}"
        raise OptionError(
            f"{who} chooses a model by its accuracy on held-out images, and there are none: hold some out, for "
            "instance with --data.val 5000."
        )


def _peeks(objective: nn.Module) -> bool:
    """Whether the method looks at the test set while it trains, which only a switch named for it makes it do."""
    return str(getattr(objective, "judged_by", "")).startswith("test/")


def _labels(noisy: Noisy) -> dict[str, Any]:
    """For the run folder: of each part the rows in their source, the labels as they are now, and which are wrong."""
    parts = {"train": noisy.splits.train, "val": noisy.splits.val}
    rows = {f"{name}/rows": part.rows.numpy() for name, part in parts.items()}
    labels = {f"{name}/labels": part.labels[part.rows].numpy() for name, part in parts.items()}
    return {**rows, **labels, **{f"{name}/wrong": wrong.numpy() for name, wrong in noisy.wrong.items()}}


def _start(recipe: Recipe, model: Network) -> str:
    """Put pretrained weights into a new model, where the recipe names some; returns what the run starts from."""
    if recipe.weights:
        return f"{recipe.weights}, SHA-256 {start_from(model, recipe.weights, recipe.checksum)}"
    return f"the run of {recipe.after}" if recipe.inherit else "scratch"


def _oracle(fabric: Any, recipe: Recipe, model: nn.Module, test: Images) -> dict[str, float]:
    """The accuracy on the test images after this epoch, for the record only."""
    return {ORACLE: _measure(fabric, recipe, model, test)["top1"]} if recipe.oracle and len(test) else {}


def build_model(recipe: Recipe) -> Network:
    """The model of a recipe with the first weights of its seed; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for(recipe.seed, 1))
        model = recipe.model.build(recipe.data.channels, recipe.data.num_classes)
        head = getattr(recipe.method, "head", None)
        if head is not None:
            model.fc = head.build(TaskShape(recipe.data.num_classes, model.feature_dim))
    if recipe.normalise == "model":
        model = standardized(model, recipe.data.mean, recipe.data.std)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def inherit(model: Network, before: Network, recipe: Recipe) -> None:
    """Start from the weights of an earlier run, the classifier's too unless the recipe wants a new one."""
    ours, theirs = (_classes(network) for network in (model, before))
    if ours != theirs and not recipe.new_head:
        raise OptionError(
            f"{recipe.after} tells {theirs} classes and {recipe.name} {ours}, so the classifier cannot be inherited: "
            "set new_head (--new-head) to start it anew."
        )
    load_weights(model, before.state_dict(), skip_classifier=recipe.new_head)


def _classes(network: Network) -> int:
    """As many as its classifier has rows; 0 where that is no linear layer."""
    return len(network.fc.weight) if isinstance(network.fc, nn.Linear) else 0


def normalisation(recipe: Recipe) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation by which images are normalised before the model: 0 and 1, if that is not done there."""
    if recipe.normalise == "data":
        return recipe.data.mean, recipe.data.std
    return (0.0,) * recipe.data.channels, (1.0,) * recipe.data.channels


def build_objective(
    recipe: Recipe, model: Network, train: Images, steps: int, teacher: Network | None = None
) -> nn.Module:
    """The objective of a recipe; what it learns starts from its seed, whatever the global generator."""
    counts = torch.bincount(train.labels[train.rows], minlength=recipe.data.num_classes).tolist()
    shape = TaskShape(recipe.data.num_classes, model.feature_dim, tuple(counts), steps, teacher)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for(recipe.seed, 2))
        return recipe.method.build(shape)


def finished_model(folder: RunFolder) -> Network:
    """The model of a finished run."""
    if not folder.done:
        raise FolderError(f"{folder.path} is no finished run, and one is needed: finish it with opl train first.")
    model = build_model(from_json(folder.recipe()))
    model.load_state_dict(folder.weights())
    return model


def batches(fabric: Any, recipe: Recipe, part: Images, alone: bool = False) -> Batches:
    """The batches of this process; `alone`, all of them."""
    mean, std = normalisation(recipe)
    return Batches(
        part,
        recipe.batch_size,
        seed=recipe.seed,
        augment=recipe.data.augment,
        mean=mean,
        std=std,
        device=fabric.device,
        rank=0 if alone else fabric.global_rank,
        world=1 if alone else fabric.world_size,
        balanced=getattr(recipe.data, "balanced", False),
        doubled=getattr(recipe.data, "doubled", False),
    )


def _measure(fabric: Any, recipe: Recipe, model: nn.Module, part: Images) -> dict[str, float]:
    if len(part) == 0:
        return {}
    group = torch.distributed.group.WORLD if fabric.world_size > 1 else None
    # The bare module: an uneven share of the data must not wait for DDP's own messages. Its precision is set here.
    bare = getattr(model, "module", model)
    plain = batches(fabric, recipe, part).plain(EVAL_BATCH)
    with fabric.autocast():
        return accuracy(bare, _cast(plain, bare), recipe.data.num_classes, group)


def _result(
    fabric: Any, recipe: Recipe, model: nn.Module, splits: Splits, folder: RunFolder, seconds: float
) -> dict[str, Any]:
    numbers = _measure(fabric, recipe, model, splits.test)
    chosen = _measure(fabric, recipe, model, splits.val)
    return {
        **{f"test/{name}": value for name, value in numbers.items()},
        **{f"val/{name}": value for name, value in chosen.items() if name in ("top1", "top5", "loss")},
        **({ORACLE: max(told)} if (told := [r[ORACLE] for r in folder.metrics() if ORACLE in r]) else {}),
        "selection": recipe.selection,
        "scale": recipe.scale,
        "epochs": recipe.epochs,
        "seconds": sum(record["seconds"] for record in folder.metrics()) if fabric.is_global_zero else seconds,
    }


def test_outputs(fabric: Any, recipe: Recipe, model: nn.Module, part: Images) -> dict[str, Any]:
    """What the model says of all test images, on this process alone, and the first of the images themselves."""
    plain = batches(fabric, recipe, part, alone=True).plain(EVAL_BATCH)
    bare = getattr(model, "module", model)
    with fabric.autocast():
        found = outputs(bare, _cast(plain, bare), recipe.data.num_classes)
    return {**found, "pixels": pictures(part)} if found else found


def evaluate(folder: RunFolder, protocol: str) -> dict[str, Any]:
    """Another measure of a finished run: `geometry` of its test images (where none were held out, of its training
    images), or of `novel` classes that it never saw.

    Writes `test.npz` or `novel.npz` into the run's folder, and returns numbers.
    """
    fabric, recipe, model = reopened(folder)
    if protocol == "geometry":
        splits, names = recipe.data.load(recipe.seed), folder.class_names()
        part = splits.test if len(splits.test) else splits.train  # RFS, for instance, trains on all base images
        found = test_outputs(fabric, recipe, model, part)
        folder.write_outputs(found)
    else:
        part, names = _unseen(recipe)
        plain = batches(fabric, recipe, part, alone=True).plain(EVAL_BATCH)
        found = outputs(model, _cast(plain, model), len(names))
        folder.write_outputs({**found, "class_names": np.array(names)}, "novel")
    measured = measure(torch.from_numpy(found["features"]).float(), torch.from_numpy(found["labels"][:FEATURE_ROWS]))
    return {"images": len(found["labels"]), "classes": len(names), "s": measured.same, "d": measured.other()}


def evaluate_episodes(folder: RunFolder, settings: Sequence[FewShot]) -> dict[str, Any]:
    """Few-shot episodes of classes that a finished run never saw; writes each protocol's numbers and accuracies."""
    fabric, recipe, model = reopened(folder)
    part, _ = _unseen(recipe, settings[0].part)
    centre, spread = normalisation(recipe)
    augment = recipe.data.augment
    numbers: dict[str, Any] = {}
    with Counting() as watch:
        found = episodes(
            model, part, settings, augment=augment, mean=centre, std=spread, device=fabric.device, watch=watch
        )
    for protocol, each in zip(settings, found, strict=True):
        mean, half, _ = interval(each.tolist())
        own = {protocol.metric: mean, f"{protocol.metric}/half": half}
        content = {"numbers": own, "settings": to_json(protocol), "commit": commit()}
        folder.write_measure(f"episodes-{protocol.name}", content, {"each": each.float().numpy()})
        numbers |= own
    return numbers


def reopened(folder: RunFolder) -> tuple[Any, Recipe, Network]:
    """A finished run, on this process alone."""
    model = finished_model(folder)
    recipe: Recipe = replace(from_json(folder.recipe()), devices=1, nodes=1)
    fabric = launch(recipe)
    model.to(fabric.device)
    return fabric, recipe, model


def _unseen(recipe: Recipe, part: str = "test") -> tuple[Images, tuple[str, ...]]:
    """Images of classes that a run never saw, and their names."""
    unseen = getattr(recipe.data, "unseen", None)
    if unseen is None:
        raise OptionError(f"{recipe.data.name} has no classes beside those of the run: novel classes need some.")
    found: tuple[Images, tuple[str, ...]] = unseen(part)
    return found


def _cast(plain: Iterator[Batch], model: nn.Module) -> Iterator[Batch]:
    """Images in the type of the model's weights."""
    dtype = next(model.parameters()).dtype
    return (batch._replace(images=batch.images.to(dtype)) for batch in plain)


def about() -> dict[str, Any]:
    """Versions, commit and machine, for `recipe.json`."""
    return {
        "versions": {"opl": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "commit": commit(),
        "machine": {
            "system": platform.platform(terse=True),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        },
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def commit() -> str:
    """The commit of the source tree that runs, with `+` if files differ from it; empty outside of one."""
    here = Path(__file__).parent
    words = ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=10"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _describe(splits: Splits) -> dict[str, Any]:
    """Which images are in which part, as rows of the source."""
    return {
        "source": splits.source,
        "train": len(splits.train),
        "val": splits.val.rows.tolist(),
        "test": len(splits.test),
        "class_names": list(splits.class_names),
        "groups": list(splits.groups),
    }


def _writer(recipe: Recipe, folder: RunFolder) -> Any:
    if recipe.log != "tensorboard":
        return None
    from torch.utils.tensorboard.writer import SummaryWriter

    return SummaryWriter(str(folder.path / "tensorboard"))


def _write_scalars(writer: Any, record: EpochRecord) -> None:
    for name, value in record.items():
        if name != "epoch":
            writer.add_scalar(name, value, record["epoch"])
    writer.flush()


def _write_pictures(writer: Any, fabric: Any, recipe: Recipe, model: nn.Module, splits: Splits, epoch: int) -> None:
    """The class-similarity matrix, and features in the plane where there are two, of held-out images."""
    from .figures import plane, similarity

    part = splits.val if len(splits.val) else splits.train
    found = test_outputs(fabric, recipe, model, replace(part, rows=part.rows[:2000]))
    matrix = similarity.Matrix(recipe.name, found["similarity"], splits.class_names)
    writer.add_figure("similarity", similarity.draw([matrix]), epoch)
    if found["features"].shape[1] == 2:
        cloud = plane.Cloud(recipe.name, found["features"].astype("float32"), found["labels"], splits.class_names)
        writer.add_figure("features", plane.draw([cloud]), epoch)
    writer.flush()
