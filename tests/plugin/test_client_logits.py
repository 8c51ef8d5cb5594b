"""The line on logits that were changed after their layer, on other kinds of classifiers, precisions and wrappers."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

import opl
from _small_cnn import Net, SmallCNN, data
from _textbook import agrees, textbook


@pytest.mark.parametrize("kind", ["mapping", "tuple", "object"])
def test_outputs_that_hold_logits(kind):
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = model(images)

    class Output:
        pass

    output = {"mapping": {"logits": logits}, "tuple": (logits, None), "object": Output()}[kind]
    if kind == "object":
        output.logits = logits
    agrees(model, criterion(output, labels), F.cross_entropy(logits, labels) + textbook(model.seen[0], labels))


CHANGES = {
    "rows in another order": (lambda logits: logits[torch.arange(24).flip(0)], lambda rows: rows.flip(0)),
    "rows flipped": (lambda logits: logits.flip(0), lambda rows: rows.flip(0)),
    "some rows": (lambda logits: logits[4:20], lambda rows: rows[4:20]),
    "every other row": (lambda logits: logits[::2], lambda rows: rows[::2]),
    "rows by a mask": (lambda logits: logits[torch.arange(24) > 3], lambda rows: rows[4:]),
    "split and joined": (lambda logits: torch.cat(logits.chunk(3)[::-1]), lambda rows: torch.cat(rows.chunk(3)[::-1])),
    "stacked and flattened": (
        lambda logits: torch.stack([logits, logits.roll(1, 0)], 1).flatten(0, 1)[::2], lambda rows: rows,
    ),
    "divided by a temperature": (lambda logits: logits / 0.07, lambda rows: rows),
    "scaled in place": (lambda logits: logits.mul_(3.0), lambda rows: rows),
    "capped": (lambda logits: 5 * (logits / 5).tanh(), lambda rows: rows),
    "as double": (lambda logits: logits.double(), lambda rows: rows),
    "squeezed": (lambda logits: logits[:, :, None, None].squeeze(), lambda rows: rows),
    "log-softmax": (lambda logits: logits.log_softmax(1), lambda rows: rows),
    "log-softmax, then some rows": (lambda logits: logits.log_softmax(1)[3:19], lambda rows: rows[3:19]),
    "some classes": (lambda logits: logits[:, [3, 1, 0, 2]], lambda rows: rows),
    "cloned and contiguous": (lambda logits: logits.clone().t().contiguous().t(), lambda rows: rows),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_done_to_logits_is_followed(name):
    change, follow = CHANGES[name]
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = change(model(images))
    labels = labels[: len(logits)]
    agrees(model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(follow(model.seen[0]), labels))


HEADS = {
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(16, 4)),
    "spectral norm": lambda: parametrizations.spectral_norm(nn.Linear(16, 4)).eval(),
    "ours, linear": lambda: opl.heads.LinearHead(16, num_classes=4),
    "ours, arcface": lambda: opl.heads.ArcFaceHead(16, num_classes=4),
    "no bias": lambda: nn.Linear(16, 4, bias=False),
    "frozen head": lambda: nn.Linear(16, 4).requires_grad_(False),
    "1 x 1 convolution": lambda: nn.Sequential(nn.Unflatten(1, (16, 1, 1)), nn.Conv2d(16, 4, 1), nn.Flatten()),
}


@pytest.mark.parametrize("name", HEADS)
def test_kinds_of_classifiers(name):
    model, (images, labels) = Net(), data()
    model.fc = HEADS[name]()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = model(images)
    agrees(model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(model.seen[0], labels))


@pytest.mark.parametrize("whole", [True, False])
def test_checkpointed_layers(whole):
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    if whole:
        logits = checkpoint(model, images, use_reentrant=False)
    else:
        logits = model.fc(checkpoint(model.features, images, use_reentrant=False))
    loss = criterion(logits, labels)
    expected = F.cross_entropy(model(images), labels) + textbook(model.embed(images), labels)
    agrees(model, loss, expected)


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_precisions(kind):
    model, (images, labels) = Net().to(kind), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = model(images.to(kind))
    expected = F.cross_entropy(logits, labels) + textbook(model.seen[0].float(), labels)
    agrees(model, criterion(logits, labels), expected, 1e-5 if kind == torch.float64 else 0.02)


def test_autocast():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(images)
        loss = criterion(logits, labels)
    expected = F.cross_entropy(logits.float(), labels) + textbook(model.seen[0].float(), labels)
    agrees(model, loss, expected, 0.02)


def test_data_parallel_without_a_device_is_the_model_itself():
    model, (images, labels) = Net(), data()
    wrapped = nn.DataParallel(model)
    criterion = opl.regularize(nn.CrossEntropyLoss(), wrapped)
    logits = wrapped(images)
    agrees(model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(model.seen[0], labels))


def test_replicas_whose_outputs_are_gathered():
    """What DataParallel does on several devices: shallow copies of the modules, and their outputs joined."""
    model, (images, labels) = SmallCNN(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    replicas = [model._replicate_for_data_parallel() for _ in range(2)]
    for replica in replicas:
        replica._modules = {name: part._replicate_for_data_parallel() for name, part in model._modules.items()}
        replica.fc._parameters = dict(model.fc._parameters)
        replica.fc.weight, replica.fc.bias = model.fc.weight, model.fc.bias
        replica._modules["body"] = model.body
    logits = torch.cat([replica(part) for replica, part in zip(replicas, images.chunk(2), strict=True)])
    expected = F.cross_entropy(model(images), labels) + textbook(model.embed(images), labels)
    agrees(model, criterion(logits, labels), expected)
