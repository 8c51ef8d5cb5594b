"""Rows of features follow rows of logits, whatever happens between a layer and its logits."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import opl
from _said import says
from _small_cnn import Net, data
from _textbook import agrees, textbook
from opl import errors

PERM = torch.randperm(24, generator=torch.Generator().manual_seed(3))


def rows_as(index):
    return lambda rows: rows[index]


def keep(rows):
    return rows


CHANGES = {
    "rows in another order": (lambda logits: logits[PERM], rows_as(PERM)),
    "rows flipped": (lambda logits: logits.flip(0), lambda rows: rows.flip(0)),
    "some rows": (lambda logits: logits[4:20], lambda rows: rows[4:20]),
    "every other row": (lambda logits: logits[::2], lambda rows: rows[::2]),
    "rows by a mask": (lambda logits: logits[torch.arange(24) > 3], lambda rows: rows[4:]),
    "rows by index_select": (lambda logits: logits.index_select(0, PERM), rows_as(PERM)),
    "rolled": (lambda logits: logits.roll(5, 0), lambda rows: rows.roll(5, 0)),
    "split and joined": (lambda logits: torch.cat(logits.chunk(3)[::-1]), lambda rows: torch.cat(rows.chunk(3)[::-1])),
    "unbound and stacked": (lambda logits: torch.stack(logits.unbind()[::-1]), lambda rows: rows.flip(0)),
    "stacked and flattened": (lambda logits: torch.stack([logits, logits.roll(1, 0)], 1).flatten(0, 1)[::2], keep),
    "transposed twice": (lambda logits: logits.t().flip(1).t(), lambda rows: rows.flip(0)),
    "divided by a temperature": (lambda logits: logits / 0.07, keep),
    "scaled in place": (lambda logits: logits.mul_(3.0), keep),
    "scaled in place after cloning a slice": (lambda logits: scaled_slice(logits), keep),
    "negated": (lambda logits: -logits, keep),
    "capped": (lambda logits: 5 * (logits / 5).tanh(), keep),
    "as double": (lambda logits: logits.double(), keep),
    "as bfloat16, in another order": (lambda logits: logits.bfloat16()[PERM].float(), rows_as(PERM)),
    "squeezed": (lambda logits: logits[:, :, None, None].squeeze(), keep),
    "log-softmax": (lambda logits: logits.log_softmax(1), keep),
    "softmax": (lambda logits: logits.softmax(1), keep),
    "log-softmax, then some rows": (lambda logits: logits.log_softmax(1)[3:19], lambda rows: rows[3:19]),
    "some classes": (lambda logits: logits[:, [3, 1, 0, 2]], keep),
    "cloned and contiguous": (lambda logits: logits.clone().t().contiguous().t(), keep),
    "class 0 masked": (lambda logits: logits.masked_fill(torch.tensor([True, False, False, False]), -1e9), keep),
    "class 0 masked, then flipped": (
        lambda logits: logits.masked_fill(torch.tensor([True, False, False, False]), -1e9).flip(0),
        lambda rows: rows.flip(0),
    ),
    "clamped": (lambda logits: logits.clamp(-1e-3, 1e-3), keep),
    "clamped, then in another order": (lambda logits: logits.clamp(-1e-3, 1e-3)[PERM], rows_as(PERM)),
    "selected by where": (lambda logits: torch.where(torch.arange(4) > 0, logits, -9.0)[PERM], rows_as(PERM)),
    "without the mean of its classes": (lambda logits: (logits - logits.mean(1, keepdim=True))[PERM], rows_as(PERM)),
    "dropout, then flipped": (lambda logits: F.dropout(logits, 0.5).flip(0), lambda rows: rows.flip(0)),
    "differences of classes": (lambda logits: F.pad(logits.diff(dim=1), (0, 1))[PERM], rows_as(PERM)),
}  # fmt: skip


def scaled_slice(logits):
    logits = logits.clone()
    logits[:, 0].mul_(3.0)
    return logits


DEEP = {"features": "pool"}, {"features": "body", "pool": "mean"}, {"layer": "pool", "pool": "mean"}
MOVES = ("rows in another order", "rows flipped", "some rows", "clamped, then in another order")
FOLLOWED = [*((name, {}) for name in CHANGES), *((name, options) for options in DEEP for name in MOVES)]


@pytest.mark.parametrize(("name", "options"), FOLLOWED, ids=str)
def test_features_follow_what_is_done_to_logits(name, options):
    torch.manual_seed(0)
    change, follow = CHANGES[name]
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, **options)
    logits = change(model(images))
    labels = labels[: len(logits)]
    # Gradients of bfloat16 logits are rounded in both losses, in another order.
    tolerance = 0.02 if "bfloat16" in name else 1e-5
    expected = F.cross_entropy(logits, labels) + textbook(follow(model.seen[0]), labels)
    agrees(model, criterion(logits, labels), expected, tolerance)


class PooledHead(Net):
    """A network whose last layer averages the map that it is given."""

    def __init__(self):
        super().__init__()
        self.head = nn.Sequential(self.pool, nn.Flatten(), self.fc)

    def forward(self, images):
        self.features(images)
        return self.head(self.body(images))


@pytest.mark.parametrize("move", ["as double", "rows flipped", "clamped, then in another order"])
def test_the_input_of_a_named_classifier_is_pooled(move):
    torch.manual_seed(0)
    change, follow = CHANGES[move]
    model, (images, labels) = PooledHead(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, layer="head", pool="mean")
    logits = change(model(images))
    expected = F.cross_entropy(logits, labels) + textbook(follow(model.seen[0]), labels)
    agrees(model, criterion(logits, labels), expected)
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, layer="fc", pool=lambda features: features[:, :5])
    logits = change(model(images))
    expected = F.cross_entropy(logits, labels) + textbook(follow(model.seen[1][:, :5]), labels)
    agrees(model, criterion(logits, labels), expected)


TWO_PASSES = {
    "mean": lambda one, two: (one + two) / 2,
    "sum": lambda one, two: one + two,
    "difference": lambda one, two: 2 * one - two,
    "interleaved": lambda one, two: torch.stack([one, two], 1).flatten(0, 1),
}


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in TWO_PASSES), *(("interleaved", options) for options in DEEP)],
    ids=str,
)
def test_features_of_two_passes_are_combined_as_their_logits(name, options):
    torch.manual_seed(0)
    combine = TWO_PASSES[name]
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, **options)
    logits = combine(model(images), model(images.flip(3)))
    labels = labels.repeat_interleave(len(logits) // len(labels))
    expected = F.cross_entropy(logits, labels) + textbook(combine(*model.seen), labels)
    agrees(model, criterion(logits, labels), expected)


class Views(nn.Module):
    """A classifier of every view; (B, V, 6) inputs, (B, V, 4) logits."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.fc = nn.Linear(6, 8), nn.Linear(8, 4)

    def embed(self, x):
        return self.body(x).tanh()

    def forward(self, x):
        return self.fc(self.embed(x))


