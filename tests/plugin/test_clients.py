"""The line in other people's code: the features behind the logits vs the textbook, value and gradient.

Every client is a row of the table in docs/loss.md. A client calls a model in its way and returns the model, the loss of
`opl.regularize`, and the base loss plus the textbook's loss of features that the client takes out of the model itself.
"""

import copy
import functools
import pickle
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import opl
from _small_cnn import Net, SmallCNN, data, hooked, transformer
from _textbook import agrees, textbook

CLIENTS = {}
DOCS = Path(__file__).parents[2] / "docs" / "loss.md"
CE = nn.CrossEntropyLoss


def client(function):
    CLIENTS[function.__name__.replace("_", " ")] = function
    return function


def family(makers):
    """Add a client for each entry of a dict of functions."""

    def add(run):
        for name, make in makers.items():
            CLIENTS[name] = functools.partial(run, make)
        return run

    return add


def answer(model, criterion, logits, labels, features):
    """What a client returns whose base loss is cross-entropy."""
    return model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(features, labels)


# ------------------------------------------------------------------------------------------------ base criteria


BASES = {
    "nn.CrossEntropyLoss": lambda: (CE(), lambda y: y),
    "label smoothing": lambda: (CE(label_smoothing=0.2), lambda y: y),
    "class weights": lambda: (CE(torch.tensor([1.0, 2.0, 3.0, 4.0])), lambda y: y),
    "F.cross_entropy": lambda: (F.cross_entropy, lambda y: y),
    "functools.partial": lambda: (functools.partial(F.cross_entropy, label_smoothing=0.1), lambda y: y),
    "a lambda": lambda: (lambda logits, target: F.cross_entropy(logits, target) * 2, lambda y: y),
    "nn.MultiMarginLoss": lambda: (nn.MultiMarginLoss(), lambda y: y),
    "a log-softmax inside the criterion": lambda: (lambda x, y: F.nll_loss(x.log_softmax(1), y), lambda y: y),
    "focal loss": lambda: (opl.losses.FocalLoss(), lambda y: y),
    "soft targets": lambda: (CE(), lambda y: F.one_hot(y, 4).float()),
    "soft targets by KL divergence": lambda: (
        lambda x, y: F.kl_div(x.log_softmax(1), y, reduction="batchmean"), lambda y: F.one_hot(y, 4).float(),
    ),
    "one-hot integers": lambda: (lambda x, y: F.cross_entropy(x, y.float()), lambda y: F.one_hot(y, 4)),
    "labels of shape (B, 1)": lambda: (lambda x, y: F.cross_entropy(x, y[:, 0]), lambda y: y[:, None]),
    "labels of another integer type": lambda: (lambda x, y: F.cross_entropy(x, y.long()), lambda y: y.int()),
}  # fmt: skip


@family(BASES)
def by_base(make):
    (base, target_of), model, (images, labels) = make(), Net(), data()
    criterion = opl.regularize(base, model)
    logits, target = model(images), target_of(labels)
    return model, criterion(logits, target), base(logits, target) + textbook(model.seen[0], labels)


@client
def arguments_by_name():
    model, (images, labels) = Net(), data()
    logits = model(images)
    criterion = opl.regularize(CE(), model)
    logits = model(images)
    loss = criterion(input=logits, target=labels)
    return model, loss, F.cross_entropy(logits, labels) + textbook(model.seen[-1], labels)


IGNORED = {
    "ignore index of the criterion": lambda: CE(ignore_index=255),
    "ignore index of a partial": lambda: functools.partial(F.cross_entropy, ignore_index=255),
}


@family(IGNORED)
def by_ignored_label(make):
    base, model, (images, labels) = make(), Net(), data()
    labels[::5] = 255
    criterion = opl.regularize(base, model)
    logits = model(images)
    expected = base(logits, labels) + textbook(model.seen[0], labels, ignore_index=255)
    return model, criterion(logits, labels), expected


BINARY = {
    "binary cross-entropy, logits (B,)": (lambda x: x[:, 0], lambda y: y.float()),
    "binary cross-entropy, logits (B, 1)": (lambda x: x, lambda y: y.float()[:, None]),
    "binary cross-entropy, integer labels": (lambda x: x[:, 0], lambda y: y),
    "binary cross-entropy after a sigmoid": (lambda x: x[:, 0].sigmoid().logit(), lambda y: y.float()),
}


@family(BINARY)
def by_binary(change):
    model, (images, labels) = Net(1), data(classes=2)
    base = lambda x, y: F.binary_cross_entropy_with_logits(x, y.to(x.dtype))  # noqa: E731
    criterion = opl.regularize(base, model)
    logits, target = change[0](model(images)), change[1](labels)
    return model, criterion(logits, target), base(logits, target) + textbook(model.seen[0], labels)


