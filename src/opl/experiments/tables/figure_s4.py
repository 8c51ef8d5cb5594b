"""Figure s4: further ImageNet pictures like those of figure s2, from the same runs of table 2."""

from dataclasses import replace

from .figure_s2 import ITEM as FIGURE_S2
from .figure_s2 import recipes

ITEM = replace(
    FIGURE_S2, name="figure-s4", title="ImageNet, further pictures that OPL gets right and CE wrong (not built yet)"
)

__all__ = ["ITEM", "recipes"]
