"""The scales at which an experiment can be run, and how to read its numbers. Does not import torch."""

from typing import Literal

Scale = Literal["paper", "small", "tiny"]
RunScale = Literal["paper", "small", "tiny", "try", "custom"]
"""The scale of a run: `try` for a run of `opl try`, `custom` if its settings differ from those of its recipe."""
SCALES: tuple[Scale, ...] = ("paper", "small", "tiny")
FULL: Scale = "paper"
"""The scale of a recipe that names none."""
TRY: RunScale = "try"
TABLE_SCALES: tuple[RunScale, ...] = (*SCALES, TRY)
"""The scales that have tables."""
MEANING: dict[str, str] = {
    "paper": "the paper's full protocol",
    "small": "the same code and method at a size that two cores finish; not comparable with the paper",
    "tiny": "a smoke test on synthetic data: the numbers mean nothing",
    "try": "your images, with a network and a schedule chosen for them and for the time budget",
    "custom": "settings changed on the command line; in no table",
}
