"""The scales at which an experiment can be run, and how to read its numbers. Does not import torch."""

from typing import Literal

Scale = Literal["paper", "small", "tiny"]
RunScale = Literal["paper", "small", "tiny", "custom"]
"""The scale of a run: `custom` if its settings differ from those of its recipe."""
SCALES: tuple[Scale, ...] = ("paper", "small", "tiny")
FULL: Scale = "paper"
"""The scale of a recipe where none is named."""
MEANING: dict[str, str] = {
    "paper": "the paper's full protocol",
    "small": "the same code and method at a size that two cores finish; not to be held against the paper's numbers",
    "tiny": "a smoke run on synthetic data: the numbers mean nothing",
    "custom": "settings of its own, changed on the command line: in no table",
}
