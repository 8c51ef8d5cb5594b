"""What a search found: the trials as a table, the importance of each setting, and the winner as a recipe."""

from collections.abc import Mapping, Sequence
from typing import Any

from .trial import Goal, Trial


def table_of(trials: Sequence[Trial], goal: Goal) -> tuple[list[str], list[list[str]]]:
    """The heading and the rows: finished trials, best first, then the others."""
    names = list(trials[0].words) if trials else []
    best = goal.best(trials)
    rest = [trial for trial in trials if trial not in best]
    rows = [
        [str(trial.number), *trial.words.values(), _number(trial.value), str(trial.epochs or "-"), trial.outcome]
        for trial in (*best, *rest)
    ]
    return ["trial", *names, f"{goal.metric} (mean of the seeds)", "epochs", "outcome"], rows


def markdown(trials: Sequence[Trial], goal: Goal, importance: Mapping[str, float], title: str) -> str:
    """The table and the importances as Markdown."""
    heading, rows = table_of(trials, goal)
    lines = [f"# {title}", "", _line(heading), _line(["---"] * len(heading)), *map(_line, rows), ""]
    lines += [f"- {sentence}" for sentence in sentences(trials, goal, importance)]
    return "\n".join(lines) + "\n"


def sentences(trials: Sequence[Trial], goal: Goal, importance: Mapping[str, float]) -> list[str]:
    """What is said below the table."""
    counts = [(word, sum(trial.outcome == word for trial in trials)) for word in ("done", "pruned", "failed")]
    said = [f"{len(trials)} trials: " + ", ".join(f"{count} {word}" for word, count in counts if count)]
    best = goal.best(trials)
    if best:
        words = ", ".join(f"{name} {value}" for name, value in best[0].words.items())
        said.append(f"winner: trial {best[0].number} ({words}), {goal.metric} {_number(best[0].value)}")
    if importance:
        shares = ", ".join(
            f"{name} {share:.0%}" for name, share in sorted(importance.items(), key=lambda each: -each[1])
        )
        said.append(f"importance (share of the differences between trials): {shares}")
    said.append("the test images were not looked at: opl train --recipe winner.json tests the winner")
    return said


def as_json(trials: Sequence[Trial], goal: Goal, importance: Mapping[str, float]) -> dict[str, Any]:
    """The same as plain values."""
    best = goal.best(trials)
    return {
        "metric": goal.metric,
        "winner": best[0].number if best else None,
        "importance": dict(importance),
        "trials": [
            {
                "number": trial.number,
                "settings": dict(trial.words),
                "outcome": trial.outcome,
                "value": trial.value,
                "epochs": trial.epochs,
                "early": {str(epoch): value for epoch, value in trial.early.items()},
            }
            for trial in trials
        ],
    }


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
