"""OPL in several processes: the same weights as one process with the textbook's loss."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import opl
from _gloo import together
from _textbook import textbook

LABELS = torch.arange(24) % 4
INPUTS = torch.randn(24, 6, generator=torch.Generator().manual_seed(0)) + LABELS[:, None]


class TwoOutputs(nn.Module):
    """A classifier with an auxiliary head, so that DDP has several outputs to look through."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body, self.fc, self.early = nn.Linear(6, 8), nn.Linear(8, 4), nn.Linear(6, 4)

    def forward(self, x):
        return self.fc(self.body(x).relu()), self.early(x)


def expected_gradients() -> tuple[torch.Tensor, list[torch.Tensor]]:
    model = TwoOutputs().double()
    x = INPUTS.double()
    logits, early = model(x)
    loss = F.cross_entropy(logits, LABELS) + textbook(model.body(x).relu(), LABELS) + 0 * early.sum()
    loss.backward()
    return loss.detach(), [weight.grad for weight in model.parameters()]


def by_ddp(rank: int, sizes: list[int], options: dict) -> None:
    """Two passes before the criterion, one of them without gradients, and the global batch."""
    rows = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    loss, gradients = expected_gradients()
    model = DistributedDataParallel(TwoOutputs().double(), **options)
    criterion = opl.regularize(nn.CrossEntropyLoss(reduction="sum"), model, global_batch=True)
    x, labels = INPUTS.double()[rows], LABELS[rows]
    for _ in range(2):  # DDP looks at the graph in another way from its second step on
        model.zero_grad()
        logits, early = model(x)
        with torch.no_grad():
            model.module(x * 2)
        # DDP averages over processes: each process gives its sum, times processes over samples.
        share = len(sizes) / len(LABELS)
        got = criterion(logits, labels)
        total = share * criterion.criterion(logits, labels) + (got - criterion.criterion(logits, labels))
        (total + 0 * early.sum()).backward()
        torch.testing.assert_close(criterion.last.projection, textbook(*whole_features()), rtol=1e-10, atol=1e-10)
        for parameter, wanted in zip(model.parameters(), gradients, strict=True):
            torch.testing.assert_close(parameter.grad, wanted, rtol=1e-8, atol=1e-10)
    assert float(loss) > 0


def whole_features() -> tuple[torch.Tensor, torch.Tensor]:
    model = TwoOutputs().double()
    return model.body(INPUTS.double()).relu().detach(), LABELS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "options"),
    [([5, 19], {}), ([12, 12], {"find_unused_parameters": True}), ([12, 12], {"static_graph": True})],
)
def test_ddp(tmp_path, sizes, options):
    together(by_ddp, len(sizes), tmp_path, sizes, options)


def by_fsdp(rank: int) -> None:
    """Sharded weights: what is gathered before a layer and freed after it does not disturb its note."""
    rows = slice(12 * rank, 12 * rank + 12)
    model = TwoOutputs()
    plain = copy.deepcopy(model)
    for layer in (model.body, model.fc, model.early):
        fully_shard(layer, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
    fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits, early = model(INPUTS[rows])
    (criterion(logits, LABELS[rows]) + 0 * early.sum()).backward()
    x, labels = INPUTS[rows], LABELS[rows]
    loss = F.cross_entropy(plain(x)[0], labels) + textbook(plain.body(x).relu(), labels)
    (loss + 0 * plain(x)[1].sum()).backward()
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        mean = theirs.grad.clone()
        dist.all_reduce(mean)
        torch.testing.assert_close(ours.grad.full_tensor(), mean / 2, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_fsdp(tmp_path):
    together(by_fsdp, 2, tmp_path)


def test_accelerate(tmp_path):
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    model, plain = TwoOutputs(), TwoOutputs()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    wrapped = accelerator.prepare(model)
    criterion = opl.regularize(nn.CrossEntropyLoss(), wrapped)
    for part in (slice(0, 12), slice(12, 24)):
        accelerator.backward(criterion(wrapped(INPUTS[part])[0], LABELS[part]))
        logits = plain(INPUTS[part])[0]
        features = plain.body(INPUTS[part]).relu()
        ((F.cross_entropy(logits, LABELS[part]) + textbook(features, LABELS[part])) / 2).backward()
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        if theirs.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)
