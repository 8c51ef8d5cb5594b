"""Several processes in one folder at once: exactly one trains, and the others wait or refuse with a message."""

import random
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from _process import Command, Ended, call_in_child, run, start
from _run_files import differences, epochs, file_names, snapshot
from _tally import Tally
from data_folders import DOMAINS, domain_folder

TRAIN = ("train", "digits-opl", "--scale", "small", "--epochs", "12", "--data.val", "100")
LIMIT = 240.0
EPOCH = re.compile(r"epoch \d+/\d+")
Result = tuple[str, str, Ended]


class Site:
    """The folder in which processes compete, and what a single process makes of it."""

    def __init__(self, scratch: Path) -> None:
        self.alone, self.out, self.rng = scratch / "alone", scratch / "runs", random.Random(0)
        self.folder = self.out / "digits-opl" / "seed-0"
        if (ended := run([*TRAIN, "--out", str(self.alone)])).code:
            raise RuntimeError(ended.output)
        self.expected = snapshot(self.alone / "digits-opl" / "seed-0")

    def clean(self, *, finished: bool = False) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        shutil.copytree(self.alone, self.out) if finished else self.out.mkdir()

    def train(self, delay: float = 0.0) -> Command:
        return start([*TRAIN, "--out", str(self.out)], delay=delay)

    def begin(self, number: int | None = None) -> Command:
        """A training that has finished two epochs, and then got a signal."""
        process = self.train()
        process.wait_until(lambda: len(epochs(self.folder)) >= 2)
        if number is not None:
            process.signal(number)
        if number == signal.SIGKILL:
            process.wait()
        return process

    def compete(self, *processes: Command) -> Result:
        """The folder is that of a single process, and only one process has trained."""
        ended = [process.wait(LIMIT) for process in processes]
        worst = min(ended, key=lambda result: len(result.output))
        if fault := next((result.fault for result in ended if result.fault), ""):
            return fault, "one process", worst
        if different := differences(snapshot(self.folder), self.expected):
            return "silent" if "weights" in different else "lost", f"the folder differs in {different}", worst
        trained = [result for result in ended if result.code == 0 and EPOCH.search(result.output)]
        if len(trained) != 1:
            return "silent", f"{len(trained)} processes trained to the end", worst
        if added := file_names(self.out) - file_names(self.alone) - {"report.html"}:
            return "orphan", f"left {sorted(added)[:3]}", worst
        refusals = [result for result in ended if result.code]
        told = all(result.refused and "process" in result.output for result in refusals)
        return ("refused" if refusals else "right") if told else "silent", "one trained", worst


def _train_twice(site: Site) -> Result:
    return site.compete(site.train(), site.train(site.rng.choice([0.0, 0.0, 0.1, 0.4])))


def _train_three_times(site: Site) -> Result:
    return site.compete(*(site.train() for _ in range(3)))


def _resume_twice(site: Site) -> Result:
    site.begin(signal.SIGKILL)
    return site.compete(site.train(), site.train())


def _resume_once(site: Site) -> Result:
    site.begin(signal.SIGKILL)
    return site.compete(site.train())


def _train_beside_stopped(site: Site) -> Result:
    """The owner is stopped, not dead: the second process refuses, and the owner finishes when it continues."""
    owner = site.begin(signal.SIGSTOP)
    second = site.train()
    code = second.wait(LIMIT)
    owner.signal(signal.SIGCONT)
    outcome, what, ended = site.compete(owner)
    return (outcome, what, ended) if outcome != "right" else ("refused" if code.refused else "silent", what, code)


def _beside_training(*argv: str, codes: tuple[int, ...]) -> Callable[[Site], Result]:
    """Another command reads the folder during a training; the training is as if it were alone."""

    def pair(site: Site) -> Result:
        owner = site.begin()
        ended = run([word.replace("{}", str(site.out)) for word in argv])
        outcome, what, trained = site.compete(owner)
        if outcome != "right":
            return outcome, what, trained
        return ended.fault or ("right" if ended.code in codes else "silent"), argv[0], ended

    return pair


def _evaluate_three_times(site: Site) -> Result:
    site.clean(finished=True)
    results = [process.wait(LIMIT) for process in [start(["evaluate", str(site.folder), "geometry"]) for _ in range(3)]]
    worst = next((ended for ended in results if ended.fault or ended.code), results[0])
    equal = snapshot(site.folder)["weights"] == site.expected["weights"]
    return worst.fault or ("right" if equal and not worst.code else "lost"), "three evaluations", worst


def _reproduce_twice(site: Site) -> Result:
    argv = ["reproduce", "demo", "--scale", "tiny", "--seeds", "1", "--out", str(site.out)]
    results = [process.wait(LIMIT) for process in [start(argv, fresh=True) for _ in range(2)]]
    if fault := next((ended.fault for ended in results if ended.fault), ""):
        return fault, "one of two", results[0]
    folders = [file.parent for file in site.out.rglob("recipe.json")]
    complete = len(folders) == 2 and all(len(epochs(folder)) == 4 for folder in folders)
    return "right" if complete else "silent", f"{len(folders)} runs", results[1]


def _share_cache(site: Site) -> Result:
    """Eight trainings that need the same images decode them once."""
    data, cache = site.out / "data", site.out / "cache"
    call_in_child(lambda: domain_folder(data))
    argv = [*DOMAINS, "--data.root", str(data), "--out", str(site.out)]
    started = [start([*argv, "--seed", str(seed)], environment={"OPL_CACHE": str(cache)}) for seed in range(8)]
    results = [process.wait(LIMIT) for process in started]
    worst = next((ended for ended in results if ended.fault or ended.code), results[0])
    folders = [path for path in cache.iterdir() if path.is_dir()]
    fault = worst.fault or ("lost" if worst.code else "")
    return fault or ("right" if len(folders) == 1 else "orphan"), f"{len(folders)} folders in the cache", worst


PAIRS: tuple[tuple[str, Callable[[Site], Result], int], ...] = (
    ("two trainings", _train_twice, 10),
    ("three trainings", _train_three_times, 2),
    ("two trainings resume after a killed one", _resume_twice, 5),
    ("one training resumes after a killed one", _resume_once, 3),
    ("a training beside a stopped one", _train_beside_stopped, 3),
    (
        "an evaluation beside a training",
        _beside_training("evaluate", "{}/digits-opl/seed-0", "geometry", codes=(1, 2)),
        3,
    ),
    ("a report beside a training", _beside_training("report", "{}", codes=(0,)), 3),
    ("three evaluations of one run", _evaluate_three_times, 3),
    ("opl reproduce twice", _reproduce_twice, 2),
    ("eight trainings with one cache", _share_cache, 2),
)


def pairs(scratch: Path, tally: Tally, share: float) -> None:
    """Try every kind of competition several times."""
    site = Site(scratch)
    for name, compete, times in PAIRS[: 4 if share < 0.1 else None]:
        for _ in range(max(1, round(times * share))):
            site.clean()
            outcome, what, ended = compete(site)
            tally.add(outcome, f"{name}: {what}", ended)
