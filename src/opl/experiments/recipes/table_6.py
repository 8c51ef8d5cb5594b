"""Table 6 and table s3, few-shot learning: base training. Cost of one seed, the paper's figures and ours: RESULTS.md.

RFS trains a classifier of the base classes, by its own schedule; `-script` is the schedule of the script that was
released with OPL, the same for all data sets and with twice the batch. The last weights are tested. `-distilled` is a
new network that learns from the labels and from the run before it, `-distilled-2` one that learns from that. SKD's
first generation (the paper's "SKD") also tells rotations; `-gen1` goes on from it without labels.

The paper says weight 1 and gamma 0.5 for OPL everywhere; the script's defaults were other ones at different times.
No code was released for SKD with OPL: here OPL sees what cross-entropy sees, all four rotations.
"""

from dataclasses import replace

from ...optim import SGD, Steps
from ..data.few_shot import CifarFS, MiniImageNet, TieredImageNet
from ..data.sets import Synthetic
from ..methods import OPL, CrossEntropy, CrossEntropyOPL, Distillation, Rotations, TwinDistillation
from ..models import ResNet12
from ..recipe import Recipe
from ..tables.table_6 import SETS

RFS = Recipe(
    name="cifar-fs",
    data=CifarFS(),
    model=ResNet12(block=2),
    method=CrossEntropy(),
    optimizer=SGD(lr=0.05, weight_decay=5e-4),
    schedule=Steps(milestones=(45, 60, 75), factor=0.1),
    epochs=90,
    batch_size=64,
)
PAPER = {
    "cifar-fs": RFS,
    "mini-imagenet": replace(
        RFS, data=MiniImageNet(), model=ResNet12(), schedule=Steps(milestones=(60, 80), factor=0.1), epochs=100
    ),
    "tiered-imagenet": replace(
        RFS, data=TieredImageNet(), model=ResNet12(), schedule=Steps(milestones=(30, 40, 50), factor=0.1), epochs=60
    ),
}
# Small: all base classes with fewer images, a quarter of the width or less; drops and ramp at the same parts of it.
SMALL = replace(
    RFS,
    data=CifarFS(held=100, per_class=120),
    model=ResNet12(widths=(16, 32, 64, 128), block=2, ramp=710),
    schedule=Steps(milestones=(4, 5, 7), factor=0.1),
    epochs=8,
    scale="small",
)
TINY = replace(
    RFS,
    data=Synthetic(like="cifar-fs", classes=8),
    model=ResNet12(widths=(4, 8, 8, 16), block=2, ramp=4),
    epochs=1,
    scale="tiny",
)


def _script(base: Recipe) -> Recipe:
    """The schedule of OPL's script; at the other scales only its batch."""
    if base.scale != "paper":
        return replace(base, batch_size=128)
    return replace(base, batch_size=128, schedule=Steps(milestones=(60, 80), factor=0.1), epochs=100)


def _skd(base: Recipe) -> Recipe:
    """The first generation: the published epochs, or the same share of a smaller run's."""
    if base.scale == "tiny" or isinstance(base.data, TieredImageNet):
        return base
    epochs, drop = (65, 60) if base.scale == "paper" else (5, 4)
    return replace(base, epochs=epochs, schedule=Steps(milestones=(drop,), factor=0.1))


def _gen1(base: Recipe, after: str) -> Recipe:
    """The second: few steps at a low rate from where the first ended, DropBlock as strong as there.

    Published for CIFAR-FS; for miniImageNet the epochs are, and the weight was searched; tieredImageNet has nothing.
    """
    long = isinstance(base.data, CifarFS) and base.scale == "paper"
    epochs, drop = (65, 60) if long else (1, 1) if base.scale == "tiny" else (8, 5)
    model = replace(base.model, ramp=0) if isinstance(base.model, ResNet12) else base.model
    return replace(
        base,
        model=model,
        optimizer=SGD(lr=0.001, weight_decay=5e-4),
        schedule=Steps(milestones=(drop,), factor=0.1),
        epochs=epochs,
        after=after,
        inherit=True,
    )


def _variants(place: str, base: Recipe) -> dict[str, Recipe]:
    beside = (OPL(),)
    skd = _skd(base)
    return {
        "rfs": base,
        "rfs-opl": replace(base, method=CrossEntropyOPL()),
        "rfs-script": _script(base),
        "rfs-script-opl": replace(_script(base), method=CrossEntropyOPL()),
        "rfs-distilled": replace(base, method=Distillation(), after=f"{place}-rfs"),
        "rfs-opl-distilled": replace(base, method=Distillation(auxiliary=beside), after=f"{place}-rfs-opl"),
        "rfs-distilled-2": replace(base, method=Distillation(), after=f"{place}-rfs-distilled"),
        "rfs-opl-distilled-2": replace(base, method=Distillation(auxiliary=beside), after=f"{place}-rfs-opl-distilled"),
        "skd": replace(skd, method=Rotations()),
        "skd-opl": replace(skd, method=Rotations(auxiliary=beside)),
        "skd-gen1": replace(_gen1(base, f"{place}-skd"), method=TwinDistillation()),
        "skd-opl-gen1": replace(_gen1(base, f"{place}-skd-opl"), method=TwinDistillation(auxiliary=beside)),
    }


BASES = [(place, PAPER[place]) for place in SETS] + [("cifar-fs", SMALL), ("cifar-fs", TINY)]
RECIPES = tuple(
    replace(recipe, name=f"{place}-{name}") for place, base in BASES for name, recipe in _variants(place, base).items()
)
