"""The demo: scikit-learn's digits, CE against CE+OPL. Seconds a run; no figures in the paper."""

from dataclasses import replace

from ...optim import SGD, Cosine
from ..data.sets import Digits, Synthetic
from ..methods import CrossEntropy, CrossEntropyOPL
from ..models import DigitsNet
from ..recipe import Recipe

CE = Recipe(
    name="digits-ce",
    data=Digits(),
    model=DigitsNet(),
    method=CrossEntropy(),
    optimizer=SGD(lr=0.1, weight_decay=5e-4),
    schedule=Cosine(warmup=1),
    epochs=40,
    batch_size=64,
    scale="small",
)
OPL = replace(CE, name="digits-opl", method=CrossEntropyOPL())
TINY = replace(CE, data=Synthetic(like="digits"), epochs=2, scale="tiny")

RECIPES = (
    *(replace(each, scale=scale) for each in (CE, OPL) for scale in ("paper", "small")),
    TINY,
    replace(TINY, name="digits-opl", method=CrossEntropyOPL()),
)
