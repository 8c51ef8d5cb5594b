"""Table 8: the search of the weight and of gamma, by validation. Cost of one seed: that of table 1, RESULTS.md."""

from dataclasses import replace

from ..methods import CrossEntropyOPL
from ..tables.table_8 import GAMMAS, PAPER, name_of
from .figure_6 import OPL

RECIPES = tuple(
    replace(each, name=name_of(weight, gamma), method=CrossEntropyOPL(weight=weight, gamma=gamma))
    for each in OPL
    for weight in PAPER
    for gamma in GAMMAS
    if gamma != 0.5
)
