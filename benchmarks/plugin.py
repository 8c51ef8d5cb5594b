"""What `opl.regularize` adds to a training step: CPU time of a ResNet-20 step at B=128 with and without, in turns.

python benchmarks/plugin.py [--rounds 8]
"""

import argparse
import time
from statistics import median

import torch
from torch import nn

import opl
from opl.experiments.models import CifarResNet


class Classifier(nn.Module):
    """A network that returns logits alone, as most do."""

    def __init__(self) -> None:
        super().__init__()
        self.network = CifarResNet(depth=20).build(3, 100)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.network(images).logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    model, images, labels = Classifier(), torch.randn(128, 3, 32, 32), torch.randint(0, 100, (128,))
    base = nn.CrossEntropyLoss()
    criteria = {"cross-entropy": base, "with OPL": opl.regularize(base, model)}

    def step(criterion: nn.Module) -> float:
        start = time.process_time()
        criterion(model(images), labels).backward()
        model.zero_grad()
        return time.process_time() - start

    def call(criterion: nn.Module, output: torch.Tensor, features: torch.Tensor) -> float:
        """Everything above the features: what the backbone does is the same with and without OPL."""
        start = time.process_time()
        torch.autograd.grad(criterion(output, labels), features, retain_graph=True)
        return time.process_time() - start

    for criterion in criteria.values():
        step(criterion)
    steps = {name: [] for name in criteria}
    for number in range(rounds):
        for name in sorted(criteria, reverse=number % 2 == 0):  # who comes first takes turns
            steps[name].append(step(criteria[name]))
    whole = min(steps["cross-entropy"])  # neighbors on the machine can only make a step slower
    print(f"a step: {1e3 * whole:.0f} ms; with OPL {min(steps['with OPL']) / whole:.3f} of it (noise: some per cent)")
    kept: list[torch.Tensor] = []
    model.network.fc.register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0]))
    output = model(images)
    times = {name: [] for name in criteria}
    for _ in range(100):
        for name, criterion in criteria.items():
            times[name].append(call(criterion, output, kept[0]))
    added = median(times["with OPL"]) - median(times["cross-entropy"])
    print(f"above the features, forward and backward: {1e3 * added:.2f} ms more, {added / whole:.2%} of a step")


if __name__ == "__main__":
    main()
