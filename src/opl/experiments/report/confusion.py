"""What changed in the confusion matrix: which class is taken for which, before and after."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..results.runs import Run
from .html_table import cell, heading, row, scroll_box
from .markup import Markup, join, tag

SHOWN = 10  # kinds of mistakes that are listed


def comparable(before: Run, after: Run) -> bool:
    """Whether two runs have predictions for the same test images."""
    one, two = before.arrays(), after.arrays()
    if not all(np.ndim(each.get("top5", ())) == 2 and np.ndim(each.get("labels", ())) == 1 for each in (one, two)):
        return False
    same = np.array_equal(one["labels"], two["labels"])
    return bool(same and len(one["labels"]) == len(one["top5"]) == len(two["top5"]) > 0)


def confusion_matrix(runs: Sequence[Run], classes: int) -> NDArray[np.int64]:
    """(classes, classes): how often a class, the row, was taken for another, the column, in all runs together."""
    counts = np.zeros((classes, classes), dtype=np.int64)
    for run in runs:
        arrays = run.arrays()
        np.add.at(counts, (np.asarray(arrays["labels"], dtype=int), np.asarray(arrays["top5"])[:, 0].astype(int)), 1)
    return counts


def table(pairs: Sequence[tuple[Run, Run]], names: tuple[str, str]) -> Markup | None:
    """The mistakes whose number changed most, over all seeds together."""
    arrays: list[dict[str, Any]] = [run.arrays() for pair in pairs for run in pair]
    classes = 1 + max(int(np.max(each[name])) for each in arrays for name in ("labels", "top5"))
    before, after = (confusion_matrix([pair[side] for pair in pairs], classes) for side in (0, 1))
    change = after - before
    np.fill_diagonal(change, 0)
    order = np.argsort(-np.abs(change), axis=None, kind="stable")[:SHOWN]
    cells = [(int(place) // classes, int(place) % classes) for place in order if change.flat[place]]
    if not cells:
        return None
    known = pairs[0][0].class_names(classes)
    words = ("taken for", names[0], names[1], "change")
    head = [heading("class"), *(heading(word) for word in words)]
    body = [
        row(
            known[truth],
            cell("taken for", known[guess], "words"),
            cell(names[0], int(before[truth, guess])),
            cell(names[1], int(after[truth, guess])),
            cell("change", f"{change[truth, guess]:+d}"),
        )
        for truth, guess in cells
    ]
    seeds = f"{len(pairs)} seeds together" if len(pairs) > 1 else f"seed {pairs[0][1].seed}"
    label = f"Mistakes that changed most, {names[1]} against {names[0]}"
    return join(
        tag("h4", "What changed in the confusion matrix"),
        tag("p", f"The mistakes whose number changed most, {seeds}.", class_="note"),
        scroll_box(label, [head], body, "narrow"),
    )
