"""The steps of `opl try`: list the pictures, decode them, measure the speed, plan, and train."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import FolderError, OplError, OptionError
from ...functional import GAMMA, WEIGHT
from ..cluster.executor import Executor, Task, run_tasks
from ..data.readers.listing import Listing
from ..data.readers.pack import PackFacts, read_facts
from ..files import write_whole
from ..recipe import Recipe
from ..serialization import read_json, to_json
from .arms import ARMS
from .choice import LADDER, Choice, choose_batch_size, choose_lr, choose_size, network_of, wanted_epochs
from .location import list_pictures
from .plan import GOOD_SEEDS, Plan, Speed, Work, make_plan
from .preferences import Preferences
from .rounds import Clock, Outcome, jobs_of_seeds, run_rounds
from .stored import read_chosen, write_chosen
from .survey import PackSettings, look_at, pack_key, pack_pictures

IMAGES = "images"  # the folder of the pack
DECODING, LEAST_PICTURES = 0.2, 1000  # the part of the time for decoding, and pictures that are decoded anyway
PROBE = ("-m", "opl.experiments.tryout.probe")


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
        speeds = self._measure(facts, drafts, works[0], executor)
        plans = [self._plan(works[0], speeds[0])]
        for work, speed in zip(works[1:], speeds[1:], strict=False):  # larger networks, if they leave enough seeds
            try:
                plan = self._plan(work, speed)
            except OptionError:
                break
            if plan.seeds < (self.wanted.seeds or GOOD_SEEDS) or plan.epochs < work.wanted:
                break
            plans.append(plan)
        last = len(plans) - 1
        choice = replace(drafts[last], epochs=plans[last].epochs, train_images=plans[last].images)
        speed = round(speeds[last].images_per_second, 1)
        return Chosen(choice, plans[last].seeds, round(plans[last].seconds, 1), speed, self.pack)

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
        batch_size = wanted.batch_size or choose_batch_size(train, len(facts.class_names))
        draft = Choice(
            network=networks[0],
            size=self.pack.size,
            batch_size=batch_size,
            lr=wanted.lr or choose_lr(batch_size, bool(wanted.pretrained)),
            epochs=wanted.epochs or wanted_epochs(train, batch_size, bool(wanted.pretrained)),
            flip=(0.5 if facts.channels == 3 else 0.0) if wanted.flip is None else wanted.flip,
            weight=WEIGHT if wanted.weight is None else wanted.weight,
            gamma=GAMMA if wanted.gamma is None else wanted.gamma,
            pretrained=wanted.pretrained,
            stem=stem,
        )
        return [replace(draft, network=network) for network in networks]

    def _work(self, facts: PackFacts, draft: Choice) -> Work:
        return Work(*facts.sizes, len(facts.class_names), len(ARMS), self.jobs, draft.epochs)

    def _plan(self, work: Work, speed: Speed) -> Plan:
        return make_plan(work, speed, self.clock.left, epochs=self.wanted.epochs, seeds=self.wanted.seeds)

    def _measure(self, facts: PackFacts, drafts: list[Choice], work: Work, executor: Executor) -> list[Speed]:
        """Measure the speed of the costliest arm of each draft, as many at a time as there will be runs."""
        recipes = [to_json(self.recipes(draft, facts)[-1]) for draft in drafts]
        least = work.wanted * work.train / max(1.0, self.clock.left)  # even slower ones need not be measured
        folder = self.folder / "speed"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "recipes.json", json.dumps({"recipes": recipes, "least": least}).encode())
        results = [folder / f"speed-{place}.json" for place in range(self.jobs)]
        before = self.clock.spent
        tasks = [
            Task(result.name, (str(folder / "recipes.json"), str(result)), folder / "log.txt", program=PROBE)
            for result in results
        ]
        if set(run_tasks(executor, tasks).values()) != {"done"}:
            raise OplError(f"the speed could not be measured: {folder / 'log.txt'} says why.")
        told = [read_json(result) for result in results]
        shutil.rmtree(folder)
        start = max(0.0, self.clock.spent - before - min(each["seconds"] for each in told))
        return [
            Speed(min(speeds), start) for speeds in zip(*(each["images_per_second"] for each in told), strict=False)
        ]

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
        starts = range(0, chosen.seeds, together)
        seeds = [range(start, min(start + together, chosen.seeds)) for start in starts]
        rounds = [jobs_of_seeds(recipes, some, self.folder) for some in seeds]
        return run_rounds(rounds, self.folder, executor, self.clock, chosen.seconds / len(rounds))

    def finished_seeds(self, facts: PackFacts, chosen: Chosen) -> list[int]:
        """The seeds with which all arms are finished."""
        recipes = self.recipes(chosen.choice, facts)
        jobs = {seed: jobs_of_seeds(recipes, [seed], self.folder) for seed in range(chosen.seeds)}
        return [seed for seed, some in jobs.items() if all(job.folder.done for job in some)]
