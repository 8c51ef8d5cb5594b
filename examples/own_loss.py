"""Your own loss vs cross-entropy, with the fast network on CIFAR-100: 8 minutes per run on 2 CPU cores.

export OPL_DATA=FOLDER                               # contains cifar100/; if unset, the Hub is used
python examples/own_loss.py --scale small --seeds 6  # about 71 % with cross-entropy; resumes where it stopped
python examples/own_loss.py                          # synthetic images, a few seconds
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor, nn
from torch.nn import functional as F

from opl.experiments import paper
from opl.experiments.methods.base import SupervisedObjective
from opl.experiments.statistics import interval
from opl.experiments.training.run import run
from opl.experiments.types import Method, TaskShape


class PolyLoss(nn.Module):
    """Cross-entropy plus `weight` times (1 - the probability of the correct class), summed over the batch."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        correct = logits.softmax(1).gather(1, labels[:, None])
        return F.cross_entropy(logits, labels, reduction="sum") + self.weight * (1 - correct).sum()


@dataclass(frozen=True)
class Poly(Method):  # 1. settings, which the run folder records
    weight: float = 1.0

    def build(self, shape: TaskShape) -> SupervisedObjective:
        return SupervisedObjective(criterion=PolyLoss(self.weight), name="poly")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=("small", "tiny"), default="tiny")
    parser.add_argument("--seeds", type=int, default=2, help="at least 2, for an interval")
    parser.add_argument("--out", type=Path, default=Path("runs/own-loss"))
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error(
            f"--seeds is {arguments.seeds}, but an interval needs at least 2 pairs of runs: pass --seeds 2 or more."
        )
    fast = paper.recipe("cifar100-fast-half", arguments.scale)
    recipes = {"CE": fast, "own": replace(fast, name="own", method=Poly())}  # 2. everything else is equal
    accuracy = {
        name: [
            run(replace(recipe, seed=seed), arguments.out / arguments.scale)["test/top1"]
            for seed in range(arguments.seeds)
        ]
        for name, recipe in recipes.items()
    }
    for name, values in accuracy.items():
        print(f"{name:<4}", *(f"{value:.2f}" for value in values))
    pairs = zip(accuracy["own"], accuracy["CE"], strict=True)
    difference = interval([poly - baseline for poly, baseline in pairs])
    print(f"own - CE: {difference.mean:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}], {difference.size} seeds")


if __name__ == "__main__":
    main()
