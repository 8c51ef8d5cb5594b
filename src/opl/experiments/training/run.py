"""From a recipe to a finished run folder: the only module that connects data, model, method and training."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...errors import DistributedError, FolderError, OplError, OptionError, StoppedError
from ..data.noisy_labels import NoisyData, corrupt_labels, pruning_purity
from ..failures import explain
from ..methods.base import Objective
from ..models import Network
from ..recipe import Recipe
from ..run_folder import ENDED_AFTER, RunFolder
from ..settings import to_json
from ..types import EpochRecord, Images, Splits, TaskShape
from .build import (
    batches,
    build_model,
    build_objective,
    class_counts,
    complete_settings,
    finished_model,
    fit_first_layer,
    initialize,
    synchronize_batch_norm,
)
from .engine import describe_environment, describe_loss, end_run, is_first, launch
from .fit import fit
from .progress import Progress, RunLogger, announce_parts, announce_start
from .stopping import StopSignals, end_with_parent
from .validation import Validation, neighbor_accuracies, plain_batches, shot_accuracies, validate_part

ORACLE = "ORACLE/test/top1"  # capitalized, so that it is not mistaken for a result
PROCESSES_PER_CORE = 4
LAUNCHERS = (
    "MASTER_ADDR",
    "SLURM_NTASKS",
    "TORCHELASTIC_RUN_ID",
    "LOCAL_RANK",
    "KUBERNETES_PORT",
    "LSB_JOBID",
    "NODE_RANK",
)
"""Variables that torchrun, SLURM and other launchers set for the processes of a run."""
GEOMETRY = ("s", "d", "d_signed", "orthogonality", "gamma_needed", "class_cosine")
"""Records store these without the name of the part they were computed on."""


@dataclass(frozen=True)
class Part:
    """Which part of a run is executed."""

    until: int = 0
    """Pause after this many epochs; 0 trains to the end. A paused run resumes like any other."""
    test: bool = True
    """Whether the finished run is tested; the trials of a search are not."""
    wait: float = 0.0
    """Seconds to wait for another process that trains in the folder."""
    watch: Callable[[Network, Splits], None] | None = None
    """Called after every epoch on the first process, for example to keep features; it must not change the model."""


WHOLE = Part()


class Pause(Exception):
    """Training has reached the epoch after which it pauses."""


def run(recipe: Recipe, out: Path | str, part: Part = WHOLE) -> dict[str, Any] | None:
    """Train and test a recipe in a folder below `out`; finished runs are only read, unfinished runs are resumed.

    Returns the result on the first process, and None on the others and after a pause.
    """
    end_with_parent()
    folder = RunFolder.of(out, recipe.name, recipe.seed)
    if folder.begun:
        folder.check_settings(to_json(recipe), complete_settings)
    if not folder.done:
        check_recipe(recipe)
    if folder.done:
        with suppress(OSError):  # it may be read-only
            folder.sweep()
        return folder.result()
    with StopSignals() as stop:
        try:
            if is_first():
                announce_start(recipe)
            fabric = launch(recipe)
            with _owned(fabric, recipe, folder, part.wait), _recorded(recipe, folder):
                if fabric.world_size > 1 and (recipe.strategy == "fsdp" or not fabric.is_global_zero):
                    stop.hold()  # it stops at the step that all processes agree on
                result = folder.result() if folder.done else _Training(fabric, recipe, folder, stop, part).run()
            return result if fabric.is_global_zero else None
        except Pause:
            return None
        except StoppedError as error:
            if is_first():
                raise
            raise SystemExit(error.code) from None  # the first process says why


@contextmanager
def _owned(fabric: Any, recipe: Recipe, folder: RunFolder, wait: float) -> Iterator[None]:
    """Start the run on the first process, which owns the folder; if it cannot, all processes raise an error."""
    refusal: OplError | None = None
    with ExitStack() as stack:
        if fabric.is_global_zero:
            try:
                stack.enter_context(folder.owned(wait))
                folder.sweep()
                method = recipe.method  # tables and reports match rows by its OPL settings and its baseline
                about = {"opl": to_json(method.opl), "baseline": to_json(method.baseline()), **describe_environment()}
                folder.start(to_json(recipe), about, complete_settings)
            except Exception as error:
                refusal = explain(error)
                if refusal is None:
                    raise
        sentence = fabric.broadcast(str(refusal or ""))
        if sentence:
            raise refusal or FolderError(sentence)
        yield


@contextmanager
def _recorded(recipe: Recipe, folder: RunFolder) -> Iterator[None]:
    """Record why a run fails; if one of its processes was lost, end this one too without waiting."""
    try:
        yield
    except (StoppedError, Pause):
        raise
    except Exception as error:
        lost = describe_loss(error, recipe.timeout)
        failure = lost or explain(error)
        with suppress(OSError):  # the folder may be gone, or the disk full
            if not isinstance(failure, DistributedError) or folder.error() is None:  # another process may know more
                folder.fail(str(failure or f"{type(error).__name__}: {error}"))
        if lost is not None:
            end_run(lost)
        if failure is None or failure is error:
            raise
        raise failure from error


class _Training:
    """One run on one process: its components, what happens after each epoch, and its result."""

    def __init__(self, fabric: Any, recipe: Recipe, folder: RunFolder, stop: StopSignals, part: Part) -> None:
        self.fabric, self.recipe, self.folder, self.stop, self.part = fabric, recipe, folder, stop, part
        before = finished_model(folder.beside(recipe.after)) if recipe.after else None
        settings = recipe.model.after(folder.beside(recipe.after).result()) if recipe.after else recipe.model
        self.model = synchronize_batch_norm(recipe, build_model(recipe, settings), fabric.device)
        self.state = folder.load()
        self.start = str(self.state.get("start", "")) if self.state else initialize(recipe, self.model, before)
        splits = recipe.data.load(recipe.seed)  # after the weights: if they are missing, nothing is decoded
        self.noisy = corrupt_labels(splits, recipe.noise, recipe.seed) if recipe.noise else None
        self.splits = self.noisy.splits if self.noisy else splits
        if self.state is None and not recipe.inherit:
            fit_first_layer(recipe, self.model, self.splits.train)
        self.model.to(fabric.device)
        if not len(self.splits.train):
            raise OptionError(f"{recipe.data.name} has no training images left: hold out fewer, or use more data.")
        self.data = batches(fabric, recipe, self.splits.train)
        objective = build_objective(recipe, self.model, self.splits.train, self.data.steps, before)
        self.objective = objective.to(fabric.device)
        _check_judge(recipe, self.objective, self.splits)
        if not part.test:
            _check_blind(recipe, self.objective, self.splits)
        if recipe.compile:
            self.model.compile()
        self.first = int(self.state["epoch"]) if self.state else 0
        self.best = float(self.state["best"]) if self.state else -1.0
        self.records: list[EpochRecord] = list(self.state["records"]) if self.state else []
        self.logger: RunLogger | None = None

    def run(self) -> dict[str, Any]:
        """Train, test, and complete the run folder."""
        if 0 < self.part.until <= self.first:
            raise Pause(f"epoch {self.part.until} is done")
        self.fabric.barrier()
        if self.fabric.is_global_zero:
            self._open()
        with Progress(self.recipe, self.data.steps, self.first, self.fabric.is_global_zero) as self.bar:
            fit(
                self.fabric,
                self.recipe,
                self.model,
                self.objective,
                self.data,
                everything=lambda: plain_batches(self.data, self.model),
                state=self.state,
                validate=self._validate,
                save=self._save,
                watch=self.bar.step,
                stop=self.stop,
            )
        self.fabric.barrier()
        selected = self._selected()
        test = self.part.test
        tested = self._validate_part(self.model, self.splits.test, keep=True) if test else Validation({}, {})
        if test and len(self.splits.test):
            neighbors = neighbor_accuracies(self.fabric, self.recipe, self.model, self.splits.train, tested)
            tested.numbers.update(neighbors)
            if tested.arrays:
                tested.numbers.update(shot_accuracies(class_counts(self.recipe, self.splits.train), tested.arrays))
        result = self._result(self.model, tested.numbers) | selected
        if self.fabric.is_global_zero:
            if tested.arrays:
                self.folder.write_outputs(tested.arrays)
            weights = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
            self.folder.finish(weights, result)
        self.fabric.barrier()
        return result

    def _validate_part(self, model: nn.Module, part: Images, *, keep: bool = False) -> Validation:
        return validate_part(self.fabric, self.recipe, model, part, keep=keep)

    def _open(self) -> None:
        """Prepare the run folder before the first epoch of a new or resumed run."""
        splits = self.splits
        about = {"source": splits.source, "train": len(splits.train), "val": splits.val.rows.tolist()}  # of the source
        about |= {"test": len(splits.test), "class_names": list(splits.class_names), "groups": list(splits.groups)}
        self.folder.write_splits(about)
        if self.noisy:
            self.folder.write_noise(self.noisy.facts(), _labels(self.noisy))
        self.folder.restore_metrics(self.records)
        weights = sum(value.numel() for value in self.model.parameters())
        announce_parts(self.recipe, self.splits, weights, self.data.steps, self.first)
        if self.recipe.log != "none":
            self.logger = RunLogger(self.fabric, self.recipe, self.folder, self.splits)

    def _validate(self, model: nn.Module) -> dict[str, float]:
        """Validate after an epoch; the test set is used only if an option named for it is set."""
        numbers = self._validate_part(model, self.splits.val).numbers
        named = {name if name in GEOMETRY else f"val/{name}": value for name, value in numbers.items()}
        peeks, oracle = _peeks(self.objective), self.recipe.oracle and len(self.splits.test)
        tested = self._validate_part(model, self.splits.test).numbers["top1"] if peeks or oracle else 0.0
        return {**named, **({"test/top1": tested} if peeks else {}), **({ORACLE: tested} if oracle else {})}

    def _save(self, state: dict[str, Any], record: EpochRecord | None) -> None:
        """Save an epoch or, without a record, a state inside an epoch; pause after the requested epoch."""
        if self.fabric.is_global_zero:
            if record is not None:
                self._record(state, record)
            self.folder.save({**state, "best": self.best, "start": self.start, "records": self.records})
            if record is not None:
                self._report(record)
        if record is not None and 0 < self.part.until <= state["epoch"]:
            raise Pause(f"epoch {self.part.until} is done")

    def _record(self, state: dict[str, Any], record: EpochRecord) -> None:
        """Complete the record of an epoch and write it; keep the weights if they are the best so far."""
        kept = self.objective.kept_samples()
        if kept is not None:  # clean labels are only recorded and never reach the loss
            wrong = self.noisy.wrong["train"] if self.noisy else torch.zeros(len(self.splits.train))
            record |= pruning_purity(kept, wrong)
        if record.get("val/top1", -1.0) > self.best:
            self.best = record["val/top1"]
            self.folder.save_best({"model": state["model"]})
        self.records.append(record)
        self.folder.log(record)

    def _report(self, record: EpochRecord) -> None:
        """Show a saved epoch to the logger, the user and the caller of the run."""
        if self.logger is not None:
            self.logger.log(self.model, record)
        self.bar.epoch(record)
        if self.part.watch is not None:
            self.part.watch(self.model, self.splits)

    def _selected(self) -> dict[str, float]:
        """Load or additionally test the weights with the best validation accuracy, as the recipe's `selection` says."""
        if self.recipe.selection == "last":
            return {}
        last = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.model.load_state_dict(self.folder.load_best()["model"])
        if self.recipe.selection == "best-val":
            return {}
        numbers = self._validate_part(self.model, self.splits.test).numbers
        self.model.load_state_dict(last)
        return {f"selected/{name}": value for name, value in numbers.items() if name in ("top1", "top5", "s", "d")}

    def _result(self, model: nn.Module, tested: dict[str, float]) -> dict[str, Any]:
        """Return the final numbers and how they were obtained."""
        held_out = self._validate_part(model, self.splits.val).numbers
        records = self.folder.metrics()
        oracles = [record[ORACLE] for record in records if ORACLE in record]
        skipped = [record["skipped_steps"] for record in records if "skipped_steps" in record]
        guided = ", guided by the TEST set as released" if _peeks(self.objective) else ""
        teacher = self.folder.beside(self.recipe.after)
        return {
            **{f"test/{name}": value for name, value in tested.items()},
            **{f"val/{name}": value for name, value in held_out.items() if name in ("top1", "top5", "loss")},
            **({ORACLE: max(oracles)} if oracles else {}),
            **{f"noise/{part}": rate for part, rate in (self.noisy.rates() if self.noisy else {}).items()},
            "selection": self.recipe.selection + guided,
            "scale": self.recipe.scale,
            **({"changes": list(self.recipe.changes)} if self.recipe.changes else {}),
            **({"after": {"recipe": teacher.recipe(), "sha256": teacher.weights_sum()}} if self.recipe.after else {}),
            "epochs": self.recipe.epochs,
            **({ENDED_AFTER: len(records)} if self.objective.ended else {}),
            **self.model.facts,
            **self.objective.facts(self.model),
            "seconds": sum(record["seconds"] for record in records),
            **({"skipped_steps": sum(skipped)} if skipped else {}),
            "start": self.start,
        }


