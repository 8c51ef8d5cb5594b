"""Every head, criterion and auxiliary loss as a method for the digits, with a batch to compute it on."""

from dataclasses import replace

from lightning_fabric import Fabric

from opl.experiments import paper
from opl.experiments.data import Digits
from opl.experiments.methods import (
    LGM,
    OLE,
    OPL,
    RBF,
    Anchor,
    ArcFace,
    ASoftmax,
    Center,
    ClassBalancedFocal,
    Composite,
    CosFace,
    Focal,
    Linear,
    LogitAdjustment,
    LSoftmax,
    NegativeCAM,
    NTXent,
    Perpetual,
)
from opl.experiments.training.build import batches, build_objective

DIGITS = replace(paper.recipe("digits-ce", "small"), data=Digits(), epochs=3)
METHODS = {
    "center": Composite(auxiliary=(Center(weight=0.1),)),
    "ole": Composite(auxiliary=(OLE(),)),
    "hnc": Composite(auxiliary=(NegativeCAM(k=3),)),
    "perpetual-1": Composite(auxiliary=(Perpetual(version=1),)),
    "perpetual-2": Composite(auxiliary=(Perpetual(version=2),)),
    "focal": Composite(criterion=Focal()),
    "anchor": Composite(criterion=Anchor(warmup=1.5)),
    "cb-focal": Composite(head=Linear(), criterion=ClassBalancedFocal()),
    "logit-adjustment": Composite(criterion=LogitAdjustment()),
    "nt-xent": Composite(auxiliary=(NTXent(weight=0.1),)),
    "a-softmax": Composite(head=ASoftmax(gamma=1.0)),
    "l-softmax": Composite(head=LSoftmax()),
    "lmc": Composite(head=CosFace(scale=10.0)),
    "aam": Composite(head=ArcFace(scale=10.0, margin=0.1, warmup=30)),
    "lgm": Composite(head=LGM(double_every=5, learn_variances=True)),
    "rbf": Composite(head=RBF()),
    "aam with opl and center": Composite(head=ArcFace(scale=10.0), auxiliary=(OPL(), Center())),
}


def first_batch(recipe):
    part = recipe.data.load(recipe.seed).train
    fabric = Fabric(accelerator="cpu", devices=1)
    data = batches(fabric, recipe, part)
    return next(iter(data.epoch(0))), part, data.steps


def objective_of(recipe, model):
    batch, part, steps = first_batch(recipe)
    return build_objective(recipe, model, part, steps), batch