@client
def several_labels_per_sample():
    """Multi-label targets: the same-class weight of a pair is the cosine of its label rows."""
    model, (images, _) = Net(), data()
    target = (torch.rand(24, 4) > 0.5).float()
    criterion = opl.regularize(nn.BCEWithLogitsLoss(), model)
    logits = model(images)
    unit, rows = F.normalize(model.seen[0].double()), F.normalize(target.double())
    cosines, same, pairs = unit @ unit.T, rows @ rows.T, ~torch.eye(24, dtype=torch.bool)
    s = (same * cosines)[pairs].sum() / same[pairs].sum()
    d = ((1 - same) * cosines.abs())[pairs].sum() / (1 - same)[pairs].sum()
    return model, criterion(logits, target), F.binary_cross_entropy_with_logits(logits, target) + 1 - s + 0.5 * d


@client
def mixup_with_two_targets():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(CE(), model)
    logits, other = model(images), labels.roll(5)
    loss = 0.3 * criterion(logits, labels) + 0.7 * criterion(logits, other)
    first = F.cross_entropy(logits, labels) + textbook(model.seen[0], labels)
    return model, loss, 0.3 * first + 0.7 * (F.cross_entropy(logits, other) + textbook(model.seen[0], other))


@client
def a_loss_per_sample_with_weights():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(CE(reduction="none"), model)
    logits = model(images)
    expected = F.cross_entropy(logits, labels, reduction="sum") + textbook(model.seen[0], labels)
    return model, criterion(logits, labels).sum(), expected


@client
def a_target_dictionary():
    model, (images, labels) = Net(), data()
    base = lambda x, y: F.cross_entropy(x, y["ids"])  # noqa: E731
    criterion = opl.regularize(base, model, labels=lambda target: target["ids"])
    logits = model(images)
    return model, criterion(logits, {"ids": labels}), F.cross_entropy(logits, labels) + textbook(model.seen[0], labels)


@client
def pseudo_labels_for_OPL():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(CE(), model)
    logits = model(images)
    pseudo = logits.argmax(1)
    loss = criterion(logits, labels, opl_labels=pseudo)
    return model, loss, F.cross_entropy(logits, labels) + textbook(model.seen[0], pseudo)


# ------------------------------------------------------------------------------------------------ kinds of classifiers


