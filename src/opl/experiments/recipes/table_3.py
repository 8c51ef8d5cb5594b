"""Table 3, label noise, 40 %. Cost of one seed, the paper's figures and ours: RESULTS.md, table 3.

Network and schedule are those of the code that was released with OPL: ResNet-18, SGD 0.01, 120 epochs with drops at 40
and 80 and pruning from the 40th on (CIFAR-10), or 150 with drops at 80 and 120 and pruning from the 80th (CIFAR-100).
What differs here: a tenth of the noisy training set is held out, and the model that prunes is the best on that; a
pruning epoch trains; every method of a seed sees the same wrong labels, and other seeds see others. `-peeking` prunes
by the *test set*, as the released code does. `-code` has the released weight and gamma, 0.1 and 2, where the paper
says 1 and 0.5. `-left-out` gives pruned samples no part in OPL's pairs. `uniform` is any other class, `pair` the next
(the code), `class` one that looks alike (the words).
"""

from dataclasses import replace

from ...optim import SGD, Cosine, Steps
from ..data.noisy_labels import ClassDependent, Noise, PairFlip, UniformNoise
from ..data.sets import Cifar10, Cifar100, Mnist, Synthetic
from ..methods import OPL, CrossEntropy, CrossEntropyOPL, Method, TruncatedLq
from ..models import CifarResNet, MnistNet, ResNet
from ..recipe import Recipe
from ..tables.table_3 import BEYOND, FOUR

NOISES: dict[str, Noise] = {"uniform": UniformNoise(0.4), "pair": PairFlip(0.4), "class": ClassDependent(0.4)}
TEN = Recipe(
    name="cifar10-noisy",
    data=Cifar10(val=5000),
    model=ResNet(depth=18, stem="cifar"),
    method=TruncatedLq(start=39, every=10),
    optimizer=SGD(lr=0.01, weight_decay=1e-4),
    schedule=Steps(milestones=(40, 80), factor=0.1),
    epochs=120,
    selection="both",
)
HUNDRED = replace(
    TEN,
    name="cifar100-noisy",
    data=Cifar100(val=5000, jitter=0.0),
    method=TruncatedLq(start=79, every=10),
    schedule=Steps(milestones=(80, 120), factor=0.1),
    epochs=150,
)
# Small: the ten classes of two super-classes (natural scenes; vehicles), a shallow network of another family, more
# steps and a larger rate for the fewer epochs. Chosen after one trial of TL (seed 100, in no table): with the first two
# super-classes (mammals and fish in water) and a batch of 128, 16 % of the labels were believed when it pruned; with
# these and 64, 32 %.
SMALL = replace(
    HUNDRED,
    data=Cifar100(val=5000, jitter=0.0, superclasses=(10, 18)),
    model=CifarResNet(depth=8),
    method=TruncatedLq(start=8, every=2),
    optimizer=SGD(lr=0.1, weight_decay=1e-4),
    schedule=Cosine(warmup=1),
    epochs=12,
    batch_size=64,
    scale="small",
)
DIGITS = replace(
    SMALL,
    name="mnist-noisy",
    data=Mnist(val=1000, per_class=300),
    model=MnistNet(widths=(16, 32, 32, 32)),
    method=TruncatedLq(start=8, every=4),
    epochs=20,
    batch_size=128,
)
TINY = replace(
    HUNDRED,
    data=Synthetic(like="cifar100", classes=10),
    model=MnistNet(widths=(8, 8, 8, 16)),
    method=TruncatedLq(start=1, every=1),
    epochs=2,
    scale="tiny",
)


def _methods(base: Recipe) -> dict[str, Method]:
    truncated = base.method
    assert isinstance(truncated, TruncatedLq)
    paper, code = OPL(weight=1.0, gamma=0.5), OPL(weight=0.1, gamma=2.0)
    return {
        "ce": CrossEntropy(),
        "ce-opl": CrossEntropyOPL(paper.weight, paper.gamma),
        "tl": truncated,
        "tl-opl": replace(truncated, auxiliary=(paper,)),
        "ce-opl-code": CrossEntropyOPL(code.weight, code.gamma),
        "tl-opl-code": replace(truncated, auxiliary=(code,)),
        "tl-opl-left-out": replace(truncated, auxiliary=(paper,), leave_out=True),
        "tl-opl-code-left-out": replace(truncated, auxiliary=(code,), leave_out=True),
        "tl-peeking": replace(truncated, select="test-as-released"),
        "tl-opl-peeking": replace(truncated, select="test-as-released", auxiliary=(code,)),
    }


RECIPES = tuple(
    replace(base, name=f"{base.name}-{kind}-{name}", noise=noise, method=method)
    for base in (TEN, HUNDRED, SMALL, DIGITS, TINY)
    for kind, noise in NOISES.items()
    for name, method in _methods(base).items()
    if base.name != DIGITS.name or name in {*FOUR, *BEYOND}
)
