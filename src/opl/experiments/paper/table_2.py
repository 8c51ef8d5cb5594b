"""Table 2, ImageNet: ResNet-18, ResNet-50 and, beyond the paper, ViT-S/16. Cost and figures: RESULTS.md, table 2.

The protocol of the paper is that of PyTorch's ImageNet example: 90 epochs in batches of 256, SGD with learning rate
0.1, a tenth of it after 30 and 60 epochs. The validation images are the test set; the example reports its best epoch on
them, here the last is tested. Large files are decoded at a reduced size (JPEG draft mode), and images are resized and
cropped in one step, where the example decodes at full size, resizes and then crops. The paper's CE rows for ResNet-50
equal torchvision's published figures, so they were probably not trained again.

OPL has two published settings: weight 1 and gamma 0.5 in the paper, weight 0.1 and gamma 2 in the released code. Both
have rows here, with the paper's schedule. The released script also differs in its schedule (batches of 1,024, learning
rate 0.01) and computes OPL on the images of each GPU alone; here it is computed on the global batch. Recipes
`imagenet-resnet50-script-*` have that schedule, and no row.

ViT-S/16 is trained for 90 epochs with the schedule of "Better plain ViT baselines for ImageNet-1k" without its
RandAugment and mixup: AdamW, warm-up and cosine, clipped gradients; with label smoothing and color jitter.

The small scale runs the same code on JPEG files made from data sets at hand, until the learning rate has decayed to 0:
photographs of ImageNet, the 100 classes of miniImageNet together, with a narrow ResNet-18 (planned in docs/study.md,
section "Table 2"); PACS, all domains together, and 20 classes of CIFAR-100 (the first of each superclass), with small
networks of the same families.

Figures 5, s2 and s4 are galleries of pictures that OPL fixes and breaks. The paper does not name their networks: here
they are ResNet-50, ResNet-18 and the vision transformers. At the small scale all are drawn from the photographs: CE vs
CE+OPL, CE vs the released settings, and CE vs both.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ..item import MINUTE, Cost, Item, Row
from ..scales import Scale
from .variant import Variant, item_of_runs, revised_d, with_methods

if TYPE_CHECKING:
    from ..recipe import Recipe

VARIANTS = {
    "ce": Variant("CE", lambda m, smoothing: m.CrossEntropy(label_smoothing=smoothing)),
    "opl": Variant("CE+OPL", lambda m, smoothing: m.CrossEntropyOPL(label_smoothing=smoothing), "ce"),
    "opl-released": Variant(
        "CE+OPL, released settings",
        lambda m, smoothing: m.CrossEntropyOPL(weight=0.1, gamma=2.0, label_smoothing=smoothing),
        "ce",
    ),
}
"""The methods take `opl.experiments.methods` and the label smoothing of the group."""


@dataclass(frozen=True)
class Group:
    """Rows that differ in the method alone: the prefixes of their names and labels, and where they are run."""

    name: str
    label: str
    scales: tuple[Scale, ...]
    paper: dict[str, tuple[float, float]]
    """The paper's top-1 and top-5 accuracy of some variants."""
    needs: str = ""
    """The data set of the small scale."""
    smoothing: float = 0.0
    seeds: int = 0
    """The number of runs of each row; 0 for as many as the table."""


RESNET18 = Group("imagenet-resnet18", "ResNet-18", ("paper", "tiny"), {"ce": (69.91, 89.08), "opl": (70.27, 89.60)})
RESNET50 = Group("imagenet-resnet50", "ResNet-50", ("paper", "tiny"), {"ce": (76.15, 92.87), "opl": (76.98, 93.30)})
VIT = Group("imagenet-vit-s16", "ViT-S/16", ("paper", "tiny"), {}, smoothing=0.1)
PHOTOS = Group("photos-resnet18", "ImageNet photographs", ("small",), RESNET18.paper, "mini-imagenet", seeds=2)
PACS = Group("pacs-jpegs", "PACS", ("small",), {}, "pacs")
CIFAR = Group("cifar100-jpegs", "CIFAR-100, 20 classes", ("small",), {}, "cifar100")
SMALL_VIT = Group("cifar100-jpegs-vit", "CIFAR-100, 20 classes, ViT", ("small",), {}, "cifar100", smoothing=0.1)
GROUPS = (RESNET18, RESNET50, VIT, PHOTOS, PACS, CIFAR, SMALL_VIT)
SCRIPT, SCRIPT_KEYS = replace(RESNET50, name="imagenet-resnet50-script"), ("ce", "opl-released")
FOLDER, HUB = replace(RESNET18, name="folder"), replace(RESNET18, name="hub")  # for your images


