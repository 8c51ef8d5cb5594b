"""OPL of the global batch under DDP: every process gets the loss and the gradient of the concatenated batch.

    torchrun --nproc-per-node 2 examples/torchrun_global_batch.py

It checks its result: the same training in one process, on the whole batch, ends with the same weights.
"""

import copy
import gc

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import opl


def train(model, criterion, inputs, labels, steps: int = 20) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        loss = criterion(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # the same model and the same data everywhere; each process trains on its part
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)).double()
    alone = copy.deepcopy(model)
    labels = torch.randint(0, 3, (24 * world,))
    inputs = torch.randn(3, 10).double()[labels] + 0.5 * torch.randn(24 * world, 10).double()

    wrapped = DistributedDataParallel(model)
    criterion = opl.regularize(nn.CrossEntropyLoss(), wrapped, global_batch=True)
    train(wrapped, criterion, inputs[rank::world], labels[rank::world])

    train(alone, opl.regularize(nn.CrossEntropyLoss(), alone), inputs, labels)
    gap = max((a - b).abs().max().item() for a, b in zip(model.parameters(), alone.parameters(), strict=True))
    print(f"process {rank} of {world}: largest difference to one process {gap:.1e}")
    assert gap < 1e-9


def on_this_process() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    main()
    gc.collect()  # DDP is in a reference cycle: without this, gloo's threads would still run while Python shuts down
    dist.destroy_process_group()


if __name__ == "__main__":
    on_this_process()