class LowRank(nn.Module):
    """A head with an adapter, as of LoRA."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(16, 4).requires_grad_(False)
        self.down, self.up = nn.Linear(16, 2, bias=False), nn.Linear(2, 4, bias=False)

    def forward(self, x):
        return self.base(x) + 0.5 * self.up(self.down(x))


class Joined(nn.Module):
    """Heads of old and new classes on one input, as in class-incremental learning."""

    def __init__(self):
        super().__init__()
        self.old, self.new = nn.Linear(16, 2), nn.Linear(16, 2)

    def forward(self, x):
        return torch.cat([self.old(x), self.new(x)], 1)


class Scaled(nn.Linear):
    def forward(self, x):
        return super().forward(x) * self.weight.norm().exp()


HEADS = {
    "a linear head without bias": lambda: nn.Linear(16, 4, bias=False),
    "a frozen head": lambda: nn.Linear(16, 4).requires_grad_(False),
    "weight normalization": lambda: parametrizations.weight_norm(nn.Linear(16, 4)),
    "spectral normalization": lambda: parametrizations.spectral_norm(nn.Linear(16, 4)).eval(),
    "an orthogonal head": lambda: parametrizations.orthogonal(nn.Linear(16, 4)),
    "a subclass of nn.Linear": lambda: Scaled(16, 4),
    "a lazy linear head": lambda: nn.LazyLinear(4),
    "opl.heads.LinearHead": lambda: opl.heads.LinearHead(16, num_classes=4),
    "opl.heads.ArcFaceHead": lambda: opl.heads.ArcFaceHead(16, num_classes=4),
    "opl.heads.CosFaceHead": lambda: opl.heads.CosFaceHead(16, num_classes=4),
    "a 1 x 1 convolution": lambda: nn.Sequential(nn.Unflatten(1, (16, 1, 1)), nn.Conv2d(16, 4, 1), nn.Flatten()),
    "a convolution of size 1": lambda: nn.Sequential(nn.Unflatten(1, (16, 1)), nn.Conv1d(16, 4, 1), nn.Flatten()),
    "heads joined along classes": Joined,
    "a low-rank adapter beside the head": LowRank,
}


@family(HEADS)
def by_head(make):
    model, (images, labels) = Net(), data()
    model.fc = make()
    model(images)
    criterion = opl.regularize(CE(), model)
    logits = model(images)
    return answer(model, criterion, logits, labels, model.seen[-1])


BEFORE = {
    "dropout before the head": lambda: (nn.Dropout(0.5), nn.Linear(16, 4)),
    "batch norm before the head": lambda: (nn.BatchNorm1d(16), nn.Linear(16, 4)),
    "layer norm before the head": lambda: (nn.LayerNorm(16), nn.Linear(16, 4)),
    "a hidden layer before the head": lambda: (nn.Linear(16, 12), nn.GELU(), nn.Linear(12, 4)),
    "features that are normalized": lambda: (Normalize(), nn.Linear(16, 4)),
    "log-softmax after the head": lambda: (nn.Linear(16, 4), nn.LogSoftmax(1)),
    "a temperature after the head": lambda: (nn.Linear(16, 4), Temperature()),
}


class Normalize(nn.Module):
    def forward(self, x):
        return F.normalize(x)


class Temperature(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        return x * self.scale.exp()


@family(BEFORE)
def by_last_layers(make):
    model, (images, labels) = Net(), data()
    model.fc = nn.Sequential(*make())
    seen = hooked([layer for layer in model.fc if isinstance(layer, nn.Linear)][-1])
    criterion = opl.regularize(CE(), model)
    logits = model(images)
    return answer(model, criterion, logits, labels, seen[-1])


# ------------------------------------------------------------------------------------------------ architectures


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.body, self.fc = kind(6, 10, batch_first=True), nn.Linear(10, 4)

    def forward(self, x):
        return self.fc(self.body(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self, batch_first, pool):
        super().__init__()
        layer = nn.TransformerEncoderLayer(6, 2, 12, 0.0, batch_first=batch_first)
        self.body, self.fc, self.first, self.pool = nn.TransformerEncoder(layer, 1), nn.Linear(6, 4), batch_first, pool

    def forward(self, x):
        x = self.body(x if self.first else x.transpose(0, 1))
        x = x if self.first else x.transpose(0, 1)
        return self.fc(x.mean(1)) if self.pool == "before" else self.fc(x).mean(1)


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.fc = nn.Linear(30, 8), nn.Linear(38, 8), nn.Linear(46, 4)

    def forward(self, x):
        x = x.flatten(1)
        x = torch.cat([x, self.one(x).relu()], 1)
        return self.fc(torch.cat([x, self.two(x).relu()], 1))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.block = nn.Linear(30, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.norm, self.fc = nn.BatchNorm1d(8), nn.Linear(8, 4)

    def forward(self, x):
        x = self.stem(x.flatten(1)).relu()
        return self.fc(self.norm(x + self.block(x)))


class Experts(nn.Module):
    """A gate mixes the features of two experts."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(30, 8) for _ in range(2))
        self.gate, self.fc = nn.Linear(30, 2), nn.Linear(8, 4)

    def forward(self, x):
        x = x.flatten(1)
        gates = self.gate(x).softmax(1)
        return self.fc(sum(gates[:, i, None] * expert(x).relu() for i, expert in enumerate(self.experts)))


class Squeeze(nn.Module):
    """Squeeze and excitation: the last registered linear layer is not the classifier."""

    def __init__(self):
        super().__init__()
        self.body, self.fc, self.gate = nn.Linear(30, 8), nn.Linear(8, 4), nn.Linear(8, 8)

    def forward(self, x):
        x = self.body(x.flatten(1)).relu()
        return self.fc(x * self.gate(x).sigmoid())


class Graph(nn.Module):
    """A graph network: rows are mixed by an adjacency matrix before the classifier."""

    def __init__(self):
        super().__init__()
        self.body, self.fc = nn.Linear(30, 8), nn.Linear(8, 4)

    def forward(self, x):
        adjacency = torch.eye(len(x)).roll(1, 0) + torch.eye(len(x))
        return self.fc((adjacency @ self.body(x.flatten(1))).relu())


class Decoder(nn.Module):
    """A classifier beside a decoder."""

    def __init__(self):
        super().__init__()
        self.body, self.fc, self.back = nn.Linear(30, 8), nn.Linear(8, 4), nn.Linear(8, 30)

    def forward(self, x):
        x = self.body(x.flatten(1)).relu()
        return self.fc(x), self.back(x)


