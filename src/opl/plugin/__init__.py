"""Add OPL to an existing training loop, without editing the model.

`criterion` is the object that users call; `graph` finds the features behind the logits and `rows` brings them into the
order of the labels; `tap` reads features by hand; `callbacks` logs in Lightning and Hugging Face.
"""

from .criterion import HasLogits, LossParts, RegularizedCriterion, regularize
from .tap import FeatureTap

__all__ = ["FeatureTap", "HasLogits", "LossParts", "RegularizedCriterion", "regularize"]
