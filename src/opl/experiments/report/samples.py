"""The test images that two runs share: which are shown as points, what both say of them, and their pictures."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FolderError
from ..charts.rendering import sample_rows
from ..results.runs import Run

Array = NDArray[Any]
POINTS = 600  # of a cloud
PICTURES = 200  # of a sheet


@dataclass(frozen=True, eq=False)
class Samples:
    """Some test images of two runs of the same seed."""

    rows: Array
    """Which test images."""
    labels: Array
    features: tuple[Array, Array]
    """(N, D) of the first and of the second run."""
    guesses: tuple[Array, Array]
    """The class that each run gives an image; -1 where it is not known."""
    pictures: Array
    """The place of each image among `pixels`; -1 for one without a picture."""
    pixels: Array
    class_names: tuple[str, ...]


def shared_samples(before: Run, after: Run) -> Samples:
    """At most 600 test images of which both runs keep features, those with pictures first, each class in proportion."""
    one, two = before.arrays(), after.arrays()
    places = [{int(row): place for place, row in enumerate(sample_rows(arrays, "feature"))} for arrays in (one, two)]
    labels = np.asarray(one["labels"])
    if not np.array_equal(labels, np.asarray(two["labels"])):
        raise FolderError("the two runs were tested on different images.")
    known = np.array(sorted(places[0].keys() & places[1].keys()), dtype=int)
    features = [np.asarray(arrays["features"], dtype=float) for arrays in (one, two)]
    finite = [np.isfinite(part.reshape(len(part), -1)).all(axis=1) for part in features]
    known = np.array([row for row in known if all(f[p[row]] for f, p in zip(finite, places, strict=True))], dtype=int)
    if not len(known):
        raise FolderError("the two runs keep no features of the same test images.")
    pixels, of = _pixels(one, known)
    rows, of = _choose(known, labels, of)
    names = before.class_names(int(labels.max(initial=0)) + 1)
    chosen = [part[[place[row] for row in rows]] for part, place in zip(features, places, strict=True)]
    pictures, kept = _kept(rows, of)
    return Samples(
        rows, labels[rows], (chosen[0], chosen[1]), (_guesses(one, rows), _guesses(two, rows)), pictures,
        pixels[kept] if len(kept) else pixels[:0], names,
    )  # fmt: skip


def _pixels(arrays: dict[str, Any], known: Array) -> tuple[Array, dict[int, int]]:
    """The kept pictures, and the place of each test image among them."""
    pixels = np.asarray(arrays.get("pixels", np.zeros((0, 1, 1, 1), np.uint8)))
    if pixels.ndim != 4 or pixels.dtype != np.uint8 or pixels.shape[3] not in (1, 3):
        return np.zeros((0, 1, 1, 1), np.uint8), {}
    there = set(known.tolist())
    rows = sample_rows(arrays, "pixel").tolist() if len(pixels) else []
    return pixels, {int(row): place for place, row in enumerate(rows) if row in there}


def _choose(known: Array, labels: Array, of: dict[int, int]) -> tuple[Array, dict[int, int]]:
    """At most `POINTS` of the rows, every n-th counted class by class, and those of them whose pictures are shown."""
    with_picture = np.array([row in of for row in known])
    first = _every(known[with_picture], labels, PICTURES)
    rest = _every(np.setdiff1d(known, first), labels, POINTS - len(first))
    return np.sort(np.concatenate([first, rest])), {row: of[row] for row in first.tolist()}


def _every(rows: Array, labels: Array, most: int) -> Array:
    ordered = rows[np.argsort(labels[rows], kind="stable")]
    step = max(1, -(-len(rows) // most)) if most > 0 else 1
    return ordered[::step][:most]


def _kept(rows: Array, of: dict[int, int]) -> tuple[Array, list[int]]:
    """The place of each row's picture in the sheet, and the pictures of the sheet."""
    kept = [of[row] for row in rows.tolist() if row in of]
    places = {place: index for index, place in enumerate(kept)}
    return np.array([places[of[row]] if row in of else -1 for row in rows.tolist()], dtype=int), kept


def _guesses(arrays: dict[str, Any], rows: Array) -> Array:
    top5 = np.asarray(arrays.get("top5", ()))
    if top5.ndim != 2 or not len(top5) > int(rows.max(initial=0)):
        return np.full(len(rows), -1)
    return np.asarray(top5[rows, 0], dtype=int)
