"""Which pictures are used, and in which part: no copy of a picture is in two parts. Plain lists and NumPy."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..data.read.listing import count, name_some

LEAST = 3  # pictures of a class
VAL, TEST = 0.1, 0.2  # fractions that are held out
NUMBERS = {"train": 0, "validation": 1, "test": 2}
FIRST = {"test": 0, "validation": 1}  # of copies, the one in the test part is kept


def sample(groups: Sequence[tuple[str, str]], most: int, seed: int) -> list[int]:
    """Return at most about `most` rows in ascending order, the same fraction of every group; 0 returns all.

    A group keeps at least three rows if it has them.

    Example:
        >>> sample([("", "cat")] * 6 + [("", "dog")] * 6, 6, seed=0).__len__()
        6
    """
    if not 0 < most < len(groups):
        return list(range(len(groups)))
    order = np.random.default_rng(seed).permutation(len(groups)).tolist()
    counts, taken, rows = Counter(groups), Counter[tuple[str, str]](), []
    for row in order:
        group = groups[row]
        if taken[group] < max(LEAST, round(counts[group] * most / len(groups))):
            taken[group] += 1
            rows.append(row)
    return sorted(rows)


def remove_copies(pictures: Sequence[tuple[int, str, str, str]]) -> tuple[list[int], list[str]]:
    """Keep one of several pictures with the same pixels, and none if their labels differ; also return what to say.

    Args:
        pictures: the place, part, label and checksum of each picture.
    """
    labels: dict[str, set[str]] = {}
    for _, _, label, checksum in pictures:
        labels.setdefault(checksum, set()).add(label)
    kept: list[int] = []
    known: set[str] = set()
    contradictory = 0
    for place, _, _, checksum in sorted(pictures, key=lambda each: FIRST.get(each[1], 2)):
        if len(labels[checksum]) > 1:
            contradictory += 1
        elif checksum not in known:
            known.add(checksum)
            kept.append(place)
    copies = len(pictures) - contradictory - len(kept)
    said = []
    if copies:
        some = count(copies, "copy", "copies")
        said.append(f"Left out: {some} of other pictures, so that no picture is in two parts.")
    if contradictory:
        said.append(f"Left out: {count(contradictory, 'picture')} of which there are copies with another label.")
    return sorted(kept), said


def remove_small_classes(pictures: Sequence[tuple[int, str, str]]) -> tuple[list[int], list[str]]:
    """Leave out classes with fewer than three pictures or, where there are parts, with none to train on.

    Args:
        pictures: the place, part and label of each picture.
    """
    counts = Counter(label for _, _, label in pictures)
    parts = {part for _, part, _ in pictures}
    trained = {label for _, part, label in pictures if part in ("", "train")} if "train" in parts else set(counts)
    small = sorted(label for label, number in counts.items() if number < LEAST)
    unknown = sorted(label for label in counts if label not in trained and label not in small)
    said = []
    if small:
        named = name_some([f"{label!r} ({counts[label]})" for label in small])
        some = count(len(small), "class", "classes")
        said.append(f"Left out: {some} with fewer than {LEAST} pictures ({named}).")
    if unknown:
        some = count(len(unknown), "class", "classes")
        said.append(f"Left out: {some} without a picture to train on ({name_some(unknown)}).")
    gone = {*small, *unknown}
    return [place for place, _, label in pictures if label not in gone], said


def divide(given: Sequence[str], labels: NDArray[np.int32], seed: int) -> tuple[NDArray[np.int8], str]:
    """Return the part of each picture (0 training, 1 validation, 2 test), and a sentence that says where it is from.

    A test part that is given is used; without one, a validation part is tested. What is not given is held out at
    random, the same fraction of every class and at least one picture of it where it has enough.

    Args:
        given: the part that each picture is in, empty if there are no parts.
        labels: the class of each picture.
        seed: of what is held out.
    """
    there = set(given)
    chance = np.random.default_rng(seed)
    if "train" not in there or not there & {"test", "validation"}:
        parts = np.zeros(len(labels), np.int8)
        _hold_out(parts, labels, TEST, NUMBERS["test"], chance, LEAST)
        _hold_out(parts, labels, VAL / (1 - TEST), NUMBERS["validation"], chance, 2)
        return parts, (
            f"The data has no test part: {TEST:.0%} of every class are held out for testing and {VAL:.0%} for "
            f"validation, at random with seed {seed}."
        )
    parts = np.array([NUMBERS.get(part, 0) for part in given], np.int8)
    if {"test", "validation"} <= there:
        return parts, "Its own training, validation and test parts are used."
    if "test" not in there:
        parts[parts == NUMBERS["validation"]] = NUMBERS["test"]
    _hold_out(parts, labels, VAL, NUMBERS["validation"], chance, 2)
    tested = "test" if "test" in there else "validation"
    return parts, (
        f"Its own {tested} part is tested; {VAL:.0%} of every class of its training part are held out for validation, "
        f"at random with seed {seed}."
    )


def _hold_out(
    parts: NDArray[np.int8],
    labels: NDArray[np.int32],
    fraction: float,
    part: int,
    chance: np.random.Generator,
    least: int,
) -> None:
    """Move a fraction of every class from training to another part; classes with fewer than `least` stay whole."""
    for label in np.unique(labels):
        rows = np.flatnonzero((labels == label) & (parts == 0))
        if len(rows) >= least:
            held = min(max(1, round(fraction * len(rows))), len(rows) - 1)
            parts[chance.permutation(rows)[:held]] = part
