"""Two processes in one folder at the same time: exactly one trains, and the other refuses with a sentence.

Two measures of one finished run, or a page beside a training, do work at the same time: both must be right.
"""

import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from ._process import Ended, Started, make_elsewhere, run, start
from ._runs import differences, epochs, names, snapshot
from ._tally import Outcome, Tally, common_fault

TRAIN = ("train", "digits-opl", "--scale", "small", "--epochs", "12", "--data.val", "100")
FOLDER = "digits-opl/seed-0"
PAIR_LIMIT = 240.0
EPOCH = re.compile(r"epoch \d+/\d+")
Pair = Callable[["_Site"], tuple[Outcome, str, Ended]]


class _Site:
    """A folder in which pairs work, and what a single process makes of it."""

    def __init__(self, scratch: Path) -> None:
        self.scratch, self.chance = scratch, random.Random(0)
        self.out = scratch / "runs"
        self.alone = run([*TRAIN, "--out", str(scratch / "alone")])
        self.expected = snapshot(scratch / "alone" / FOLDER)
        self.names = names(scratch / "alone")

    @property
    def folder(self) -> Path:
        return self.out / FOLDER

    def clean(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)

    def finished(self) -> None:
        shutil.copytree(self.scratch / "alone", self.out, dirs_exist_ok=True)

    def train(self, delay: float = 0.0, seed: int = 0) -> Started:
        return start([*TRAIN, "--seed", str(seed), "--out", str(self.out)], before=lambda: time.sleep(delay))

    def begin(self, least: int = 2) -> Started:
        """Start a training and wait until it has finished some epochs."""
        process = self.train()
        while process.poll() is None and len(epochs(self.folder)) < least:
            time.sleep(0.001)
        return process

    def judge(self, ended: list[Ended]) -> tuple[Outcome, str]:
        """The folder is that of a single process, which alone has trained."""
        for each in ended:
            if fault := common_fault(each):
                return fault, f"one of them: exit {each.code}"
        trained = [each for each in ended if each.code == 0 and EPOCH.search(each.said)]
        different = differences(snapshot(self.folder), self.expected)
        if different:
            return "silent" if "weights" in different else "lost", f"the folder differs in {', '.join(different)}"
        if len(trained) != 1:
            return "silent", f"{len(trained)} processes trained to the end"
        if more := names(self.out) - self.names:
            return "orphan", f"left {', '.join(sorted(more)[:3])}"
        others = [each for each in ended if each not in trained]
        if all(each.code == 0 for each in others):
            return "right", "the other found a finished run"
        refused = [each for each in others if each.code in (1, 2) and "process" in each.said and "opl:" in each.said]
        return ("refused", "the other refused") if refused else ("silent", f"the other: exit {others[0].code}")


def pairs(scratch: Path, tally: Tally, share: float) -> None:
    """Try every kind of pair several times."""
    site = _Site(scratch)
    if site.alone.code:
        tally.add(common_fault(site.alone) or "lost", "one training alone", site.alone)
        return
    for name, pair, times in PAIRS[: 4 if share < 0.1 else None]:
        for _ in range(min(times, max(1, round(times * share)))):
            site.clean()
            outcome, what, ended = pair(site)
            tally.add(outcome, f"{name}: {what}", ended)


def _both(site: _Site, *processes: Started) -> tuple[Outcome, str, Ended]:
    ended = [each.wait(PAIR_LIMIT) for each in processes]
    outcome, what = site.judge(ended)
    return outcome, what, min(ended, key=lambda each: len(each.said))


def _train_and_train(site: _Site) -> tuple[Outcome, str, Ended]:
    return _both(site, site.train(), site.train(site.chance.choice([0.0, 0.0, 0.1, 0.4])))


def _three(site: _Site) -> tuple[Outcome, str, Ended]:
    return _both(site, *(site.train() for _ in range(3)))


def _resume_and_resume(site: _Site) -> tuple[Outcome, str, Ended]:
    """The owner was killed, so that its lock is left; two start at once to take it over."""
    dead = site.begin()
    dead.signal(signal.SIGKILL)
    dead.wait()
    return _both(site, site.train(), site.train())


def _after_a_dead_owner(site: _Site) -> tuple[Outcome, str, Ended]:
    """A dead process's lock is taken over without a word from the user."""
    dead = site.begin()
    dead.signal(signal.SIGKILL)
    dead.wait()
    return _both(site, site.train())


def _train_and_stopped(site: _Site) -> tuple[Outcome, str, Ended]:
    """The owner is stopped and not dead: the second refuses, and the first ends its work once it goes on."""
    owner = site.begin()
    owner.signal(signal.SIGSTOP)
    second = site.train().wait(PAIR_LIMIT)
    owner.signal(signal.SIGCONT)
    outcome, what = site.judge([owner.wait(PAIR_LIMIT), second])
    return outcome, what, second


