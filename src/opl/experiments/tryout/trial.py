"""The steps of `opl try`: list and decode the images, measure the speed, plan, and train."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from ...errors import FolderError, OplError, OptionError
from ...functional import GAMMA, WEIGHT
from ..data.user_images import ImageFacts, UserImages, list_target, measure_sample
from ..files import make_folder, read_json, write_whole
from ..methods import CrossEntropy, CrossEntropyOPL
from ..recipe import Precision, Recipe
from ..run_folder import RunFolder
from ..runner.executor import Executor, Task, run_tasks
from ..runner.jobs import Job
from ..settings import to_json
from .choice import LADDER, Choice, choose_batch_size, choose_lr, choose_size, choose_weights, network_of, wanted_epochs
from .plan import GOOD_SEEDS, MOST_SEEDS, Clock, Outcome, Plan, Speed, Work, make_plan, run_rounds
from .preferences import Preferences

CHOSEN, FOLDERS = "try.json", "weight-*-gamma-*"
BASELINE, METHOD = "CE", "CE+OPL"
DECODING, LEAST_IMAGES = 0.2, 1000  # fraction of the time for decoding, and images that are decoded in any case
PROGRAM = ("-m", "opl.experiments.tryout.speed")
SHARE_OF_MEASURING, LONGEST_MEASURING = 0.005, 4.0  # fraction of the time, and seconds, per network and precision
PRECISIONS: tuple[Precision, ...] = ("32-true", "bf16-mixed")
WORTHWHILE = 1.33  # speedup from which the lower precision is used


@dataclass(frozen=True)
class TrialSettings:
    """All settings of a folder of `opl try`, as stored there."""

    choice: Choice
    seeds: int
    run_seconds: float
    """The expected time of one run."""
    images_per_second: float
    """The measured training speed of one run while the others run in parallel."""
    images: UserImages


class Arm(NamedTuple):
    """A method that is compared, and where its runs are; everything else is equal."""

    label: str
    recipe: Recipe
    out: Path

    def job(self, seed: int, seconds: float = 0.0) -> Job:
        """Return the run with a seed; `seconds` is its expected time."""
        folder = RunFolder.of(self.out, self.recipe.name, seed)
        return Job(self.recipe.name, seed, self.recipe.epochs, folder, cost=seconds)


class Trial:
    """One folder of `opl try`: a first try, and below it later tries with another weight or gamma of OPL.

    A later try has the images, seeds and all other settings of the first, and is compared with the same runs without
    OPL.
    """

    def __init__(self, target: str, name: str, folder: Path, wanted: Preferences, jobs: int, clock: Clock) -> None:
        if Path(wanted.weights).is_file():  # runs may be resumed from another folder
            wanted = replace(wanted, weights=str(Path(wanted.weights).absolute()))
        path = Path(target).expanduser()
        self.target, self.root = target, str(path.absolute()) if path.exists() else target
        self.name, self.home = f"try-{name}", folder.absolute()
        self.wanted, self.jobs, self.clock = wanted, jobs, clock
        self.first = read_chosen(self.home)
        self.folder, self.earlier = self.home, self.first
        chosen = {"weight": wanted.weight, "gamma": wanted.gamma}
        overrides: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        if self.first and (changed := replace(self.first.choice, **overrides)) != self.first.choice:
            self.folder = self.home / f"weight-{changed.weight:g}-gamma-{changed.gamma:g}"
            self.earlier = read_chosen(self.folder) or replace(self.first, choice=changed)

    def check_unchanged(self) -> None:
        """Raise an error if another process has trained in this folder since its settings were read."""
        if read_chosen(self.home) != self.first:
            raise FolderError(f"another `opl try` has just used {self.home}: run the same command again.")

    @property
    def is_later(self) -> bool:
        """Whether there is a first try with another weight or gamma."""
        return self.folder != self.home

    def prepare(self, large: bool) -> ImageFacts:
        """Decode the images, unless they are in the cache; `large` sizes are chosen only with an accelerator."""
        images = self._resumed_images(self.earlier) if self.earlier else self._new_images(large)
        facts = images.facts()
        self.images = replace(images, key=facts.key)
        return facts

    def _new_images(self, large: bool) -> UserImages:
        wanted = self.wanted
        listing = list_target(self.target, wanted.image_column, wanted.label_column)
        side, seconds = measure_sample(listing)
        most = wanted.images
        if most == Preferences.images:  # not set by the user
            most = min(most, max(LEAST_IMAGES, int(DECODING * self.clock.seconds / seconds)))
        self.weights = choose_weights(wanted.weights, wanted.network, side)
        return UserImages(
            name=self.name,
            root=self.root,
            size=wanted.size or choose_size(side, large, self.weights),
            most=most,
            split_seed=wanted.split_seed,
            color=bool(self.weights),
            image_column=wanted.image_column,
            label_column=wanted.label_column,
        )

    def _resumed_images(self, earlier: TrialSettings) -> UserImages:
        """Return the images of an earlier start of this folder; they and the settings must be the same now."""
        images = replace(earlier.images, root=self.root)
        before = {"size": images.size, "images": images.most, "split_seed": images.split_seed}
        self.wanted.check_equal({**asdict(earlier.choice), **before}, self.folder)
        return images

    def choose(self, facts: ImageFacts, executor: Executor) -> TrialSettings:
        """Choose all settings by the speed of this machine, or return the settings of an earlier start."""
        if self.earlier:
            return replace(self.earlier, images=self.images, seeds=self.wanted.seeds or self.earlier.seeds)
        drafts = self._drafts(facts)
        train, val, test = facts.sizes
        machine = len(facts.class_names), 2, self.jobs
        works = [Work(train, val, test, *machine, draft.epochs, draft.least_epochs) for draft in drafts]
        fastest = self._measure(drafts, works[0], executor)
        plans = [self._plan(works[0], fastest[0][1])]
        for work, (_, speed) in zip(works[1:], fastest[1:], strict=False):  # larger networks that leave enough seeds
            try:
                plan = self._plan(work, speed)
            except OptionError:
                break
            if plan.seeds < (self.wanted.seeds or GOOD_SEEDS) or plan.epochs < work.wanted:
                break
            plans.append(plan)
        plan, (draft, speed) = plans[-1], fastest[len(plans) - 1]
        choice = self._fit_batches(replace(draft, epochs=plan.epochs, train_images=plan.images), facts)
        seconds, rate = round(plan.run_seconds, 1), round(speed.images_per_second, 1)
        return TrialSettings(choice, plan.seeds, seconds, rate, self.images)

    def _fit_batches(self, choice: Choice, facts: ImageFacts) -> Choice:
        """Set batch size and learning rate for the number of training images, unless the user has set them."""
        train, pretrained = choice.train_images or facts.sizes[0], bool(choice.weights)
        size = self.wanted.batch_size or choose_batch_size(train, len(facts.class_names), pretrained)
        return replace(choice, batch_size=size, lr=self.wanted.lr or choose_lr(size, pretrained))

    def _drafts(self, facts: ImageFacts) -> list[Choice]:
        """Return the candidates to choose from by speed: one per network, the cheapest first."""
        train, wanted = facts.sizes[0], self.wanted
        networks, stem = [name for name, least in LADDER.items() if train >= least], None
        if self.weights:
            network, stem = network_of(self.weights)
            if wanted.network not in ("auto", network):
                raise OptionError(
                    f"--network is {wanted.network}, but the weights are for {network}: omit the flag, or add "
                    "--weights none."
                )
            networks = [network]
        elif wanted.network != "auto":
            networks = [wanted.network]
        draft = Choice(
            network=networks[0],
            size=self.images.size,
            batch_size=1,
            lr=1.0,
            epochs=1,
            flip=(0.5 if facts.channels == 3 else 0.0) if wanted.flip is None else wanted.flip,
            weight=WEIGHT if wanted.weight is None else wanted.weight,
            gamma=GAMMA if wanted.gamma is None else wanted.gamma,
            weights=self.weights,
            stem=stem,
        )
        draft = self._fit_batches(draft, facts)
        epochs = wanted.epochs or wanted_epochs(train, draft.batch_size, bool(self.weights))
        return [replace(draft, network=network, epochs=epochs) for network in networks]

    def _plan(self, work: Work, speed: Speed) -> Plan:
        return make_plan(work, speed, self.clock.left, epochs=self.wanted.epochs, seeds=self.wanted.seeds)

    def _measure(self, drafts: list[Choice], work: Work, executor: Executor) -> list[tuple[Choice, Speed]]:
        """Measure the costliest arm of each draft in each precision; return each with its best precision and speed.

        As many processes measure in parallel as runs will train. Networks that are too large for the time are left out.
        """
        precisions = PRECISIONS if self.wanted.precision == "auto" else (self.wanted.precision,)
        groups = [[replace(draft, precision=precision) for precision in precisions] for draft in drafts]
        speeds, start = self._measure_groups(
            {
                "groups": [[to_json(self.arms(draft)[-1].recipe) for draft in group] for group in groups],
                "least": work.wanted * work.train / max(1.0, self.clock.left),
                "seconds": min(LONGEST_MEASURING, SHARE_OF_MEASURING * self.clock.seconds),
            },
            executor,
        )
        fastest = []
        for group, *measured in zip(groups, *speeds, strict=False):
            means = [fmean(values) for values in zip(*measured, strict=True)]
            index = len(means) - 1 if means[-1] >= WORTHWHILE * means[0] else 0
            fastest.append((group[index], Speed(means[index], start)))
        return fastest

    def _measure_groups(self, content: dict[str, Any], executor: Executor) -> tuple[list[list[list[float]]], float]:
        """Return what each of the parallel processes measured, and the seconds that a process takes to start."""
        make_folder(self.home)
        folder = Path(tempfile.mkdtemp(prefix=".speed-", dir=self.folder))
        write_whole(folder / "recipes.json", json.dumps(content).encode())
        results = [folder / f"speed-{index}.json" for index in range(self.jobs)]
        tasks = [
            Task(result.name, (str(folder / "recipes.json"), str(result)), folder / "log.txt", program=PROGRAM)
            for result in results
        ]
        before = self.clock.spent
        if set(run_tasks(executor, tasks).values()) != {"done"}:
            raise OplError(f"the speed could not be measured: check {folder / 'log.txt'}.")
        measured = [read_json(result) for result in results]
        shutil.rmtree(folder)
        start = max(0.0, self.clock.spent - before - fmean(content["seconds"] for content in measured))
        return [content["images_per_second"] for content in measured], start

    def arms(self, choice: Choice) -> list[Arm]:
        """Return the baseline, and the method with OPL that this try is about."""
        recipe = choice.recipe(f"{self.name}-ce", CrossEntropy(), self.images)
        return [Arm(BASELINE, recipe, self.home), self._arm(choice, self.folder)]

    def _arm(self, choice: Choice, folder: Path) -> Arm:
        """Return the method with OPL of a try."""
        method = CrossEntropyOPL(weight=choice.weight, gamma=choice.gamma)
        label, name = f"{METHOD} (weight {choice.weight:g}, gamma {choice.gamma:g})", f"{self.name}-opl"
        if folder != self.home:
            name = f"{name}-{folder.name}"
        return Arm(label, choice.recipe(name, method, self.images), folder)

    def all_arms(self, choice: Choice) -> list[Arm]:
        """Return the arms of this folder: without OPL, with OPL in the first try and in every later try.

        Labels have weight and gamma where there are several tries.
        """
        baseline, current = self.arms(choice)
        tries = {folder: read_chosen(folder) for folder in (self.home, *sorted(self.home.glob(FOLDERS)))}
        others = {folder: self._arm(chosen.choice, folder) for folder, chosen in tries.items() if chosen}
        arms = {**others, self.folder: current}
        return [baseline, *(arms.values() if len(arms) > 1 else [current._replace(label=METHOD)])]

    def train(self, chosen: TrialSettings, executor: Executor) -> Outcome:
        """Train all arms, seed after seed."""
        arms = self.arms(chosen.choice)
        make_folder(self.home, *self.folder.relative_to(self.home).parts)
        write_whole(self.folder / CHOSEN, (json.dumps(asdict(chosen), indent=1) + "\n").encode())
        for arm in arms:
            content = json.dumps(to_json(arm.recipe), indent=1)
            write_whole(arm.out / f"{arm.recipe.name}.json", f"{content}\n")
        planned = self.planned_seeds(chosen)
        more = [] if self.wanted.seeds or self.is_later or self._is_done(arms, planned) else range(MOST_SEEDS)
        seeds = [*planned, *(seed for seed in more if seed not in planned)]
        together = max(1, self.jobs // self._unfinished(arms, seeds))
        rounds = [
            [arm.job(seed, chosen.run_seconds) for seed in seeds[start : start + together] for arm in arms]
            for start in range(0, len(seeds), together)
        ]
        number = -(-len(planned) // together)
        return run_rounds(rounds, number, executor, self.clock, self.seconds(chosen, planned) / number)

    def seconds(self, chosen: TrialSettings, seeds: Sequence[int], methods: int = 0) -> float:
        """Return the expected time of some seeds; `methods` is the number of runs per seed, 0 for the unfinished."""
        count = methods or self._unfinished(self.arms(chosen.choice), seeds)
        together = max(1, self.jobs // count)
        return -(-len(seeds) // together) * -(-count // self.jobs) * chosen.run_seconds

    def seconds_of_next(self, chosen: TrialSettings, seeds: int) -> float:
        """Return the expected time of training up to `seeds` seeds or, if 0, another weight or gamma."""
        done = self.finished_seeds(chosen)
        if not seeds:
            return self.seconds(chosen, done, methods=1)
        return self.seconds(chosen, [seed for seed in range(seeds) if seed not in done])

    def _unfinished(self, arms: Sequence[Arm], seeds: Sequence[int]) -> int:
        """Return the largest number of unfinished runs of a seed; a later try already has the baseline."""
        return max(1, *(sum(not arm.job(seed).folder.done for arm in arms) for seed in seeds))

    def planned_seeds(self, chosen: TrialSettings) -> list[int]:
        """Return the seeds to train: the seeds of the first try, or as many as are chosen."""
        if self.is_later and not self.wanted.seeds:
            baseline = self.arms(chosen.choice)[0]
            return [seed for seed in range(MOST_SEEDS) if baseline.job(seed).folder.done] or list(range(chosen.seeds))
        return list(range(chosen.seeds))

    def _is_done(self, arms: Sequence[Arm], seeds: Sequence[int]) -> bool:
        return all(arm.job(seed).folder.done for arm in arms for seed in seeds)

    def finished_seeds(self, chosen: TrialSettings) -> list[int]:
        """Return the seeds with which all arms are finished."""
        arms = self.arms(chosen.choice)
        return [seed for seed in range(max(chosen.seeds, MOST_SEEDS)) if self._is_done(arms, [seed])]


def read_chosen(folder: Path) -> TrialSettings | None:
    """Return the settings of an earlier start; None if this folder is new.

    Raises:
        FolderError: the file cannot be read.
    """
    if not (folder / CHOSEN).exists():
        return None
    try:
        content = read_json(folder / CHOSEN, links=False)
        choice, images = Choice(**content["choice"]), UserImages(**content["images"])
        return TrialSettings(**{**content, "choice": choice, "images": images})
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise FolderError(f"{folder / CHOSEN} cannot be read ({error}): choose another --out, or delete it.") from error