def check_recipe(recipe: Recipe) -> None:
    """Raise `OptionError` if a recipe cannot be trained here, before anything is written, read or started."""
    _check_processes(recipe.devices, recipe.nodes, os.environ)
    recipe.data.check()
    tuple(recipe.data.augment)
    model, classes = build_model(recipe), recipe.data.num_classes
    with torch.random.fork_rng(devices=[]):
        recipe.method.build(TaskShape(classes, model.feature_dim, (1,) * classes, 1, model if recipe.after else None))


def _check_processes(devices: int, nodes: int, environment: Mapping[str, str]) -> None:
    """Raise an error for more processes than this machine can hold, or for nodes without a launcher."""
    accelerators, cores = torch.cuda.device_count(), os.cpu_count() or 1
    most = accelerators or PROCESSES_PER_CORE * cores
    if devices > most:
        per_core = f"for at most {PROCESSES_PER_CORE} processes each"
        limit = f"{accelerators} accelerators" if accelerators else f"{cores} cores, {per_core}"
        raise OptionError(f"devices is {devices}, but this machine has {limit}: must be between 1 and {most}.")
    if nodes > 1 and not any(name in environment for name in LAUNCHERS):
        raise OptionError(
            f"nodes is {nodes}, but no launcher started this process: start it with torchrun or SLURM on each node, or "
            "remove --nodes."
        )


