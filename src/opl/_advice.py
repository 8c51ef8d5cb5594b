"""Recommended weight and gamma by situation, for docs/variants.md, warnings, and `opl try`."""

import math
from typing import NamedTuple


class Advice(NamedTuple):
    """A recommendation, and the results that it is based on; texts are Markdown."""

    situation: str
    take: str
    evidence: str
    weight: float = math.nan
    """NaN where there is no OPL, or a range."""
    gamma: float = math.nan


START = Advice(
    "a narrow convolutional classifier with ReLU features; the first try",
    "the defaults: weight 1, gamma 0.5",
    "figure 6: better than CE in 24 of 27 pairs of runs over all batch sizes, by 1.3 on average (counted after the "
    "runs were seen; one of nine settings is decided)",
    1.0,
    0.5,
)
LOWER_D = Advice(
    "lower d at little cost in accuracy; d rose with the defaults",
    "weight 0.1, gamma 1",
    "the confirmation: d 0.509 to 0.476, accuracy -0.2 [-0.5, +0.2]; the screen: 0.62 to 0.59 and +1.0; at weight 1 a "
    "larger gamma costs accuracy: -3.7 (the screen, gamma 1), -2.0 and -9.7 (table 8, gamma 1 and 2)",
    0.1,
    1.0,
)
ADVICE = (
    Advice(
        "only accuracy matters; a wide network trained for a few epochs",
        "cross-entropy",
        "the confirmation: label smoothing +0.0, OPL -0.3, gamma 1 -0.2 (undecided), the ramp -0.5 (a loss)",
    ),
    START,
    Advice(
        "fine-tuning ImageNet weights for images of another domain",
        "the defaults: weight 1, gamma 0.5",
        "study-pretrained (PACS, 3 and 6 epochs): +2.2 over four domains, a gain (label smoothing: +1.1, undecided), "
        "although d rises from .20 to .45 and from .19 to .34; study-few-images: +1.8 with 50 images per class, a "
        "gain, and +2.0 with 10 (undecided); table 5: +0.3 with RSC (undecided); more than 6 epochs were not tried",
        1.0,
        0.5,
    ),
    Advice("large batches with a scaled-up learning rate", "the same", "figure 6, batch 512: +3.5, a gain", 1.0, 0.5),
    Advice("the weight at gamma 0.5", "0.05 to 2", "table 8: -0.4 to +1.7 on validation, no trend"),
    LOWER_D,
    Advice(
        "the lowest d",
        "prototypes or a balanced weight; expect lower accuracy",
        "the screen: d 0.62 to 0.52 and 0.45, accuracy -0.5 and -0.6 (undecided)",
    ),
    Advice(
        "features with both signs (ViT, or a last batch norm without ReLU)",
        "avoid the defaults; if you need OPL, use weight 0.1 and gamma 2",
        "with the defaults, the mean cosine between classes rises from -.01 to .50 (table s2, ResNet-18) and from .06 "
        "to .78 (table 2, ViT); the rule for gamma does not apply and does not explain it. table s2: -6.4 for "
        "ResNet-18; table 2: -2.0 for the ViT, and +1.8 with weight 0.1 and gamma 2 (all undecided)",
        0.1,
        2.0,
    ),
    Advice(
        "orthogonality is the goal and the classes are already tight",
        "the defaults",
        "table s1: d 0.30 to 0.01, accuracy equivalent; demo: d 0.75 to 0.42, accuracy +0.3 (undecided)",
        1.0,
        0.5,
    ),
    Advice(
        "features for classes that are not in the training set",
        "avoid OPL; if you need it, use `gamma=opl.Ramp(0.0, 1.0, steps=...)` at weight 0.3",
        "table 7: -3.7 on average, a loss; table 6, five shots: -2.4 with RFS and -2.2 with SKD, both losses; "
        "study-few-shot, five shots: the ramp is 1.7 above OPL, a gain",
        0.3,
    ),
    Advice(
        "wrong labels, truncated loss",
        "avoid OPL, or use `gamma=opl.Ramp(0.0, 1.0, steps=...)` over all of training at weight 0.3",
        "table 3 (MNIST): means of -2 to -12 in three of three rows, all undecided; study-noise: the ramp is above "
        "OPL in 8 of 9 pairs, by 4.5 to 12.5 on average (all undecided)",
        0.3,
    ),
)
"""All recommendations, in the order of docs/variants.md."""


def markdown() -> str:
    """Return all recommendations as a Markdown table."""
    heading = "| situation | recommendation | evidence |\n|---|---|---|"
    return "\n".join([heading, *(f"| {advice.situation} | {advice.take} | {advice.evidence} |" for advice in ADVICE)])
