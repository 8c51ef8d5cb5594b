"""Figure 2, MNIST features in the plane. Cost of one seed and the measured angles: RESULTS.md, figure 2.

The paper shows three classes, without saying which, from which network, or how long it was trained. Here the first
three, and all ten, with the network of table s1 and two features behind it.
"""

from dataclasses import replace

from ..data.sets import Mnist
from .table_s1 import RECIPES as TABLE_S1

RECIPES = tuple(
    replace(
        each,
        name=each.name.replace("mnist-2d", "mnist-2d-three"),
        data=replace(each.data, classes=3) if isinstance(each.data, Mnist) else each.data,
    )
    for each in TABLE_S1
    if each.name.startswith("mnist-2d")
)