def _check_judge(recipe: Recipe, objective: Objective, splits: Splits) -> None:
    """Raise an error before training if a model is to be selected by validation but there are no validation images."""
    method = objective.monitor.startswith("val/")
    if (method or recipe.selection != "last") and not len(splits.val):
        selector = type(recipe.method).__name__ if method else f"selection {recipe.selection}"
        raise OptionError(
            f"{selector} selects a model by its validation accuracy, but there are no validation images: hold some "
            "out, for example with --data.val 5000."
        )


def _check_blind(recipe: Recipe, objective: Objective, splits: Splits) -> None:
    """Raise an error before training if an untested run would use test images, or has no validation images."""
    if _peeks(objective) or recipe.oracle or recipe.selection == "both":
        raise OptionError(
            f"{recipe.name} uses the test images during training (oracle, selection both, or its method): change these "
            "settings for a run without a test."
        )
    if not len(splits.val):
        raise OptionError("a run without a test needs validation images: hold some out, such as --data.val 200.")


def _peeks(objective: Objective) -> bool:
    """Return whether the method monitors the test set during training, which only an option named for it enables."""
    return objective.monitor.startswith("test/")


def _labels(noisy: NoisyData) -> dict[str, Any]:
    """Return, for the run folder, the source rows, current labels and wrong-label mask of each corrupted part."""
    parts = {"train": noisy.splits.train, "val": noisy.splits.val}
    rows = {f"{name}/rows": part.rows.numpy() for name, part in parts.items()}
    labels = {f"{name}/labels": part.labels[part.rows].numpy() for name, part in parts.items()}
    return {**rows, **labels, **{f"{name}/wrong": wrong.numpy() for name, wrong in noisy.wrong.items()}}