ARCHITECTURES = {
    "a perceptron": lambda: Wrap(nn.Sequential(nn.Flatten(), nn.Linear(30, 8), nn.ReLU()), nn.Linear(8, 4)),
    "logistic regression on embeddings": lambda: Wrap(nn.Sequential(nn.Flatten(), nn.Linear(30, 8)), nn.Linear(8, 4)),
    "an LSTM": lambda: Recurrent(nn.LSTM),
    "a GRU": lambda: Recurrent(nn.GRU),
    "an Elman network": lambda: Recurrent(nn.RNN),
    "a transformer, batch first": lambda: Attention(True, "before"),
    "a transformer, tokens first": lambda: Attention(False, "before"),
    "a transformer whose logits are averaged": lambda: Attention(True, "after"),
    "a one-dimensional convolution": lambda: Wrap(
        nn.Sequential(nn.Conv1d(5, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()), nn.Linear(8, 4)
    ),
    "dense connections": Dense,
    "residual connections with batch norm": Residual,
    "a mixture of experts": Experts,
    "squeeze and excitation": Squeeze,
    "a graph network": Graph,
    "an autoencoder with a classifier": Decoder,
}


class Wrap(nn.Module):
    def __init__(self, body, head):
        super().__init__()
        self.body, self.fc = body, head

    def forward(self, x):
        return self.fc(self.body(x))


@family(ARCHITECTURES)
def by_architecture(make):
    model, x, labels = make(), torch.randn(24, 5, 6), torch.arange(24) % 4
    seen = hooked(model.fc)
    criterion = opl.regularize(CE(), model)
    output = model(x)
    logits = output[0] if isinstance(output, tuple) else output
    features = seen[-1] if seen[-1].ndim == 2 else seen[-1].mean(1)
    return model, criterion(output, labels), F.cross_entropy(logits, labels) + textbook(features, labels)


PIXELS = {
    "a fully convolutional network": (lambda x: x, (3, 4, 6, 6)),
    "a volume": (lambda x: x, (2, 4, 3, 3, 3)),
    "a sequence with classes second": (lambda x: x, (4, 4, 6)),
    "pixels that are classified and then averaged": (lambda x: x.flatten(2).mean(2), (12, 4, 3, 3)),
    "pixels that are flattened": (lambda x: x.flatten(2).transpose(1, 2).reshape(-1, 4), (3, 4, 4, 4)),
}


@family(PIXELS)
def by_pixel(case):
    change, shape = case
    kinds = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}
    model = nn.Sequential(kinds[len(shape)](3, 8, 3, padding=1), nn.ReLU(), kinds[len(shape)](8, 4, 1))
    x = torch.randn(shape[0], 3, *shape[2:])
    seen = hooked(model[2])
    criterion = opl.regularize(CE(), model)
    logits = change(model(x))
    rows = (
        seen[0].flatten(2).mean(2) if len(logits) == 12 and logits.ndim == 2 else seen[0].movedim(1, -1).reshape(-1, 8)
    )
    target = torch.arange(len(rows)) % 4
    target = target if logits.ndim == 2 else target.view(len(logits), *logits.shape[2:])
    return model, criterion(logits, target), F.cross_entropy(logits, target) + textbook(rows, target.reshape(-1))


# ------------------------------------------------------------------------------------------------ training loops


class TwoHeads(Net):
    def __init__(self):
        super().__init__()
        self.early = nn.Linear(8, 4)

    def forward(self, images):
        x = self.body[:2](images)
        self.seen += [x.mean((2, 3)), self.pool(self.body[2:](x)).flatten(1)]
        return self.fc(self.seen[1]), self.early(self.seen[0])


@client
def two_heads_the_first():
    model, (images, labels) = TwoHeads(), data()
    criterion = opl.regularize(CE(), model)
    logits, _ = model(images)
    return answer(model, criterion, logits, labels, model.seen[1])


@client
def two_heads_both():
    model, (images, labels) = TwoHeads(), data()
    criterion = opl.regularize(CE(), model)
    one, two = model(images)
    loss = criterion(one, labels) + 0.4 * criterion(two, labels)
    first, second = (F.cross_entropy(logits, labels) for logits in (one, two))
    return model, loss, first + textbook(model.seen[1], labels) + 0.4 * (second + textbook(model.seen[0], labels))


def silently(forward, x):
    with torch.no_grad():
        forward(x)


INTERLEAVED = torch.arange(24).view(3, 8).T.reshape(-1)  # as MixMatch does for batch norm
PASSES = {  # how the logits are made, and which features are behind them
    "two passes before the criterion": (lambda m, x: (m(x), m(x.flip(3) * 2))[0], lambda seen: seen[0]),
    "crops with concatenated logits": (lambda m, x: torch.cat([m(x), m(x * 2)]), torch.cat),
    "crops with averaged logits": (lambda m, x: (m(x) + m(x * 2)) / 2, lambda seen: sum(seen) / 2),
    "labeled rows of a mixed batch": (lambda m, x: m(x)[:16], lambda seen: seen[0][:16]),
    "interleaved batches": (
        lambda m, x: m(x[INTERLEAVED])[INTERLEAVED.argsort()], lambda seen: seen[0][INTERLEAVED.argsort()],
    ),
    "a pass without gradients in between": (lambda m, x: (m(x), silently(m, x * 3))[0], lambda seen: seen[0]),
    "functional call": (
        lambda m, x: torch.func.functional_call(m, dict(m.named_parameters()), (x,)), lambda seen: seen[0],
    ),
}  # fmt: skip


