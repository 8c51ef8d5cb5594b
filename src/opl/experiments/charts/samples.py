"""The outputs of runs on test images: arrays by name, pairs of runs by seed, and the images that two runs share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import FolderError
from ..evaluation.protocols import protocol_of
from ..results.runs import Run
from .style import Array

POINTS = 600  # maximum number of images that are shown as points
PICTURES = 200  # maximum number of them whose pictures are kept


@dataclass(frozen=True, eq=False)
class Samples:
    """Some test images of two runs of the same seed."""

    rows: Array
    """The indices of the test images."""
    labels: Array
    features: tuple[Array, Array]
    """(N, D) of the first and of the second run."""
    predictions: tuple[Array, Array]
    """The class that each run predicts for an image; -1 where it is not known."""
    pictures: Array
    """The index of each image in `pixels`; -1 for an image without a picture."""
    pixels: Array
    class_names: tuple[str, ...]


def arrays_of(run: Run, name: str = "test") -> dict[str, Any]:
    """Return the named arrays of a run; raise FolderError if they cannot be read."""
    arrays = run.arrays(name)
    if not arrays:
        path = run.folder.path
        raise FolderError(f"{path} has no readable {name}.npz: write it with opl evaluate {path} {protocol_of(name)}.")
    return arrays


def sample_rows(arrays: dict[str, Any], name: str) -> Array:
    """Return the rows of the sampled test images; `name` is `feature` for `features`, `pixel` for `pixels`."""
    samples = arrays[{"feature": "features", "pixel": "pixels"}[name]]
    return np.asarray(arrays.get(f"{name}_rows", np.arange(len(samples))))


def pair_by_seed(before: Sequence[Run], after: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Return pairs of runs of two rows with the same seed, in the order of the second row."""
    by_seed = {run.seed: run for run in before}
    return [(by_seed[run.seed], run) for run in after if run.seed in by_seed]


def has_features(run: Run) -> bool:
    """Return whether a run keeps the features and labels of test images."""
    arrays = run.arrays()
    return np.ndim(arrays.get("features", ())) == 2 and np.ndim(arrays.get("labels", ())) == 1


def shared_samples(before: Run, after: Run) -> Samples:
    """Sample at most 600 test images whose features both runs keep: with pictures first, classes in proportion."""
    first, second = before.arrays(), after.arrays()
    labels = np.asarray(first["labels"])
    if not np.array_equal(labels, np.asarray(second["labels"])):
        raise FolderError("the two runs were tested on different images: run opl evaluate RUN geometry for both.")
    known = [_finite_features(arrays) for arrays in (first, second)]
    common = np.array(sorted(known[0].keys() & known[1].keys()), dtype=int)
    if not len(common):
        raise FolderError(
            "the two runs keep no features of the same test images: run opl evaluate RUN geometry for both."
        )
    pixels, picture_of = _pictures(first, common)
    with_picture = np.array([row in picture_of for row in common.tolist()])
    pictured = _every_nth(common[with_picture], labels, PICTURES)
    rest = _every_nth(np.setdiff1d(common, pictured), labels, POINTS - len(pictured))
    rows = np.sort(np.concatenate([pictured, rest]))
    kept = np.sort(pictured)
    index_of = {row: index for index, row in enumerate(kept.tolist())}
    return Samples(
        rows,
        labels[rows],
        (np.stack([known[0][row] for row in rows]), np.stack([known[1][row] for row in rows])),
        (_predictions(first, rows), _predictions(second, rows)),
        np.array([index_of.get(row, -1) for row in rows.tolist()], dtype=int),
        pixels[[picture_of[row] for row in kept.tolist()]] if len(kept) else pixels[:0],
        before.class_names(int(labels.max(initial=0)) + 1),
    )


def _finite_features(arrays: dict[str, Any]) -> dict[int, Array]:
    """Return the finite features, by test image."""
    features = np.asarray(arrays["features"], dtype=float)
    pairs = zip(sample_rows(arrays, "feature").tolist(), features, strict=True)
    return {int(row): feature for row, feature in pairs if np.isfinite(feature).all()}


def _pictures(arrays: dict[str, Any], rows: Array) -> tuple[Array, dict[int, int]]:
    """Return the stored pictures, and the index of each test image among them."""
    pixels = np.asarray(arrays.get("pixels", np.zeros((0, 1, 1, 1), np.uint8)))
    if pixels.ndim != 4 or pixels.dtype != np.uint8 or pixels.shape[3] not in (1, 3):
        return np.zeros((0, 1, 1, 1), np.uint8), {}
    needed = set(rows.tolist())
    stored = sample_rows(arrays, "pixel").tolist() if len(pixels) else []
    return pixels, {int(row): index for index, row in enumerate(stored) if row in needed}


def _every_nth(rows: Array, labels: Array, most: int) -> Array:
    """Return at most `most` rows, evenly spaced when sorted by class."""
    ordered = rows[np.argsort(labels[rows], kind="stable")]
    step = max(1, -(-len(rows) // most)) if most > 0 else 1
    return ordered[::step][:most]


def _predictions(arrays: dict[str, Any], rows: Array) -> Array:
    top5 = np.asarray(arrays.get("top5", ()))
    if top5.ndim != 2 or not len(top5) > int(rows.max(initial=0)):
        return np.full(len(rows), -1)
    return np.asarray(top5[rows, 0], dtype=int)
