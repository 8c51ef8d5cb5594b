"""A run on disk: the only package that knows the layout of a run folder. Imports torch only to load weights.

`DIR/<recipe>/seed-<n>/` holds `recipe.json` (written first), `splits.json`, `metrics.jsonl` (one line per epoch, each
with a checksum), `checkpoint.pt` and `checkpoint-before.pt` and `best.pt` (each with a `.sha256` file),
`model.safetensors`, `test.npz` (predictions for the test images), `result.json`, and `done`, written last. With label
noise also `noise.json` (transition matrix and noise rates) and `noise.npz` (the labels). Measures taken after training
are in `measures/`: a `.json` file per measure, with its arrays in a `.npz` file; an unfinished measure is a
`.part.npz` file. Features that several evaluations need are `features-<images>.npz`.

A file under its final name is complete, except for `metrics.jsonl` and logs. `done` lists the SHA-256 of every other
file of a finished run, and `sums.json` does so until then (`manifest`); a file that does not match is not used.
`owner.json` names the process that trains, searches or tries in a folder, which holds the lock `.owner.lock`.
"""

from .checkpoints import BEFORE, CHECKPOINT, NEW
from .facts import check_about, check_measure, check_result
from .folder import ENDED_AFTER, FEATURES, MODEL, RESULT, RunFolder, measure_name
from .manifest import RECIPE
from .owner import own, unwritable

__all__ = [
    "BEFORE",
    "CHECKPOINT",
    "ENDED_AFTER",
    "FEATURES",
    "MODEL",
    "NEW",
    "RECIPE",
    "RESULT",
    "RunFolder",
    "check_about",
    "check_measure",
    "check_result",
    "measure_name",
    "own",
    "unwritable",
]