@family(PASSES)
def by_passes(case):
    forward, features_of = case
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(CE(), model)
    logits = forward(model, images)
    return answer(model, criterion, logits, labels.repeat(2)[: len(logits)], features_of(model.seen))


COPIES = {
    "a copied model with its criterion": copy.deepcopy,
    "a pickled model with its criterion": lambda pair: pickle.loads(pickle.dumps(pair)),
}


@family(COPIES)
def by_copy(clone):
    model, (images, labels) = Net(), data()
    model, criterion = clone((model, opl.regularize(CE(), model)))
    logits = model(images)
    return answer(model, criterion, logits, labels, model.seen[-1])


@client
def two_passes_each_with_its_labels():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(CE(), model)
    one, two = model(images), model(images * 2)
    other = labels.roll(1)
    loss = criterion(two, other) + criterion(one, labels)
    expected = F.cross_entropy(one, labels) + textbook(model.seen[0], labels)
    return model, loss, expected + F.cross_entropy(two, other) + textbook(model.seen[1], other)


@client
def distillation_from_a_copy():
    model, (images, labels) = Net(), data()
    teacher = copy.deepcopy(model)
    criterion = opl.regularize(CE(), model)
    logits = model(images)
    with torch.no_grad():
        soft = teacher(images).softmax(1)
    match = F.kl_div(logits.log_softmax(1), soft, reduction="batchmean")
    return (
        model,
        criterion(logits, labels) + match,
        F.cross_entropy(logits, labels) + match + textbook(model.seen[0], labels),
    )


@client
def adversarial_training():
    """The attack runs in evaluation mode with gradients; its loss is the base criterion's."""
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(CE(), model)
    attacked = images.clone().requires_grad_()
    loss = criterion(model.eval()(attacked), labels)
    assert criterion.last.projection is None
    attacked = images + 0.1 * torch.autograd.grad(loss, attacked)[0].sign()
    logits = model.train()(attacked)
    return answer(model, criterion, logits, labels, model.seen[-1])


@client
def a_closure_that_is_called_twice():
    """As for L-BFGS and SAM."""
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(CE(), model)
    criterion(model(images), labels).backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.05 * weight.grad
    model.zero_grad()
    logits = model(images)
    return answer(model, criterion, logits, labels, model.seen[-1])


@client
def a_criterion_that_is_made_anew_each_step():
    model, (images, labels) = Net(), data()
    for _ in range(3):
        logits = model(images)
        criterion = opl.regularize(CE(), model)
        logits = model(images)
        loss = criterion(logits, labels)
    return model, loss, F.cross_entropy(logits, labels) + textbook(model.seen[-1], labels)


@client
def a_layer_called_by_keyword():
    class Keyword(Net):
        def forward(self, images):
            return self.fc(input=self.features(images))

    model, (images, labels) = Keyword(), data()
    criterion = opl.regularize(CE(), model)
    logits = model(images)
    return answer(model, criterion, logits, labels, model.seen[0])


OUTPUTS = {
    "an output with .logits": lambda logits: type("Output", (), {"logits": logits})(),
    "a dictionary with logits": lambda logits: {"logits": logits, "loss": None},
    "a tuple that begins with logits": lambda logits: (logits, None),
}


@family(OUTPUTS)
def by_output(wrap):
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(CE(), model)
    logits = model(images)
    return model, criterion(wrap(logits), labels), F.cross_entropy(logits, labels) + textbook(model.seen[0], labels)


NAMED = {
    "the output of a named layer": {"features": "pool"},
    "the output of a named layer, averaged": {"features": "body", "pool": "mean"},
    "the input of a named layer": {"layer": "pool", "pool": "mean"},
    "the input of the named classifier": {"layer": "fc"},
    "a function of the output": {"features": lambda output: output["hidden"]},
}


@family(NAMED)
def by_name(options):
    class Both(Net):
        def forward(self, images):
            x = self.features(images)
            return {"logits": self.fc(x), "hidden": x * 2}

    model, (images, labels) = Both(), data()
    criterion = opl.regularize(CE(), model, **options)
    output, _ = model(images), model(images * 2)
    return model, criterion(output, labels), F.cross_entropy(output["logits"], labels) + textbook(model.seen[0], labels)