def _train_and_evaluate(site: _Site) -> tuple[Outcome, str, Ended]:
    """A run cannot be evaluated while it is trained."""
    owner = site.begin()
    other = run(["evaluate", str(site.folder), "geometry"], limit=PAIR_LIMIT)
    outcome, what = site.judge([owner.wait(PAIR_LIMIT)])
    if outcome == "right" and other.code == 0 and not (site.folder / "done").exists():
        return "silent", "an unfinished run was evaluated", other
    return common_fault(other) or (outcome if other.code == 0 else "refused"), what, other


def _train_and_report(site: _Site) -> tuple[Outcome, str, Ended]:
    """A page can be made while a run is trained."""
    owner = site.begin()
    other = run(["report", str(site.out)], limit=PAIR_LIMIT)
    (site.out / "report.html").unlink(missing_ok=True)
    outcome, what = site.judge([owner.wait(PAIR_LIMIT)])
    return common_fault(other) or ("lost" if other.code else outcome), what, other


def _evaluate_and_evaluate(site: _Site) -> tuple[Outcome, str, Ended]:
    """Two measures of a run at once: both are there, and the folder is still in order."""
    site.finished()
    words = ["evaluate", str(site.folder), "attack", "--images", "40", "--no-sanity", "--kinds"]
    ended = [each.wait(PAIR_LIMIT) for each in [start([*words, kind]) for kind in ("clean", "fgsm", "pgd")]]
    measures = list(site.folder.glob("measures/*.json"))
    again = run(["train", *TRAIN[1:], "--out", str(site.out)])
    worst = next((each for each in (*ended, again) if common_fault(each) or each.code), None)
    if worst is not None:
        return common_fault(worst) or "lost", "one of them failed", worst
    return ("right" if len(measures) == 3 else "lost"), f"{len(measures)} of 3 measures", again


def _reproduce_twice(site: _Site) -> tuple[Outcome, str, Ended]:
    """The second `opl reproduce` refuses, or finds finished runs; no run is trained by both."""
    words = ["reproduce", "demo", "--scale", "tiny", "--seeds", "1", "--out", str(site.out)]
    ended = [each.wait(PAIR_LIMIT) for each in [start(words, fresh=True), start(words, fresh=True)]]
    worst = next((each for each in ended if common_fault(each)), None)
    if worst is not None:
        return common_fault(worst) or "lost", "one of them", worst
    found = [epochs(place.parent) for place in site.out.rglob("recipe.json")]
    if not all([record["epoch"] for record in each] == list(range(4)) for each in found) or len(found) != 2:
        return "silent", f"epochs {[len(each) for each in found]}", ended[0]
    return ("right" if all(each.code == 0 for each in ended) else "refused"), "", ended[1]


def _eight_on_one_cache(site: _Site) -> tuple[Outcome, str, Ended]:
    """Eight trainings that need the same pictures decode them once."""
    from ._pictures import domain_folder

    data, cache = site.out / "data", site.out / "cache"
    make_elsewhere(lambda: domain_folder(data))
    words = [
        "train", "domains-erm", "--model.depth", "18", "--epochs", "1", "--weights", "", "--data.root", str(data),
        "--data.target", "b", "--data.num-classes", "3", "--data.size", "16", "--batch-size", "8",
    ]  # fmt: skip
    started = [
        start([*words, "--seed", str(seed), "--out", str(site.out)], environment={"OPL_CACHE": str(cache)})
        for seed in range(8)
    ]
    ended = [each.wait(PAIR_LIMIT) for each in started]
    worst = next((each for each in ended if common_fault(each) or each.code), ended[0])
    folders = [place for place in cache.iterdir() if place.is_dir()]
    if common_fault(worst) or worst.code:
        return common_fault(worst) or "lost", "one of eight failed", worst
    return ("right" if len(folders) == 1 else "orphan"), f"{len(folders)} folders in the cache", worst


PAIRS: tuple[tuple[str, Pair, int], ...] = (
    ("two trainings", _train_and_train, 10),
    ("three trainings", _three, 2),
    ("two that resume after a killed one", _resume_and_resume, 5),
    ("one that resumes after a killed one", _after_a_dead_owner, 3),
    ("a training beside a stopped one", _train_and_stopped, 3),
    ("an evaluation beside a training", _train_and_evaluate, 3),
    ("a page beside a training", _train_and_report, 3),
    ("three evaluations of a run", _evaluate_and_evaluate, 3),
    ("two times opl reproduce", _reproduce_twice, 2),
    ("eight trainings with one cache", _eight_on_one_cache, 2),
)
