"""The steps of `opl try`: list and decode the images, measure the speed, plan, and train."""

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from ...errors import FolderError, OplError, OptionError
from ...functional import GAMMA, WEIGHT
from ..data.user_images import ImageFacts, UserImages, list_target, measure_sample
from ..files import write_whole
from ..recipe import Precision, Recipe
from ..runner.executor import Executor, Task, run_tasks
from ..settings import read_json, to_json
from .choice import ARMS, LADDER, Choice, choose_batch_size, choose_lr, choose_size, network_of, wanted_epochs
from .plan import (
    GOOD_SEEDS,
    MOST_SEEDS,
    Clock,
    Outcome,
    Plan,
    Speed,
    Work,
    jobs_of_seeds,
    make_plan,
    run_rounds,
)
from .preferences import Preferences

CHOSEN = "try.json"
DECODING, LEAST_IMAGES = 0.2, 1000  # fraction of the time for decoding, and images that are decoded in any case
PROGRAM = ("-m", "opl.experiments.tryout.speed")
SHARE_OF_MEASURING, LONGEST_MEASURING = 0.005, 4.0  # fraction of the time, and seconds, per network and precision
PRECISIONS: tuple[Precision, ...] = ("32-true", "bf16-mixed")
WORTHWHILE = 1.33  # speedup from which the lower precision is used


@dataclass(frozen=True)
class Chosen:
    """All settings of a folder of `opl try`, as they are kept there."""

    choice: Choice
    seeds: int
    seconds: float
    """The expected time of the runs of all seeds."""
    images_per_second: float
    """The measured training speed of one run while the others run in parallel."""
    images: UserImages