CHECKPOINTS = {
    "a checkpoint around the model": lambda model, x: checkpoint(model, x, use_reentrant=False),
    "a checkpoint around the body": lambda model, x: model.fc(checkpoint(model.embed, x, use_reentrant=False)),
    "checkpoint_sequential": lambda model, x: model.fc(
        model.pool(checkpoint_sequential(model.body, 2, x, use_reentrant=False)).flatten(1)
    ),
}


@family(CHECKPOINTS)
def by_checkpoint(forward):
    model, (images, labels) = SmallCNN(), data()
    criterion = opl.regularize(CE(), model)
    loss = criterion(forward(model, images), labels)
    return model, loss, F.cross_entropy(model(images), labels) + textbook(model.embed(images), labels)


COMPILED = {
    "torch.compile": lambda forward, x: forward(x),
    "torch.compile, then rows in another order": lambda forward, x: forward(x).flip(0),
    "torch.compile, after a pass without gradients": lambda forward, x: (silently(forward, x * 2), forward(x))[1],
    "torch.compile, the last of two passes": lambda forward, x: (forward(x * 2), forward(x))[1],
}


@family(COMPILED)
def by_compiler(call):
    torch._dynamo.reset()
    model, (images, labels) = SmallCNN(), data()
    criterion = opl.regularize(CE(), model)
    logits = call(torch.compile(model, backend="aot_eager"), images)
    features = model.embed(images)
    same = torch.allclose(logits, model(images), atol=1e-6)
    return answer(model, criterion, logits, labels, features if same else features.flip(0))


PRECISIONS = {
    "double precision": lambda model, x: model.double()(x.double()),
    "bfloat16 weights": lambda model, x: model.bfloat16()(x.bfloat16()),
    "bfloat16 by autocast": lambda model, x: under_autocast(model, x),
    "channels_last": lambda model, x: model.to(memory_format=torch.channels_last)(
        x.to(memory_format=torch.channels_last)
    ),
}


def under_autocast(model, x):
    with torch.autocast("cpu", torch.bfloat16):
        return model(x)


@family(PRECISIONS)
def by_precision(call):
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(CE(), model)
    logits = call(model, images)
    return answer(model, criterion, logits, labels, model.seen[0].float())


@client
def replicas_whose_outputs_are_gathered():
    """What DataParallel does on several devices: shallow copies of the modules, and their outputs joined."""
    model, (images, labels) = SmallCNN(), data()
    criterion = opl.regularize(CE(), model)
    replicas = [model._replicate_for_data_parallel() for _ in range(2)]
    for replica in replicas:
        replica._modules = {name: part._replicate_for_data_parallel() for name, part in model._modules.items()}
        replica.fc._parameters = dict(model.fc._parameters)
        replica.fc.weight, replica.fc.bias = model.fc.weight, model.fc.bias
        replica._modules["body"] = model.body
    logits = torch.cat([replica(part) for replica, part in zip(replicas, images.chunk(2), strict=True)])
    return (
        model,
        criterion(logits, labels),
        F.cross_entropy(model(images), labels) + textbook(model.embed(images), labels),
    )


@client
def an_averaged_model_in_validation():
    """As of stochastic weight averaging."""
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(CE(), model)
    average = torch.optim.swa_utils.AveragedModel(model)
    with torch.no_grad():
        assert criterion(average(images), labels) == F.cross_entropy(average(images), labels)
    logits = model(images)
    return answer(model, criterion, logits, labels, model.seen[-1])


@client
def quantization_aware_training():
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 8), nn.ReLU(), nn.Linear(8, 4))
    images, labels = data()
    model.qconfig = torch.ao.quantization.get_default_qat_qconfig("fbgemm")
    torch.ao.quantization.prepare_qat(model.train(), inplace=True)
    seen = hooked(model[3])
    criterion = opl.regularize(CE(), model)
    logits = model(images)
    return answer(model, criterion, logits, labels, seen[0])


@client
def a_head_that_grows():
    """Class-incremental learning: the head is replaced, and the criterion made anew."""
    model, (images, labels) = Net(2), data()
    criterion = opl.regularize(CE(), model)
    criterion(model(images), labels % 2)
    old, model.fc = model.fc, nn.Linear(16, 4)
    with torch.no_grad():
        model.fc.weight[:2] = old.weight
    criterion = opl.regularize(CE(), model)
    logits = model(images)
    return answer(model, criterion, logits, labels, model.seen[-1])


