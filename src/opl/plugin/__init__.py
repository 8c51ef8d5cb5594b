"""Add OPL to an existing training loop: the features of given logits, found in a model that nobody edits.

`criterion` is what users call; `layers`, `hooks`, `trace`, `rows` and `source` find the features behind the logits;
`tap` reads features by hand; `caller` looks at the trainer that calls.
"""

from .criterion import HasLogits, LossParts, RegularizedCriterion, regularize
from .tap import FeatureTap

__all__ = ["FeatureTap", "HasLogits", "LossParts", "RegularizedCriterion", "regularize"]
