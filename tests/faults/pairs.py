"""Several processes in one folder at once: exactly one trains, and the others wait or refuse with a message."""

import random
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from _files import differences, domains, epochs, file_names, read_json, snapshot, write
from _process import Command, Ended, prepare, run, start, worst
from campaign import Case, Verdict
from data_folders import DOMAINS

from _finished_runs import write_finished, write_measure

TRAIN = "train digits-opl --scale small --epochs 12 --data.val 100 --out ."
LIMIT = 240.0
EPOCH = re.compile(r"epoch \d+/\d+")


class Site:
    """The folder in which processes compete, and what a single process makes of it."""

    def __init__(self, out: Path, alone: Path, seed: int) -> None:
        self.out, self.alone, self.rng = out, alone, random.Random(seed)
        self.folder = out / "digits-opl" / "seed-0"
        self.expected = snapshot(alone / "digits-opl" / "seed-0")

    def train(self, delay: float = 0.0) -> Command:
        return start(TRAIN, self.out, delay=delay)

    def begin(self, number: int | None = None) -> Command:
        """A training that has finished two epochs, and then got a signal."""
        process = self.train()
        process.wait_until(lambda: len(epochs(self.folder)) >= 2)
        if number is not None:
            process.signal(number)
        if number == signal.SIGKILL:
            process.wait()
        return process

    def compete(self, *processes: Command) -> Verdict:
        """The folder is that of a single process, and only one process has trained."""
        ended = [process.wait(LIMIT) for process in processes]
        worst = min(ended, key=lambda result: len(result.output))
        if fault := next((result.fault for result in ended if result.fault), ""):
            return Verdict(fault, "one process", worst)
        if different := differences(snapshot(self.folder), self.expected):
            return Verdict("silent" if "weights" in different else "lost", f"the folder differs in {different}", worst)
        trained = [result for result in ended if result.code == 0 and EPOCH.search(result.output)]
        if len(trained) != 1:
            return Verdict("silent", f"{len(trained)} processes trained to the end", worst)
        if added := file_names(self.out) - file_names(self.alone) - {"report.html"}:
            return Verdict("orphan", f"left {sorted(added)[:3]}", worst)
        refusals = [result for result in ended if result.code]
        told = all(result.outcome == "refused" and "process" in result.output for result in refusals)
        return Verdict(("refused" if refusals else "right") if told else "silent", "one trained", worst)


def _resume(site: Site, processes: int) -> Verdict:
    site.begin(signal.SIGKILL)
    return site.compete(*(site.train() for _ in range(processes)))


def _train_beside_stopped(site: Site) -> Verdict:
    """The owner is stopped, not dead: the second process refuses, and the owner finishes when it continues."""
    owner = site.begin(signal.SIGSTOP)
    second = site.train().wait(LIMIT)
    owner.signal(signal.SIGCONT)
    verdict = site.compete(owner)
    if verdict.outcome != "right":
        return verdict
    return Verdict("refused" if second.outcome == "refused" else "silent", ended=second)


def _beside_training(site: Site, argv: str, *codes: int) -> Verdict:
    """Another command reads the folder during a training; the training is as if it were alone."""
    owner = site.begin()
    ended = run(argv, site.out)
    verdict = site.compete(owner)
    if verdict.outcome != "right":
        return verdict
    return Verdict(ended.fault or ("right" if ended.code in codes else "silent"), argv, ended)


def _at_once(site: Site, *commands: str, fresh: bool = False) -> Ended:
    """Run commands at once; return the one that failed, if any."""
    started = [start(argv, site.out, fresh=fresh) for argv in commands]
    return worst([process.wait(LIMIT) for process in started])


def _evaluate(site: Site) -> Verdict:
    shutil.copytree(site.alone, site.out, dirs_exist_ok=True)
    ended = _at_once(site, *["evaluate digits-opl/seed-0 geometry"] * 3)
    equal = snapshot(site.folder)["weights"] == site.expected["weights"]
    return Verdict(ended.fault or ("right" if equal and not ended.code else "lost"), ended=ended)


def _reproduce(site: Site) -> Verdict:
    ended = _at_once(site, *["reproduce demo --scale tiny --seeds 1 --out ."] * 2, fresh=True)
    folders = [file.parent for file in site.out.rglob("recipe.json")]
    complete = len(folders) == 2 and all(len(epochs(folder)) == 4 for folder in folders)
    return Verdict(ended.fault or ("right" if complete else "silent"), f"{len(folders)} runs", ended)


def _share_cache(site: Site) -> Verdict:
    """Eight trainings that need the same images decode them once."""
    write(site.out / "data", domains())
    ended = _at_once(site, *(f"{DOMAINS} --data.root data --out . --seed {seed}" for seed in range(8)))
    folders = [path for path in (site.out / "cache").iterdir() if path.is_dir()]
    fault = ended.fault or ("lost" if ended.code else "" if len(folders) == 1 else "orphan")
    return Verdict(fault or "right", f"{len(folders)} folders in the cache", ended)


def _add_measures(site: Site) -> Verdict:
    """Twenty copies of a run, each with another measure, are added to one record at once: no measure is lost."""
    names = [f"geometry-{number}" for number in range(20)]
    for name in names:
        write_measure(write_finished(site.out / name), name, {"geometry/s": 0.9})
    ended = _at_once(site, *(f"results add {name} --to results" for name in names))
    measures = read_json(next(site.out.glob("results/*/*/*.json")))["measures"]
    lost = ended.code or set(measures) != set(names)
    return Verdict(ended.fault or ("lost" if lost else "right"), f"{len(measures)} measures", ended)


PAIRS: dict[str, tuple[int, Callable[[Site], Verdict]]] = {  # how often, and what competes
    "two trainings": (10, lambda s: s.compete(s.train(), s.train(s.rng.choice([0.0, 0.0, 0.1, 0.4])))),
    "three trainings": (2, lambda s: s.compete(*(s.train() for _ in range(3)))),
    "two trainings resume after a killed one": (5, lambda s: _resume(s, 2)),
    "one training resumes after a killed one": (3, lambda s: _resume(s, 1)),
    "a training beside a stopped one": (3, _train_beside_stopped),
    "an evaluation beside a training": (3, lambda s: _beside_training(s, "evaluate digits-opl/seed-0 geometry", 1, 2)),
    "a report beside a training": (3, lambda s: _beside_training(s, "report .", 0)),
    "three evaluations of one run": (3, _evaluate),
    "opl reproduce twice": (2, _reproduce),
    "eight trainings with one cache": (2, _share_cache),
    "twenty additions to one record": (10, _add_measures),
}


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Every kind of competition, several times."""
    (scratch / "alone").mkdir()
    prepare(TRAIN, scratch / "alone")
    for name, (times, compete) in PAIRS.items():
        for n in range(times):
            yield Case(f"{name}, {n}", lambda out, n=n, compete=compete: compete(Site(out, scratch / "alone", n)))
