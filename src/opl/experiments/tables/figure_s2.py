"""Figure s2: ImageNet pictures that OPL gets right and CE wrong, a gallery of table 2's runs, which are not built yet.

Without rows the item cannot be reproduced, and its note says why; rows of table 2 are all that it lacks.
"""

from typing import TYPE_CHECKING

from ..item import Item

if TYPE_CHECKING:
    from ..recipe import Recipe

ITEM = Item(
    name="figure-s2",
    title="ImageNet, pictures that OPL gets right and CE wrong (not built yet)",
    dataset="imagenet",
    metrics={"test/top1": "top-1 %"},
    rows=(),
    note="It shows table 2's ImageNet runs, which are not built yet; figure-5 draws the same gallery from CIFAR-100.",
    setting="ResNet-18 or ResNet-50 (which is not named), 1,000 classes, 90 epochs",
    figure="gallery",
)


def recipes() -> tuple["Recipe", ...]:
    """None, as long as there are no rows."""
    return ()