@client
def a_head_per_task():
    model, (images, labels) = Net(), data()
    model.heads = nn.ModuleList(nn.Linear(16, 4) for _ in range(3))
    criterion = opl.regularize(CE(), model)
    for head in model.heads:
        for _ in range(10):
            logits = head(model.features(images))
            loss = criterion(logits, labels)
    return model, loss, F.cross_entropy(logits, labels) + textbook(model.seen[-1], labels)


# ------------------------------------------------------------------------------------------------ recipes of the docs


@client
def several_views_per_sample():
    """(B, V, D) features are B * V rows, each with the label of its sample."""
    model, x, labels = (
        nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)),
        torch.randn(12, 3, 6),
        torch.arange(12) % 4,
    )
    criterion = opl.regularize(CE(), model)
    logits, labels = model(x).flatten(0, 1), labels.repeat_interleave(3)
    rows = model[:2](x).flatten(0, 1)
    return answer(model, criterion, logits, labels, rows)


@client
def several_layers_at_once():
    model, (images, labels) = Net(), data()
    inner = opl.regularize(CE(), model)
    criterion = opl.regularize(inner, model, features="body", pool=lambda x: x.amax((2, 3)), weight=0.5)
    logits = model(images)
    maps = model.body(images).amax((2, 3))
    expected = F.cross_entropy(logits, labels) + textbook(model.seen[0], labels) + 0.5 * textbook(maps, labels)
    return model, criterion(logits, labels), expected


@client
def a_projector_between_features_and_loss():
    model, (images, labels) = Net(), data()
    model.projector = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8))
    with opl.FeatureTap(model, "fc") as tap:
        criterion = opl.regularize(CE(), model, features=lambda output: model.projector(tap.features))
        logits = model(images)
        loss = criterion(logits, labels)
    return model, loss, F.cross_entropy(logits, labels) + textbook(model.projector(model.seen[0]), labels)


@client
def self_supervision_by_instances():
    """Two views of an image are one class; there is no base loss."""
    model, (images, _) = Net(), data()
    instances = torch.arange(24).repeat(2)
    criterion = opl.regularize(lambda output, target: 0 * output.sum(), model, features=lambda output: output)
    output = model(torch.cat([images, images.flip(3)]))
    return model, criterion(output, instances), textbook(output, instances)


# ------------------------------------------------------------------------------------------------ libraries


SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
TEXT = {**SIZES, "vocab_size": 50, "pad_token_id": 0}
IMAGE = {"image_size": 32, "patch_size": 16}
LIBRARY = {
    "transformers ViT": ("ViTForImageClassification", "ViTConfig", False, {**SIZES, **IMAGE}),
    "transformers DeiT": ("DeiTForImageClassification", "DeiTConfig", False, {**SIZES, **IMAGE}),
    "transformers BEiT": ("BeitForImageClassification", "BeitConfig", False, {**SIZES, **IMAGE}),
    "transformers DINOv2": ("Dinov2ForImageClassification", "Dinov2Config", False, {**SIZES, **IMAGE}),
    "transformers SigLIP": (
        "SiglipForImageClassification", "SiglipConfig", False,
        {"vision_config": {**SIZES, **IMAGE}, "text_config": {**SIZES, "vocab_size": 50}},
    ),
    "transformers CLIP": (
        "CLIPForImageClassification", "CLIPConfig", False, {"vision_config": {**SIZES, **IMAGE}, "text_config": SIZES},
    ),
    "transformers Swin": (
        "SwinForImageClassification", "SwinConfig", False,
        {"image_size": 32, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 2},
    ),
    "transformers ConvNeXt": (
        "ConvNextForImageClassification", "ConvNextConfig", False,
        {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    ),
    "transformers ResNet": (
        "ResNetForImageClassification", "ResNetConfig", False,
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
    ),
    "transformers RegNet": (
        "RegNetForImageClassification", "RegNetConfig", False,
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 8},
    ),
    "transformers MobileNetV2": (
        "MobileNetV2ForImageClassification", "MobileNetV2Config", False,
        {"image_size": 32, "depth_multiplier": 0.25, "classifier_dropout_prob": 0.0},
    ),
    "transformers BERT": ("BertForSequenceClassification", "BertConfig", True, TEXT),
    "transformers RoBERTa": ("RobertaForSequenceClassification", "RobertaConfig", True, TEXT),
    "transformers ALBERT": ("AlbertForSequenceClassification", "AlbertConfig", True, {**TEXT, "embedding_size": 8}),
    "transformers ELECTRA": ("ElectraForSequenceClassification", "ElectraConfig", True, {**TEXT, "embedding_size": 8}),
    "transformers MPNet": ("MPNetForSequenceClassification", "MPNetConfig", True, TEXT),
    "transformers DistilBERT": (
        "DistilBertForSequenceClassification", "DistilBertConfig", True,
        {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16, "vocab_size": 50},
    ),
    "transformers GPT-2": (
        "GPT2ForSequenceClassification", "GPT2Config", True,
        {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 50, "n_positions": 16, "pad_token_id": 0},
    ),
    "transformers Llama": ("LlamaForSequenceClassification", "LlamaConfig", True, TEXT),
    "transformers Qwen2": ("Qwen2ForSequenceClassification", "Qwen2Config", True, {**TEXT, "num_key_value_heads": 2}),
}  # fmt: skip
TOKENS = torch.randint(1, 50, (9, 6), generator=torch.Generator().manual_seed(1))


