"""Command lines and hostile files: each is run once, and must be right or refused with a sentence."""

import shutil
from pathlib import Path

from ._process import LIMIT, Ended, make_elsewhere, run
from ._tally import Outcome, Tally, common_fault


def command_lines(scratch: Path, tally: Tally, share: float) -> None:
    """Wrong words: settings, names, numbers, paths."""
    from .command_lines import cases

    for number, (name, words) in enumerate(cases(scratch / "files")):
        if number % max(1, round(1 / share)):
            continue
        folder = scratch / "here"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        ended = run(words, cwd=folder, environment={"OPL_CACHE": str(folder / "cache")}, limit=LIMIT)
        tally.add(judge_refusal(ended), f"{name}: opl {_shown(words)}", ended)


def hostile_files(scratch: Path, tally: Tally, share: float) -> None:
    """Files that try to run code, to read or write elsewhere, or to use up the memory."""
    from .hostile_files import CASES

    for number, case in enumerate(CASES):
        if number % max(1, round(1 / share / 4)):
            continue
        folder = scratch / str(number)
        folder.mkdir()
        place = Path(make_elsewhere(lambda case=case, folder=folder: case.make(folder)))
        words = case.words(place)
        environment = {"OPL_CACHE": str(folder / "cache"), "HOME": str(folder)}
        ended = run(words, cwd=place if place.is_dir() else folder, environment=environment, fresh=case.fresh)
        outcome: Outcome = "execution" if case.forbidden(place) else judge_refusal(ended, may_succeed=True)
        tally.add(outcome, f"{case.name}: opl {_shown(words)}", ended)
        shutil.rmtree(folder, ignore_errors=True)


def _shown(words: list[str]) -> str:
    return " ".join(words).encode("unicode_escape", errors="backslashreplace").decode()[:300]


def judge_refusal(ended: Ended, *, may_succeed: bool = False) -> Outcome:
    """What came of words that are wrong: exit code 1 or 2 and a sentence, and nothing else."""
    if fault := common_fault(ended):
        return fault
    if ended.code == 0:
        return "right" if may_succeed else "silent"
    return "refused" if ended.code in (1, 2) and ended.said.strip() else "silent"
