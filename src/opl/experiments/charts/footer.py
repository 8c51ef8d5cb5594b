"""The line below every figure: the data, the network, the scale, the seeds and the commit of the runs behind it."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..results.runs import Run, inner, list_seeds
from ..results.tables import count_of, describe_network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = 3  # different data sets, networks or commits that are named; the others are counted
SIZE = 6  # points
PER_INCH = 20  # characters of that size
GAP = 0.06  # inches between a figure and its footer


def describe(runs: Sequence[Run]) -> str:
    """What a figure was drawn from, as one line; empty without runs.

    Synthetic data are called that, because numbers of them mean nothing.
    """
    if not runs:
        return ""
    data = _several(_describe_data(run) for run in runs)
    networks = _several(describe_network(inner(run.recipe, "model")) for run in runs)
    scales = _several(f"{run.scale or 'unknown'} scale" for run in runs)
    commits = _several(str(run.about.get("commit") or "unknown") for run in runs)
    word = "commit" if len({run.about.get("commit") for run in runs}) == 1 else "commits"
    return " · ".join((data, networks, scales, list_seeds(run.seed for run in runs), f"{word} {commits}"))


def add(figure: "Figure", words: str) -> None:
    """Write a line below a figure, wrapped to its width.

    Example:
        >>> from matplotlib.figure import Figure
        >>> figure = Figure(figsize=(2, 1))
        >>> add(figure, "Digits, 10 classes · DigitsNet (width 32) · small scale · seed 0 · commit 06f8644cf3")
        >>> print(figure.texts[0].get_text())
        Digits, 10 classes · DigitsNet (width
        32) · small scale · seed 0 · commit
        06f8644cf3
    """
    width, height = figure.get_size_inches()
    shown = textwrap.fill(words, max(30, int(width * PER_INCH))).replace("$", r"\$")
    figure.text(0.01, -GAP / height, shown, fontsize=SIZE, color="0.35", va="top", ha="left")


def _several(texts: Iterable[str]) -> str:
    """Different texts, in the order of their first appearance; of many, the first and the number of the others."""
    found = list(dict.fromkeys(texts))
    if len(found) > NAMED:
        return f"{found[0]} and {len(found) - 1} more"
    return " / ".join(found)


def _describe_data(run: Run) -> str:
    data = inner(run.recipe, "data")
    kind, like, source = (str(data.get(key) or "") for key in ("kind", "like", "of"))
    name = f"{kind} of {source}" if source else kind or "unknown data"
    if kind.startswith("Synthetic") or source == "synthetic":
        name = f"synthetic data like {like}" if like else "synthetic data"
    target: list[str] = [f"target {data['target']}"] if data.get("target") else []
    classes = count_of(run.splits().get("class_names"))
    return ", ".join([name, *target, *([f"{classes} classes"] if classes else [])])