@family(LIBRARY)
def by_transformers(case, checkpointing=False):
    kind, config, takes_text, settings = case
    model = transformer(kind, config, **settings)
    if checkpointing:
        if not model.supports_gradient_checkpointing:
            pytest.skip(f"{kind} has no checkpointing")
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    head = [layer for layer in model.modules() if isinstance(layer, nn.Linear)][-1]
    head = getattr(model, "score", head)
    seen = hooked(head)
    criterion = opl.regularize(CE(), model)
    output = model(input_ids=TOKENS) if takes_text else model(torch.randn(9, 3, 32, 32))
    labels = torch.arange(9) % 3
    features = seen[0][:, -1] if hasattr(model, "score") else seen[0].flatten(1)
    return model, criterion(output, labels), F.cross_entropy(output.logits, labels) + textbook(features, labels)


def imported(name, package):
    return pytest.importorskip(name, reason=f"{package} is not installed")


def with_adapter(model):
    peft = imported("peft", "peft")
    return peft.get_peft_model(model, peft.LoraConfig(target_modules=["fc"]))


WRAPPERS = {
    "DataParallel": nn.DataParallel,
    "accelerate": lambda model: imported("accelerate", "accelerate").Accelerator(cpu=True).prepare(model),
    "lightning fabric": lambda model: (
        imported("lightning_fabric", "lightning-fabric").Fabric(accelerator="cpu", devices=1).setup_module(model)
    ),
    "PEFT LoRA": with_adapter,
}


@family(WRAPPERS)
def by_wrapper(wrap):
    model, (images, labels) = Net(), data()
    wrapped = wrap(model)
    criterion = opl.regularize(CE(), wrapped)
    logits = wrapped(images)
    return answer(model, criterion, logits, labels, model.seen[-1])


RESNETS = {
    "timm ResNet": lambda: imported("timm", "timm").create_model("resnet18", num_classes=4),
    "torchvision ResNet": lambda: imported("torchvision.models", "torchvision").resnet18(num_classes=4),
}


@family(RESNETS)
def by_resnet(make):
    model, images, labels = make(), torch.randn(8, 3, 32, 32), torch.arange(8) % 4
    seen = hooked(model.fc)
    criterion = opl.regularize(CE(), model)
    logits = model(images)
    return answer(model, criterion, logits, labels, seen[0])


METRIC_LOSSES = {
    "pytorch metric learning ArcFaceLoss": lambda losses: losses.ArcFaceLoss(num_classes=4, embedding_size=4),
    "pytorch metric learning TripletMarginLoss": lambda losses: losses.TripletMarginLoss(),
}


@family(METRIC_LOSSES)
def by_metric_learning(make):
    base = make(imported("pytorch_metric_learning.losses", "pytorch-metric-learning"))
    model, (images, labels) = SmallCNN(), data()
    criterion = opl.regularize(base, model, features=lambda output: output)
    output = model(images)
    return model, criterion(output, labels), base(output, labels) + textbook(output, labels)


@client
def ignite():
    library = imported("ignite.engine", "pytorch-ignite")
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(CE(), model)
    trainer = library.create_supervised_trainer(model, torch.optim.SGD(model.parameters(), 0.0), criterion)
    trainer.run([(images, labels)], max_epochs=1)
    logits = model(images)
    return answer(model, criterion, logits, labels, model.seen[-1])


# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "error::opl.errors.OplWarning")
def test_value_and_gradients_are_the_textbooks(name):
    torch.manual_seed(0)
    agrees(*CLIENTS[name](), tolerance=0.02 if "bfloat16" in name else 1e-5)


def test_the_table_in_the_docs_lists_every_client():
    rows = re.findall(r"^\| (?!client)([^|-][^|]*?) \|", DOCS.read_text().split("## Clients")[1], re.MULTILINE)
    assert sorted(rows) == sorted(CLIENTS)


@pytest.mark.parametrize("name", LIBRARY)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_gradient_checkpointing_changes_nothing(name):
    torch.manual_seed(0)
    agrees(*by_transformers(LIBRARY[name], checkpointing=True))
