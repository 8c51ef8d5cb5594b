"""The steps of `opl try`: list the pictures, decode them, measure the speed, plan, and train."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from ...errors import FolderError, OplError, OptionError
from ...functional import GAMMA, WEIGHT
from ..data.read.listing import Listing
from ..data.read.pack import PackFacts, read_facts
from ..files import write_whole
from ..recipe import Precision, Recipe
from ..runner.executor import Executor, Task, run_tasks
from ..settings import read_json, to_json
from .arms import ARMS
from .choice import LADDER, Choice, choose_batch_size, choose_lr, choose_size, network_of, wanted_epochs
from .location import list_pictures
from .plan import GOOD_SEEDS, MOST_SEEDS, Plan, Speed, Work, make_plan
from .preferences import Preferences
from .rounds import Clock, Outcome, jobs_of_seeds, run_rounds
from .stored import read_chosen, write_chosen
from .survey import PackSettings, look_at, pack_key, pack_pictures

IMAGES = "images"  # the folder of the pack
DECODING, LEAST_PICTURES = 0.2, 1000  # the part of the time for decoding, and pictures that are decoded anyway
PROBE = ("-m", "opl.experiments.tryout.probe")
SHARE_OF_PROBE, LONGEST_PROBE = 0.005, 4.0  # of the time, and seconds, for each network and precision
PRECISIONS: tuple[Precision, ...] = ("32-true", "bf16-mixed")
WORTH = 1.33  # how much faster the lower precision must be


@dataclass(frozen=True)
class Chosen:
    """All that was chosen for a folder of `opl try`, as it is kept there."""

    choice: Choice
    seeds: int
    seconds: float
    """The expected time of the runs of all seeds."""
    images_per_second: float
    """What was measured: the training images of one run, while the others run beside it."""
    pack: PackSettings


class Experiment:
    """One folder of `opl try`."""

    def __init__(self, target: str, name: str, folder: Path, wanted: Preferences, jobs: int, clock: Clock) -> None:
        if wanted.pretrained and Path(wanted.pretrained).exists():  # runs may be resumed from another folder
            wanted = replace(wanted, pretrained=str(Path(wanted.pretrained).absolute()))
        self.target, self.name, self.folder = target, f"try-{name}", folder.absolute()
        self.wanted, self.jobs, self.clock = wanted, jobs, clock
        self.images = self.folder / IMAGES
        self.earlier = read_chosen(self.folder)

    def prepare(self, large: bool) -> PackFacts:
        """Decode the pictures, unless that was done before; returns what is known of them.

        Args:
            large: whether images of more than 64 pixels can be afforded.
        """
        listing = list_pictures(self.target, self.wanted.image_column, self.wanted.label_column)
        if self.earlier:
            return self._prepare_again(listing)
        pretrained = bool(self.wanted.pretrained)
        side, seconds = look_at(listing)
        size = self.wanted.size or choose_size(side, large or pretrained)
        most = self.wanted.images
        if most == Preferences.images:  # not set by the user
            most = min(most, max(LEAST_PICTURES, int(DECODING * self.clock.seconds / seconds)))
        self.pack = PackSettings(size, most, self.wanted.split_seed, pretrained)
        known = read_facts(self.images)
        if known is not None and known.key == pack_key(listing, self.pack):
            return known
        return pack_pictures(listing, self.images, self.pack)

    def _prepare_again(self, listing: Listing) -> PackFacts:
        """The pictures of a folder that was begun before; it is an error if they or the settings are others now."""
        self.pack = PackSettings(*self.earlier["pack"])
        before = {"size": self.pack.size, "images": self.pack.most, "split_seed": self.pack.seed}
        self.wanted.check_against({**self.earlier["choice"], **before}, self.folder)
        facts = read_facts(self.images)
        if facts is None:
            return pack_pictures(listing, self.images, self.pack)
        if facts.key != pack_key(listing, self.pack):
            raise FolderError(
                f"the pictures of {self.target!r} are not those that {self.folder} was begun with: give another --out."
            )
        return facts

    def choose(self, facts: PackFacts, executor: Executor) -> Chosen:
        """Choose all settings by the speed of this machine, or read those that were chosen before."""
        if self.earlier:
            seeds = self.wanted.seeds or self.earlier["seeds"]
            told = {**self.earlier, "choice": Choice(**self.earlier["choice"]), "pack": self.pack, "seeds": seeds}
            return Chosen(**told)
        drafts = self._drafts(facts)
        works = [self._work(facts, draft) for draft in drafts]
        fastest = self._measure(facts, drafts, works[0], executor)
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
        return Chosen(choice, plan.seeds, round(plan.seconds, 1), round(speed.images_per_second, 1), self.pack)

    def _fit_batches(self, choice: Choice, facts: PackFacts) -> Choice:
        """Batch size and learning rate for the training images that are used, unless they are given."""
        train = choice.train_images or facts.sizes[0]
        size = self.wanted.batch_size or choose_batch_size(train, len(facts.class_names))
        return replace(choice, batch_size=size, lr=self.wanted.lr or choose_lr(size, bool(self.wanted.pretrained)))

    def _drafts(self, facts: PackFacts) -> list[Choice]:
        """The choices that are left to the speed: one for each network, the cheapest first."""
        train, wanted = facts.sizes[0], self.wanted
        networks, stem = [name for name, least in LADDER.items() if train >= least], None
        if wanted.pretrained:
            network, stem = network_of(wanted.pretrained)
            networks = [network]
        if wanted.network != "auto":
            if stem is not None and wanted.network != networks[0]:
                raise OptionError(
                    f"--network is {wanted.network}, and the pretrained weights are those of {networks[0]}: leave "
                    "--network out."
                )
            networks = [wanted.network]
        draft = Choice(
            network=networks[0],
            size=self.pack.size,
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

    def _work(self, facts: PackFacts, draft: Choice) -> Work:
        train, val, test = facts.sizes
        return Work(train, val, test, len(facts.class_names), len(ARMS), self.jobs, draft.epochs)

    def _plan(self, work: Work, speed: Speed) -> Plan:
        return make_plan(work, speed, self.clock.left, epochs=self.wanted.epochs, seeds=self.wanted.seeds)

    def _measure(
        self, facts: PackFacts, drafts: list[Choice], work: Work, executor: Executor
    ) -> list[tuple[Choice, Speed]]:
        """Measure the costliest arm of each draft in each precision; returns each with the faster one, and its speed.

        As many are measured at a time as there will be runs. Larger networks than can be afforded are left out.
        """
        precisions = PRECISIONS if self.wanted.precision == "auto" else (self.wanted.precision,)
        groups = [[replace(draft, precision=precision) for precision in precisions] for draft in drafts]
        told, start = self._probe(
            {
                "groups": [[to_json(self.recipes(each, facts)[-1]) for each in group] for group in groups],
                "least": work.wanted * work.train / max(1.0, self.clock.left),
                "seconds": min(LONGEST_PROBE, SHARE_OF_PROBE * self.clock.seconds),
            },
            executor,
        )
        found = []
        for group, *speeds in zip(groups, *told, strict=False):
            means = [fmean(each) for each in zip(*speeds, strict=True)]
            place = len(means) - 1 if means[-1] >= WORTH * means[0] else 0
            found.append((group[place], Speed(means[place], start)))
        return found

    def _probe(self, content: dict[str, Any], executor: Executor) -> tuple[list[list[list[float]]], float]:
        """What as many processes measured as there will be runs at a time, and the seconds that one takes to start."""
        folder = self.folder / "speed"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "recipes.json", json.dumps(content).encode())
        results = [folder / f"speed-{place}.json" for place in range(self.jobs)]
        tasks = [
            Task(result.name, (str(folder / "recipes.json"), str(result)), folder / "log.txt", program=PROBE)
            for result in results
        ]
        before = self.clock.spent
        if set(run_tasks(executor, tasks).values()) != {"done"}:
            raise OplError(f"the speed could not be measured: {folder / 'log.txt'} says why.")
        told = [read_json(result) for result in results]
        shutil.rmtree(folder)
        start = max(0.0, self.clock.spent - before - fmean(each["seconds"] for each in told))
        return [each["images_per_second"] for each in told], start

    def recipes(self, choice: Choice, facts: PackFacts) -> list[Recipe]:
        """The recipes of all arms."""
        return [choice.recipe(self.name, arm, facts, self.images) for arm in ARMS]

    def train(self, chosen: Chosen, facts: PackFacts, executor: Executor) -> Outcome:
        """Train all arms with one seed after another."""
        recipes = self.recipes(chosen.choice, facts)
        write_chosen(self.folder, chosen)
        for recipe in recipes:
            write_whole(self.folder / f"{recipe.name}.json", (json.dumps(to_json(recipe), indent=1) + "\n").encode())
        together = self._work(facts, chosen.choice).together
        seeds = self._seeds(chosen, recipes)
        some = [seeds[start : start + together] for start in range(0, len(seeds), together)]
        rounds = [jobs_of_seeds(recipes, each, self.folder) for each in some]
        planned = -(-chosen.seeds // together)
        return run_rounds(rounds, planned, self.folder, executor, self.clock, chosen.seconds / planned)

    def _seeds(self, chosen: Chosen, recipes: list[Recipe]) -> list[int]:
        """The seeds that were planned and, if some of them are left to do, more for the time that may be left."""
        planned = list(range(chosen.seeds))
        if self.wanted.seeds or all(job.folder.done for job in jobs_of_seeds(recipes, planned, self.folder)):
            return planned
        return list(range(max(chosen.seeds, MOST_SEEDS)))

    def finished_seeds(self, facts: PackFacts, chosen: Chosen) -> list[int]:
        """The seeds with which all arms are finished."""
        recipes = self.recipes(chosen.choice, facts)
        jobs = {seed: jobs_of_seeds(recipes, [seed], self.folder) for seed in range(max(chosen.seeds, MOST_SEEDS))}
        return [seed for seed, some in jobs.items() if all(job.folder.done for job in some)]