def name_of(group: Group, key: str) -> str:
    """The name of a recipe."""
    return f"{group.name}-{key}"


def _row(group: Group, key: str) -> Row:
    return VARIANTS[key].row(
        f"{group.label} ",
        key,
        partial(name_of, group),
        paper=dict(zip(("test/top1", "test/top5"), group.paper.get(key, ()), strict=False)),
        scales=group.scales,
        needs=group.needs,
        seeds=group.seeds,
    )


TABLE_2 = Item(
    name="table-2",
    title="ImageNet, ResNet-18, ResNet-50 and ViT-S/16",
    dataset="imagenet",
    metrics={"test/top1": "top-1 %", "test/top5": "top-5 %", "test/s": "s", "test/d": "d"},
    rows=tuple(_row(group, key) for group in GROUPS for key in VARIANTS),
    what="network and loss",
    costs={"small": Cost(26 * MINUTE)},  # photographs, estimated; the others take 3 min
    note="The last epoch is tested. The paper's CE row of ResNet-50 equals torchvision's published figures. Ours "
    "decodes large JPEG files at a reduced size (draft mode), and resizes and crops in one step.",
    setting="ResNet-18 and ResNet-50, 1,000 classes, 90 epochs",
    revisions=(revised_d(name_of(group, key) for group in (VIT, SMALL_VIT) for key in VARIANTS),),
    others=(
        *(name_of(SCRIPT, key) for key in SCRIPT_KEYS),
        *(name_of(group, key) for group in (FOLDER, HUB) for key in VARIANTS),
    ),
)


def _gallery(name: str, title: str, group: Group, *keys: str) -> Item:
    """A gallery of what CE+OPL fixes and breaks in a group; at the small scale, what `keys` do on the photographs."""
    pairs = {name_of(group, key) for key in ("ce", "opl")} | {name_of(PHOTOS, key) for key in ("ce", *keys)}
    rows = tuple(row for row in TABLE_2.rows if row.recipe in pairs)
    return item_of_runs(TABLE_2, name, title, rows, figure="gallery", setting=TABLE_2.setting)