COMBINATIONS = {
    "difference of two views": (lambda x: x[:, 0] - x[:, 1]),
    "diff": (lambda x: x[:, :2].diff(dim=1)[:, 0]),
    "twice a view minus the mean": (lambda x: 2 * x[:, 0] - x.mean(1)),
    "mean of all views": (lambda x: x.mean(1)),
    "weighted sum": (lambda x: 0.7 * x[:, 0] + 0.3 * x[:, 2]),
    "weighted difference in another order": (lambda x: (0.2 * x[:, 1] - x[:, 2])[PERM]),
    "sum": (lambda x: x.sum(1)),
    "einsum over views": (lambda x: (x * torch.tensor([0.5, -0.2, 0.7])[:, None]).sum(1)),
}


@pytest.mark.parametrize("name", COMBINATIONS)
def test_linear_combinations_of_logits_have_that_combination_of_features(name):
    combine = COMBINATIONS[name]
    model, x, labels = Views(), torch.randn(24, 3, 6), torch.arange(24) % 4
    logits = combine(model(x))
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = combine(model(x))
    expected = F.cross_entropy(logits, labels) + textbook(combine(model.embed(x)), labels)
    agrees(model, criterion(logits, labels), expected)


class Reverse(torch.autograd.Function):
    """A function of a user that moves rows."""

    @staticmethod
    def forward(ctx, x):
        return x.flip(0)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.flip(0)


class Moved(Net):
    """A network that moves rows between its features and its classifier."""

    def __init__(self, move):
        super().__init__()
        self.norm, self.move = nn.BatchNorm1d(16), move

    def forward(self, images):
        return self.fc(self.move(self, self.features(images)))


INSIDE = {
    "a permutation": (lambda model, x: x[PERM], rows_as(PERM)),
    "a permutation and batch norm": (lambda model, x: model.norm(x[PERM]), rows_as(PERM)),
    "a function of the user": (lambda model, x: Reverse.apply(x), lambda rows: rows.flip(0)),
}


@pytest.mark.parametrize("name", INSIDE)
def test_what_moves_rows_between_a_deep_layer_and_the_logits_is_followed(name):
    torch.manual_seed(0)
    move, follow = INSIDE[name]
    model, (images, labels) = Moved(move), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, features="pool")
    logits = model(images)
    agrees(model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(follow(model.seen[0]), labels))