class Trial:
    """One folder of `opl try`."""

    def __init__(self, target: str, name: str, folder: Path, wanted: Preferences, jobs: int, clock: Clock) -> None:
        if wanted.pretrained and Path(wanted.pretrained).exists():  # runs may be resumed from another folder
            wanted = replace(wanted, pretrained=str(Path(wanted.pretrained).absolute()))
        path = Path(target).expanduser()
        self.target, self.root = target, str(path.absolute()) if path.exists() else target
        self.name, self.folder = f"try-{name}", folder.absolute()
        self.wanted, self.jobs, self.clock = wanted, jobs, clock
        self.earlier = read_chosen(self.folder)

    def prepare(self, large: bool) -> ImageFacts:
        """Decode the images, unless they are in the cache; return what is known about them.

        Args:
            large: whether images of more than 64 pixels are affordable.
        """
        images = self._resumed_images() if self.earlier else self._new_images(large)
        facts = images.facts()
        self.images = replace(images, key=facts.key)
        return facts

    def _new_images(self, large: bool) -> UserImages:
        wanted = self.wanted
        listing = list_target(self.target, wanted.image_column, wanted.label_column).listing
        side, seconds = measure_sample(listing)
        most = wanted.images
        if most == Preferences.images:  # not set by the user
            most = min(most, max(LEAST_IMAGES, int(DECODING * self.clock.seconds / seconds)))
        return UserImages(
            name=self.name,
            root=self.root,
            size=wanted.size or choose_size(side, large or bool(wanted.pretrained)),
            most=most,
            split_seed=wanted.split_seed,
            color=bool(wanted.pretrained),
            image_column=wanted.image_column,
            label_column=wanted.label_column,
        )

    def _resumed_images(self) -> UserImages:
        """Return the images of an earlier start of this folder; they and the settings must be the same now."""
        images = UserImages(**{**self.earlier["images"], "root": self.root})
        before = {"size": images.size, "images": images.most, "split_seed": images.split_seed}
        self.wanted.check_equal({**self.earlier["choice"], **before}, self.folder)
        return images

    def choose(self, facts: ImageFacts, executor: Executor) -> Chosen:
        """Choose all settings by the speed of this machine, or return those of an earlier start."""
        if self.earlier:
            seeds = self.wanted.seeds or self.earlier["seeds"]
            choice = Choice(**self.earlier["choice"])
            return Chosen(**{**self.earlier, "choice": choice, "images": self.images, "seeds": seeds})
        drafts = self._drafts(facts)
        works = [self._work(facts, draft) for draft in drafts]
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
        return Chosen(choice, plan.seeds, round(plan.seconds, 1), round(speed.images_per_second, 1), self.images)

    def _fit_batches(self, choice: Choice, facts: ImageFacts) -> Choice:
        """Set batch size and learning rate for the number of training images, unless the user has set them."""
        train = choice.train_images or facts.sizes[0]
        size = self.wanted.batch_size or choose_batch_size(train, len(facts.class_names))
        return replace(choice, batch_size=size, lr=self.wanted.lr or choose_lr(size, bool(self.wanted.pretrained)))

    def _drafts(self, facts: ImageFacts) -> list[Choice]:
        """Return the choices among which the speed decides: one per network, the cheapest first."""
        train, wanted = facts.sizes[0], self.wanted
        networks, stem = [name for name, least in LADDER.items() if train >= least], None
        if wanted.pretrained:
            network, stem = network_of(wanted.pretrained)
            networks = [network]
        if wanted.network != "auto":
            if stem is not None and wanted.network != networks[0]:
                raise OptionError(
                    f"--network is {wanted.network}, but the pretrained weights are for {networks[0]}: omit the flag."
                )
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
            pretrained=wanted.pretrained,
            stem=stem,
        )
        draft = self._fit_batches(draft, facts)
        epochs = wanted.epochs or wanted_epochs(train, draft.batch_size, bool(wanted.pretrained))
        return [replace(draft, network=network, epochs=epochs) for network in networks]

    def _work(self, facts: ImageFacts, draft: Choice) -> Work:
        train, val, test = facts.sizes
        return Work(train, val, test, len(facts.class_names), len(ARMS), self.jobs, draft.epochs)

    def _plan(self, work: Work, speed: Speed) -> Plan:
        return make_plan(work, speed, self.clock.left, epochs=self.wanted.epochs, seeds=self.wanted.seeds)

    def _measure(self, drafts: list[Choice], work: Work, executor: Executor) -> list[tuple[Choice, Speed]]:
        """Measure the costliest arm of each draft in each precision; return each with its best precision and speed.

        As many are measured in parallel as there will be runs. Networks that are too large for the time are left out.
        """
        precisions = PRECISIONS if self.wanted.precision == "auto" else (self.wanted.precision,)
        groups = [[replace(draft, precision=precision) for precision in precisions] for draft in drafts]
        speeds, start = self._measure_groups(
            {
                "groups": [[to_json(self.recipes(draft)[-1]) for draft in group] for group in groups],
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
        folder = self.folder / "speed"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "recipes.json", json.dumps(content).encode())
        results = [folder / f"speed-{index}.json" for index in range(self.jobs)]
        tasks = [
            Task(result.name, (str(folder / "recipes.json"), str(result)), folder / "log.txt", program=PROGRAM)
            for result in results
        ]
        before = self.clock.spent
        if set(run_tasks(executor, tasks).values()) != {"done"}:
            raise OplError(f"the speed could not be measured: see {folder / 'log.txt'}.")
        measured = [read_json(result) for result in results]
        shutil.rmtree(folder)
        start = max(0.0, self.clock.spent - before - fmean(content["seconds"] for content in measured))
        return [content["images_per_second"] for content in measured], start

    def recipes(self, choice: Choice) -> list[Recipe]:
        """Return the recipes of all arms."""
        return [choice.recipe(arm, self.images) for arm in ARMS]

    def train(self, chosen: Chosen, facts: ImageFacts, executor: Executor) -> Outcome:
        """Train all arms, seed after seed."""
        recipes = self.recipes(chosen.choice)
        write_chosen(self.folder, chosen)
        for recipe in recipes:
            write_whole(self.folder / f"{recipe.name}.json", (json.dumps(to_json(recipe), indent=1) + "\n").encode())
        together = self._work(facts, chosen.choice).together
        seeds = self._seeds(chosen, recipes)
        rounds = [
            jobs_of_seeds(recipes, seeds[start : start + together], self.folder)
            for start in range(0, len(seeds), together)
        ]
        planned = -(-chosen.seeds // together)
        return run_rounds(rounds, planned, self.folder, executor, self.clock, chosen.seconds / planned)

    def _seeds(self, chosen: Chosen, recipes: list[Recipe]) -> list[int]:
        """Return the planned seeds and, unless they are finished, more for time that may be left."""
        planned = list(range(chosen.seeds))
        if self.wanted.seeds or all(job.folder.done for job in jobs_of_seeds(recipes, planned, self.folder)):
            return planned
        return list(range(max(chosen.seeds, MOST_SEEDS)))

    def finished_seeds(self, chosen: Chosen) -> list[int]:
        """Return the seeds with which all arms are finished."""
        recipes = self.recipes(chosen.choice)
        jobs = {seed: jobs_of_seeds(recipes, [seed], self.folder) for seed in range(max(chosen.seeds, MOST_SEEDS))}
        return [seed for seed, runs in jobs.items() if all(job.folder.done for job in runs)]


def write_chosen(folder: Path, chosen: Chosen) -> None:
    """Keep the settings of a folder."""
    write_whole(folder / CHOSEN, (json.dumps(asdict(chosen), indent=1) + "\n").encode())


def read_chosen(folder: Path) -> dict[str, Any]:
    """Return the settings of an earlier start; empty if this folder is new.

    Raises:
        FolderError: the file cannot be read.
    """
    if not (folder / CHOSEN).exists():
        return {}
    try:
        content = read_json(folder / CHOSEN)
        if not isinstance(content, dict) or not {"choice", "images"} <= content.keys():
            raise ValueError("it lacks settings")
    except (OSError, ValueError) as error:
        raise FolderError(f"{folder / CHOSEN} cannot be read ({error}): give another --out, or delete it.") from error
    return content
