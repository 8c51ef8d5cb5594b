"""Table 5, PACS: RSC and OPL, one domain left out of training. Cost of one seed, the paper's figures and ours:
RESULTS.md, table 5.

The protocol of RSC's released code: ImageNet weights, 222 px, batches of 64 from all source domains together, each with
its mirror image, 20 epochs, a tenth of the rate for the last four; weights are chosen by the source domains' validation
images. Different here: the last, smaller batch of an epoch is kept; images are resized to 222 before they are cropped,
not after (the files have 227). Plain training (ERM) is the same in everything but the method, mirror images included.

No code was released for RSC with OPL: here OPL sees the averaged features after the blanking, as the classifier does,
of all images of a batch, with the paper's weight 1 and gamma 0.5, and the labels of the classes alone. The paper does
not name its network; its copied figures are those of ResNet-50.
"""

from dataclasses import replace

from ...optim import SGD, Steps
from ..data.domains import DomainFolder, Pacs
from ..data.sets import DataSet, Domains
from ..data.synthetic_domains import SyntheticDomains
from ..methods import OPL, RSC, CrossEntropy, CrossEntropyOPL, Method
from ..models import ResNet
from ..recipe import Recipe
from ..tables.table_5 import METHODS

TARGETS = {"art": "art_painting", "cartoon": "cartoon", "sketch": "sketch", "photo": "photo"}
R50 = Recipe(
    name="pacs",
    data=Pacs(doubled=True),
    model=ResNet(depth=50),
    method=CrossEntropy(),
    optimizer=SGD(lr=0.01, weight_decay=5e-4),
    schedule=Steps(milestones=(16,), factor=0.1),
    epochs=20,
    batch_size=64,
    selection="best-val",
    weights="timm/resnet50.tv_in1k",
)
R18 = replace(R50, model=ResNet(depth=18), weights="timm/resnet18.tv_in1k")
# Small: all images at 64 px, a small network of the same family from scratch, so a higher rate; batches without their
# mirror images (half of the images are mirrored), which leaves time for more epochs; the rate drops for the last two.
SMALL = replace(
    R50,
    data=Pacs(size=64),
    model=ResNet(depth=10, stem="half", width=16),
    optimizer=SGD(lr=0.05, weight_decay=5e-4),
    schedule=Steps(milestones=(5,), factor=0.1, warmup=0.5),
    epochs=7,
    weights="",
    scale="small",
)
TINY = replace(
    R50,
    data=SyntheticDomains(doubled=True),
    model=ResNet(depth=10, stem="half", width=8),
    epochs=1,
    batch_size=32,
    weights="",
    scale="tiny",
)


def _methods(epochs: int) -> dict[str, Method]:
    """RSC's second half of training blanks in more images: from epoch 10 of 20."""
    half, beside = -(-epochs // 2), (OPL(),)
    return {
        "erm": CrossEntropy(),
        "erm-opl": CrossEntropyOPL(),
        "rsc": RSC(every=half),
        "rsc-opl": RSC(every=half, auxiliary=beside),
        # In no table of the paper: OPL on the features before the blanking, and DomainBed's way to blank.
        "rsc-opl-before": RSC(every=half, place="before", auxiliary=beside),
        "rsc-domainbed": RSC.domainbed(),
        "rsc-domainbed-opl": RSC.domainbed(beside),
    }


def _aimed(data: DataSet, target: str) -> DataSet:
    assert isinstance(data, Domains)
    return replace(data, target=target)


BASES: tuple[tuple[str, Recipe], ...] = (
    *(("", base) for base in (R50, SMALL, TINY)),
    *(("resnet18-", base) for base in (R18, SMALL, TINY)),
)
# Any other data set with domains: opl train domains-rsc-opl --data.root FOLDER --data.target NAME --data.num-classes N
OTHER = (replace(R50, data=DomainFolder(doubled=True)), TINY)
RECIPES = (
    *(
        replace(base, name=f"pacs-{short}-{net}{name}", data=_aimed(base.data, target), method=method)
        for net, base in BASES
        for short, target in TARGETS.items()
        for name, method in _methods(base.epochs).items()
        if not net or name in METHODS
    ),
    *(
        replace(base, name=f"domains-{name}", method=method)
        for base in OTHER
        for name, method in _methods(base.epochs).items()
    ),
)