def test_rows_that_depend_on_all_samples_are_refused_and_the_advice_works():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)

    def centered():
        logits = model(images)
        return logits - logits.mean(0)

    says(lambda: criterion(centered(), labels), errors.FeatureError, ["several rows", "features="])
    advised = opl.regularize(nn.CrossEntropyLoss(), model, features=lambda output: model.seen[-1])
    logits = centered()
    expected = F.cross_entropy(logits, labels) + textbook(model.seen[-1], labels)
    agrees(model, advised(logits, labels), expected)


def test_a_repeated_row_is_refused_too():
    model, (images, labels) = Net(), data()
    for options in ({}, {"features": "pool"}):
        criterion = opl.regularize(nn.CrossEntropyLoss(), model, **options)
        logits = model(images)[[0, 2, *range(2, 24)]]
        says(lambda c=criterion, x=logits: c(x, labels), errors.FeatureError, ["several rows", "features="])


def test_classes_that_come_from_different_views_are_refused_and_the_advice_works():
    model, x, labels = Views(), torch.randn(24, 3, 6), torch.arange(24) % 4

    def mixed():
        logits = model(x)
        return torch.where(torch.arange(4) > 1, logits[:, 0], logits[:, 1])

    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    says(lambda: criterion(mixed(), labels), errors.FeatureError, ["several rows", "features="])
    advised = opl.regularize(nn.CrossEntropyLoss(), model, features=lambda output: model.embed(x)[:, 0])
    expected = F.cross_entropy(mixed(), labels) + textbook(model.embed(x)[:, 0], labels)
    agrees(model, advised(mixed(), labels), expected)


TARGETS = {
    "(B,) logits, float targets": ((), torch.float32),
    "(B, 1) logits, float targets": ((1,), torch.float32),
    "(B,) logits, double targets": ((), torch.float64),
    "(B, 1) logits, half targets": ((1,), torch.float16),
    "(B,) logits, integer targets": ((), torch.long),
    "(B, 1) logits, bool targets": ((1,), torch.bool),
}


@pytest.mark.parametrize("name", TARGETS)
def test_binary_targets_are_two_classes(name):
    shape, kind = TARGETS[name]
    torch.manual_seed(0)
    model, x, labels = (
        nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1)),
        torch.randn(24, 6),
        torch.arange(24) % 2,
    )

    def base(logits, target):
        return F.binary_cross_entropy_with_logits(logits.float(), target.float())

    criterion = opl.regularize(base, model)
    logits, target = model(x).reshape(24, *shape), labels.to(kind).reshape(24, *shape)
    agrees(model, criterion(logits, target), base(logits, target) + textbook(model[:2](x), labels))


def test_a_difference_of_two_logits_is_a_binary_logit():
    torch.manual_seed(0)
    model, x, labels = (
        nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)),
        torch.randn(24, 6),
        torch.arange(24) % 2,
    )
    criterion = opl.regularize(nn.BCEWithLogitsLoss(), model)
    output = model(x)
    logits = output[:, 0] - output[:, 1]
    expected = F.binary_cross_entropy_with_logits(logits, labels.float()) + textbook(model[:2](x), labels)
    agrees(model, criterion(logits, labels.float()), expected)


@pytest.mark.parametrize("kind", ["one-hot integers", "one-hot floats", "a channel of one"])
def test_one_hot_maps_are_classes_of_pixels(kind):
    """As losses of Dice and cross-entropy take them."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1)), torch.randn(3, 3, 6, 6)
    ids = torch.randint(0, 4, (3, 6, 6))
    one_hot = F.one_hot(ids, 4).movedim(-1, 1)
    target = {"one-hot integers": one_hot, "one-hot floats": one_hot.float(), "a channel of one": ids[:, None]}[kind]

    def base(logits, _):
        return F.cross_entropy(logits, ids)

    criterion = opl.regularize(base, model)
    logits = model(x)
    rows = model[:2](x).movedim(1, -1).reshape(-1, 8)
    agrees(model, criterion(logits, target), base(logits, target) + textbook(rows, ids.reshape(-1)))


def test_halves_that_are_written_into_one_tensor():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = torch.zeros(24, 4)
    logits[1::2], logits[::2] = model(images[:12]), model(images[12:])
    rows = torch.stack([model.seen[1], model.seen[0]], 1).flatten(0, 1)
    agrees(model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(rows, labels))


def test_a_compiled_part_between_a_deep_layer_and_the_logits_is_followed_or_refused():
    torch._dynamo.reset()
    reverse = torch.compile(lambda x: (2 * x).flip(0), backend="aot_eager")
    model, (images, labels) = Moved(lambda model, x: reverse(x)), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, features="pool")
    logits = model(images)
    try:
        loss = criterion(logits, labels)
    except errors.FeatureError as error:
        message = str(error)
        assert "features=lambda output" in message
    else:
        agrees(model, loss, F.cross_entropy(logits, labels) + textbook(model.seen[0].flip(0), labels))