PICTURES = "pictures that OPL fixes and pictures that it breaks"
ITEMS = (
    TABLE_2,
    _gallery("figure-5", f"ImageNet, {PICTURES}", RESNET50, "opl"),
    _gallery("figure-s2", f"ImageNet, more {PICTURES}", RESNET18, "opl-released"),
    _gallery("figure-s4", f"ImageNet, further {PICTURES}", VIT, "opl", "opl-released"),
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows, those with the released schedule, and the same for your images."""
    bases = {"paper": _paper, "small": _small, "tiny": _tiny}
    made = [
        recipe for group in GROUPS for scale in group.scales for recipe in _with_methods(bases[scale](group), group)
    ]
    return *made, *_script_recipes(), *_other_recipes()


def _with_methods(base: "Recipe", group: Group, *keys: str) -> "list[Recipe]":
    """The variants of a group, or some of them."""
    variants = {key: VARIANTS[key] for key in keys or VARIANTS}
    return with_methods(base, variants, partial(name_of, group), group.smoothing)


def _paper(group: Group) -> "Recipe":
    from ...optim import SGD, AdamW, Cosine, Steps
    from ..data import ImageNet
    from ..methods import CrossEntropy
    from ..models import ResNet, ViT
    from ..recipe import Recipe

    resnet = Recipe(
        name=group.name,
        data=ImageNet(),
        model=ResNet(depth=50 if group == RESNET50 else 18),
        method=CrossEntropy(),
        optimizer=SGD(lr=0.1, weight_decay=1e-4),
        schedule=Steps(milestones=(30, 60), factor=0.1),
        epochs=90,
        batch_size=256,
    )
    if group != VIT:
        return resnet
    return replace(
        resnet,
        data=ImageNet(jitter=0.4),
        model=ViT(),
        optimizer=AdamW(lr=1e-3, weight_decay=0.05),
        schedule=Cosine(warmup=8),  # 10,000 steps
        batch_size=1024,
        clip=1.0,
    )


def _small(group: Group) -> "Recipe":
    """Files of 96 px (PACS) and of 64 px (CIFAR-100); a ResNet-10 of a quarter of the width, and a small ViT."""
    from ...optim import SGD, AdamW, Cosine, OneCycle
    from ..data import JpegCopies
    from ..models import ResNet, ViT

    cifar = JpegCopies(of="cifar20", side=64, size=48, crop=0.35, workers=1)
    small = replace(
        _paper(RESNET18),
        data=replace(cifar, of="pacs", side=96, size=64) if group == PACS else cifar,
        model=ResNet(depth=10, stem="half", width=16),
        optimizer=SGD(lr=0.1, weight_decay=5e-4, nesterov=True),
        schedule=OneCycle(),
        epochs=8 if group == PACS else 12,
        batch_size=64,
        eval_every=2,
        scale="small",
    )
    if group == PHOTOS:
        return replace(
            small,
            data=JpegCopies(of="mini-imagenet", side=64, size=48, crop=0.35, val=0.02, test=1 / 6, workers=1),
            model=ResNet(depth=18, stem="half", width=32),
            optimizer=SGD(lr=0.4, weight_decay=5e-4, nesterov=True),
            epochs=16,
            batch_size=128,
            eval_every=4,
            precision="bf16-mixed",
        )
    if group != SMALL_VIT:
        return small
    return replace(
        small,
        model=ViT(patch=8, width=96, depth=4, heads=3),
        optimizer=AdamW(lr=2e-3, weight_decay=0.05),
        schedule=Cosine(warmup=1),
        epochs=10,
        clip=1.0,
    )


def _tiny(group: Group) -> "Recipe":
    """Synthetic JPEG files of several sizes: 10 classes, 18 training, 2 validation and 8 test pictures of each."""
    from ...optim import AdamW, Cosine
    from ..data import JpegCopies
    from ..models import ResNet, ViT

    paper = _paper(group)
    tiny = replace(
        paper,
        data=JpegCopies(size=32, crop=0.35, classes=10, workers=0),
        model=ResNet(depth=10, stem="half", width=16 if group == RESNET50 else 8),
        schedule=Cosine(warmup=1) if group == VIT else paper.schedule,
        epochs=3,
        batch_size=20,
        scale="tiny",
    )
    if group != VIT:
        return tiny
    return replace(tiny, model=ViT(patch=8, width=32, depth=2, heads=2), optimizer=AdamW(lr=2e-3, weight_decay=0.05))


def _script_recipes() -> "list[Recipe]":
    """ResNet-50 with the batches and the learning rate of the released script."""
    paper = _paper(RESNET50)
    base = replace(paper, optimizer=replace(paper.optimizer, lr=0.01), batch_size=1024)
    return _with_methods(base, SCRIPT, *SCRIPT_KEYS)


def _other_recipes() -> "list[Recipe]":
    """For example: opl train folder-opl --data.root FOLDER, or opl train hub-opl --data.hub ID."""
    from ...optim import Cosine
    from ..data import ImageFolder

    base = replace(_paper(RESNET18), schedule=Cosine(warmup=5))
    groups = ((FOLDER, ImageFolder()), (HUB, ImageFolder(name="hub-images")))
    return [recipe for group, data in groups for recipe in _with_methods(replace(base, data=data), group)]
