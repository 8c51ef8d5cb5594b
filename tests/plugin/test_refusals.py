"""Where the features behind some logits cannot be found, one sentence gives the cause and a cure that works."""

import copy
import functools

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import opl
from _said import says
from _small_cnn import Net, SmallCNN, data
from _textbook import agrees, textbook
from opl import errors

BASE = nn.CrossEntropyLoss()
IMAGES, LABELS = data()
TOKENS, TOKEN_LABELS = torch.randint(0, 9, (4, 5)), torch.tensor([0, 1, 2, 0])


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.classify = nn.Embedding(9, 6), nn.Linear(6, 4)

    def forward(self, tokens):
        return self.classify(self.embed(tokens).tanh())


class Head(Net):
    """A network whose logits are a function of its features and its linear layer."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, images):
        return self.function(self, self.features(images))


class ConvHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()), nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, images):
        return self.head(self.body(images))


class Twice(Net):
    """Two linear layers with different inputs, added."""

    def __init__(self):
        super().__init__()
        self.more = nn.Linear(16, 4)

    def forward(self, images):
        features = self.features(images)
        return self.fc(features) + self.more(features.tanh())


def expected(model, logits, labels=LABELS):
    return F.cross_entropy(logits, labels) + textbook(model.seen[-1], labels)


def check(model, criterion, forward=None):
    logits = model(IMAGES) if forward is None else forward(model)
    agrees(model, criterion(logits, LABELS), expected(model, logits))


def cure_head(function, parts, **options):
    """A head that is refused by default, and right with options."""

    def run():
        torch.manual_seed(0)
        model = Head(function)
        criterion = opl.regularize(BASE, model)
        says(lambda: criterion(model(IMAGES), LABELS), errors.TapError, parts)
        check(model, opl.regularize(BASE, model, **options))

    return run


def conv_head():
    model, labels, images = ConvHead(), torch.randint(0, 4, (2, 16, 16)), IMAGES[:2]
    criterion = opl.regularize(BASE, model, layer="head")  # no other layer could be the classifier
    with pytest.raises(errors.LayerError, match="layer="):
        opl.regularize(BASE, model)
    logits = model(images)
    rows = model.body(images).movedim(1, -1).reshape(-1, 8)
    agrees(model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(rows, labels.reshape(-1)), 1e-4)


def conv_head_beside_a_linear_layer():
    model, labels = ConvHead(), torch.randint(0, 4, (24, 16, 16))
    model.other = nn.Linear(2, 2)
    criterion = opl.regularize(BASE, model)
    model.other(torch.ones(1, 2))
    says(lambda: criterion(model(IMAGES), labels), errors.TapError, ["larger than 1 x 1", "layer="])


def transposed_head():
    model, labels, images = ConvHead(), torch.randint(0, 4, (2, 32, 32)), IMAGES[:2]
    model.head = nn.ConvTranspose2d(8, 4, 2, 2)
    criterion = opl.regularize(BASE, model, layer="head")
    says(lambda: criterion(model(images), labels), errors.FeatureError, ["512 rows", "2048 rows", "features='...'"])
    criterion = opl.regularize(BASE, model, features="body")
    logits, rows = model(images), model.body(images).movedim(1, -1).reshape(-1, 8)
    nearest = F.interpolate(labels[:, None].float(), (16, 16), mode="nearest-exact").long()
    expected = F.cross_entropy(logits, labels) + textbook(rows, nearest.reshape(-1))
    agrees(model, criterion(logits, labels), expected, 1e-4)


def two_inputs():
    model = Twice()
    criterion = opl.regularize(BASE, model)
    says(lambda: criterion(model(IMAGES), LABELS), errors.LayerError, ["'fc' and 'more'", "inputs differ", "layer="])
    check(model, opl.regularize(BASE, model, layer="fc"))


def reentrant():
    model = Net()
    criterion = opl.regularize(BASE, model)
    images = IMAGES.clone().requires_grad_()
    says(
        lambda: criterion(checkpoint(model, images, use_reentrant=True), LABELS),
        errors.TapError,
        ["re-entrant checkpoint", "use_reentrant=False"],
    )
    check(model, criterion, lambda m: checkpoint(m, images, use_reentrant=False))


def averaged_copy():
    """As of torch.optim.swa_utils.AveragedModel, or an exponential moving average."""
    model = Net()
    criterion = opl.regularize(BASE, model)
    check(model, criterion)
    model.seen.clear()
    average = torch.optim.swa_utils.AveragedModel(model)
    says(lambda: criterion(average(IMAGES), LABELS), errors.TapError, ["another model's", "averaged copy"])
    check(average.module, opl.regularize(BASE, average))
    with torch.no_grad():  # the usual way
        assert criterion(average(IMAGES), LABELS) == F.cross_entropy(average(IMAGES), LABELS)


def replaced_head():
    model = Net()
    criterion = opl.regularize(BASE, model)
    for _ in range(12):
        check(model, criterion)
    model.fc = nn.Linear(16, 4)
    says(lambda: criterion(model(IMAGES), LABELS), errors.TapError, ["new layer 'fc'", "call opl.regularize again"])
    check(model, opl.regularize(BASE, model))


def closed():
    model = Net()
    with opl.regularize(BASE, model) as criterion:
        pass
    says(lambda: criterion(model(IMAGES), LABELS), errors.TapError, ["closed", "call opl.regularize again"])
    check(model, opl.regularize(BASE, model))


def keras():
    class Dense(nn.Module):
        __module__ = "keras.src.models.model"

        def __init__(self):
            super().__init__()
            self.kernel, self.seen = nn.Parameter(torch.randn(768, 4)), []

        def forward(self, images):
            self.seen.append(images.flatten(1) @ self.kernel[:, :2].repeat(1, 2))
            return self.seen[-1]

    says(lambda: opl.regularize(BASE, Dense()), errors.LayerError, ["Keras", "features="])
    model = Dense()
    check(model, opl.regularize(BASE, model, features=lambda output: output))


def detached():
    model = Net()
    criterion = opl.regularize(BASE, model)
    says(lambda: criterion(model(IMAGES).detach(), LABELS), errors.TapError, ["no gradient", "criterion.eval()"])
    check(model, criterion)
    assert criterion.eval()(model(IMAGES).detach(), LABELS) == F.cross_entropy(model(IMAGES), LABELS)


def features_first():
    class Both(Net):
        def forward(self, images):
            features = self.features(images)
            return features, self.fc(features)

    model = Both()
    criterion = opl.regularize(BASE, model)
    says(lambda: criterion(model(IMAGES), LABELS), errors.TapError, ["element 1", "criterion(output[1], target)"])
    check(model, criterion, lambda m: m(IMAGES)[1])


def swapped():
    model = Net()
    criterion = opl.regularize(BASE, model)
    says(lambda: criterion(LABELS, model(IMAGES)), errors.OptionError, ["swapped", "criterion(output, target)"])
    check(model, criterion)


def swapped_model():
    model = Net()
    for base in (BASE, F.cross_entropy):
        says(lambda base=base: opl.regularize(model, base), errors.OptionError, ["regularize(criterion, model)"])
    check(model, opl.regularize(BASE, model))


def class_as_criterion():
    model = Net()
    says(lambda: opl.regularize(nn.CrossEntropyLoss, model), errors.OptionError, ["a class", "nn.CrossEntropyLoss()"])
    check(model, opl.regularize(nn.CrossEntropyLoss(), model))


def own_classifier():
    losses = pytest.importorskip("pytorch_metric_learning.losses", reason="pytorch-metric-learning is not installed")
    model = SmallCNN()
    base = losses.ArcFaceLoss(num_classes=4, embedding_size=4)
    says(lambda: opl.regularize(base, model), errors.OptionError, ["weights (W)", "features=lambda output: output"])
    criterion = opl.regularize(base, model, features=lambda output: output)
    output = model(IMAGES)
    agrees(model, criterion(output, LABELS), base(output, LABELS) + textbook(output, LABELS))


def opacus():
    class GradSampleModule(nn.Module):
        def __init__(self, module):
            super().__init__()
            self._module = module

    model = Net()
    says(lambda: opl.regularize(BASE, GradSampleModule(model)), errors.OptionError, ["Opacus", "per sample"])
    check(model, opl.regularize(BASE, model))


def vmapped():
    model = SmallCNN()
    criterion = opl.regularize(BASE, model)

    def loss(weights, image, label):
        return criterion(torch.func.functional_call(model, weights, (image[None],)), label[None])

    weights = dict(model.named_parameters())
    per_sample = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))
    says(lambda: per_sample(weights, IMAGES, LABELS), errors.OptionError, ["vmap", "whole batch"])
    assert criterion(model(IMAGES), LABELS) > F.cross_entropy(model(IMAGES), LABELS)


def unknown_ignored_label():
    model, labels = Net(), LABELS.clone()
    labels[::4] = 255
    base = lambda logits, target: F.cross_entropy(logits, target, ignore_index=255)  # noqa: E731
    says(
        lambda: opl.regularize(base, model)(model(IMAGES), labels),
        errors.LabelError,
        ["255", "4 classes", "ignore_index=255"],
    )
    logits = model(IMAGES)
    loss = opl.regularize(base, model, ignore_index=255)(logits, labels)
    agrees(model, loss, base(logits, labels) + textbook(model.seen[-1], labels, ignore_index=255))


def two_ignored_labels():
    base = nn.ModuleList([nn.CrossEntropyLoss(ignore_index=-1), nn.CrossEntropyLoss(ignore_index=255)])
    says(lambda: opl.regularize(base, SmallCNN()), errors.OptionError, ["-1 and 255", "ignore_index="])
    assert opl.regularize(base, SmallCNN(), ignore_index=255).projection.ignore_index == 255


def negative_ignored_label():
    model, labels = Net(), LABELS.clone()
    labels[::4] = -1
    base = lambda logits, target: F.cross_entropy(logits, target, ignore_index=-1)  # noqa: E731
    says(lambda: opl.regularize(base, model)(model(IMAGES), labels), errors.LabelError, ["-1", "ignore_index=-1."])
    logits = model(IMAGES)
    loss = opl.regularize(base, model, ignore_index=-1)(logits, labels)
    agrees(model, loss, base(logits, labels) + textbook(model.seen[-1], labels, ignore_index=-1))


def no_classes(base, classes, target, value):
    """A target of numbers that are neither class ids nor probabilities, and a function that returns class ids."""

    def run():
        model = Net(classes)
        says(lambda: opl.regularize(base, model)(model(IMAGES), target), errors.LabelError, [value, "labels="])
        logits = model(IMAGES)
        loss = opl.regularize(base, model, labels=lambda _: LABELS)(logits, target)
        agrees(model, loss, base(logits, target) + textbook(model.seen[-1], LABELS))

    return run


def dictionary_as_target():
    model = Net()
    base = lambda logits, target: F.cross_entropy(logits, target["ids"])  # noqa: E731
    says(lambda: opl.regularize(base, model)(model(IMAGES), {"ids": LABELS}), errors.OptionError, ["dict", "labels="])
    criterion = opl.regularize(base, model, labels=lambda target: target["ids"])
    logits = model(IMAGES)
    agrees(model, criterion(logits, {"ids": LABELS}), expected(model, logits))


def tuple_as_loss():
    model = Net()
    base = lambda logits, target: (F.cross_entropy(logits, target), "more")  # noqa: E731
    says(lambda: opl.regularize(base, model)(model(IMAGES), LABELS), errors.OptionError, ["tuple", "loss="])
    check(model, opl.regularize(base, model, loss=lambda value: value[0]))


def two_readings():
    model, labels = Tokens(), torch.randint(0, 4, (4, 4))

    def base(logits, target):
        return F.cross_entropy(logits.reshape(-1, 4), target.flatten())

    criterion = opl.regularize(base, model)
    tokens = TOKENS[:, :4]
    says(lambda: criterion(model(tokens), labels), errors.OptionError, ["second or last", "flatten"])
    loss = criterion(model(tokens).flatten(0, 1), labels.flatten())
    rows = model.embed(tokens).tanh().flatten(0, 1)
    agrees(model, loss, base(model(tokens), labels) + textbook(rows, labels.flatten()))


def not_pooled():
    model = Tokens()
    says(
        lambda: opl.regularize(BASE, model, features="embed")(model(TOKENS).mean(1), TOKEN_LABELS),
        errors.FeatureError,
        ["(4, 5, 6)", "pool="],
    )
    logits = model(TOKENS).mean(1)
    loss = opl.regularize(BASE, model, features="embed", pool="mean")
    logits = model(TOKENS).mean(1)
    agrees(
        model,
        loss(logits, TOKEN_LABELS),
        F.cross_entropy(logits, TOKEN_LABELS) + textbook(model.embed(TOKENS).mean(1), TOKEN_LABELS),
    )


def largest_token():
    model = Tokens()
    criterion = opl.regularize(BASE, model)
    says(
        lambda: criterion(model(TOKENS).amax(1), TOKEN_LABELS),
        errors.TapError,
        ["AmaxBackward0", "'classify'", "features="],
    )
    logits = model(TOKENS).amax(1)
    features = opl.regularize(BASE, model, features=lambda output: model.embed(TOKENS).mean(1))
    agrees(
        model,
        features(logits, TOKEN_LABELS),
        F.cross_entropy(logits, TOKEN_LABELS) + textbook(model.embed(TOKENS).mean(1), TOKEN_LABELS),
    )


def unused_layer():
    model = Twice()
    criterion = opl.regularize(BASE, model, features="more")
    says(lambda: criterion(model.fc(model.features(IMAGES)), LABELS), errors.TapError, ["'more'", "not used"])
    check(model, opl.regularize(BASE, model, features="pool"))


def cosine(model, features):
    return 5 * F.normalize(features) @ F.normalize(model.fc.weight).T


CURED = {
    "ReLU after the head": cure_head(lambda m, x: m.fc(x).relu(), ["ReluBackward0", "'fc'", "layer='fc'"], layer="fc"),
    "layer norm after the head": cure_head(
        lambda m, x: F.layer_norm(m.fc(x), (4,)), ["NativeLayerNormBackward0", "layer='fc'"], layer="fc"
    ),
    "F.linear": cure_head(
        lambda m, x: F.linear(x, m.fc.weight), ["product outside", "F.linear", "features='...'"], features="pool"
    ),
    "einsum": cure_head(
        lambda m, x: torch.einsum("bd,cd->bc", x, m.fc.weight), ["product outside", "einsum"], features="pool"
    ),
    "functional cosine": cure_head(cosine, ["product outside", "features="], features="pool"),
    "3 x 3 head": conv_head,
    "a transposed convolution as head": transposed_head,
    "3 x 3 head beside a linear layer": conv_head_beside_a_linear_layer,
    "layers with two inputs": two_inputs,
    "re-entrant checkpoint": reentrant,
    "averaged copy": averaged_copy,
    "replaced head": replaced_head,
    "closed": closed,
    "Keras": keras,
    "detached": detached,
    "features first": features_first,
    "swapped arguments": swapped,
    "criterion and model swapped": swapped_model,
    "a class as criterion": class_as_criterion,
    "a criterion with a classifier": own_classifier,
    "Opacus": opacus,
    "vmap": vmapped,
    "a label that is no class": unknown_ignored_label,
    "a negative label that the criterion ignores": negative_ignored_label,
    "two ignored labels": two_ignored_labels,
    "a number to predict": no_classes(nn.MSELoss(), 1, torch.full((24, 1), 2.5), "2.5"),
    "a negative number to predict": no_classes(nn.MSELoss(), 1, torch.full((24, 1), -0.5), "-0.5"),
    "log-probabilities": no_classes(
        nn.KLDivLoss(reduction="batchmean", log_target=True), 4, torch.full((24, 4), 0.25).log(), "-1.386"
    ),
    "a dictionary as target": dictionary_as_target,
    "a tuple as loss": tuple_as_loss,
    "two readings": two_readings,
    "not pooled": not_pooled,
    "the largest token": largest_token,
    "an unused layer": unused_layer,
}


@pytest.mark.parametrize("case", CURED)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_the_message_names_the_cause_and_its_advice_works(case):
    torch.manual_seed(0)
    CURED[case]()


def options():
    model = SmallCNN()
    make = functools.partial(opl.regularize, BASE)
    return {
        "torch.jit": (lambda: make(torch.jit.script(SmallCNN())), errors.LayerError, ["torch.jit"]),
        "torch.fx": (lambda: make(torch.fx.symbolic_trace(model)), errors.LayerError, ["torch.fx", "features="]),
        "torch.export": (
            lambda: make(torch.export.export(SmallCNN(), (IMAGES,)).module()), errors.LayerError,
            ["torch.export", "features="],
        ),
        "no linear layer": (lambda: opl.FeatureTap(nn.Conv2d(1, 1, 3)), errors.LayerError, ["Conv2d", "layer="]),
        "wrong name": (lambda: opl.FeatureTap(model, "body.22"), errors.LayerError, ["'body.22'", "'body.2'"]),
        "another model's layer": (lambda: opl.FeatureTap(model, nn.Linear(2, 2)), errors.LayerError, ["not part"]),
        "not run": (lambda: opl.FeatureTap(model).features, errors.TapError, ["'fc'"]),
        "no model": (lambda: make("resnet"), errors.LayerError, ["str"]),
        "negative weight": (lambda: make(model, weight=-1), errors.OptionError, ["-1", "at least 0"]),
        "weight NaN": (lambda: make(model, weight=float("nan")), errors.OptionError, ["nan"]),
        "negative gamma": (lambda: make(model, gamma=-1), errors.OptionError, ["-1", "at least 0"]),
        "unknown pool": (
            lambda: make(model, features="pool", pool="middle"), errors.OptionError, ["'middle'", "'mean'"],
        ),
        "pool without a layer": (lambda: make(model, pool="mean"), errors.OptionError, ["layer=", "features="]),
        "pool no function": (lambda: make(model, features="pool", pool=3), errors.OptionError, ["3", "'first'"]),
        "pool of vectors": (
            lambda: make(model, layer="fc", pool="mean")(model(IMAGES), LABELS), errors.FeatureError,
            ["(24, 16)", "leave out pool="],
        ),
        "layer and features": (
            lambda: make(model, layer="fc", features="pool"), errors.OptionError, ["one of them"],
        ),
        "no function": (lambda: make(model, features=3), errors.OptionError, ["int", "function"]),
        "no layer": (lambda: make(model, layer=3), errors.OptionError, ["layer has type int", "name"]),
        "labels no function": (lambda: make(model, labels=LABELS), errors.OptionError, ["Tensor", "function"]),
        "loss no function": (lambda: make(model, loss=3), errors.OptionError, ["loss has type int", "function"]),
        "a list as opl_labels": (
            lambda: make(model)(model(IMAGES), LABELS, opl_labels=[1, 2]), errors.OptionError,
            ["opl_labels has type list", "pass a tensor"],
        ),
        "a short mask": (
            lambda: make(model)(model(IMAGES), LABELS, opl_labels=LABELS[:2] > 0), errors.LabelError,
            ["(2,)", "(24,)"],
        ),
        "a mask of too many dimensions": (
            lambda: make(model)(model(IMAGES), LABELS, opl_labels=LABELS[:, None] > 0), errors.LabelError,
            ["(24, 1)", "(24,)"],
        ),
        "no tensor": (
            lambda: make(model, features=lambda output: None)(model(IMAGES), LABELS), errors.FeatureError,
            ["NoneType", "features="],
        ),
        "no logits": (lambda: make(model)((1, 2), LABELS), errors.OptionError, ["tuple", ".logits"]),
    }  # fmt: skip


@pytest.mark.parametrize("case", options())
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_invalid_options_are_refused_in_one_sentence(case):
    says(*options()[case])


def test_shapes_that_do_not_match_are_named():
    model = Tokens()
    criterion = opl.regularize(lambda logits, _: logits.sum(), model)
    says(lambda: criterion(model(TOKENS), TOKEN_LABELS), errors.LabelError, ["(4, 5, 4)", "(4, 5)"])


def test_a_copied_criterion_refuses_too():
    model = Net()
    criterion = copy.deepcopy(opl.regularize(BASE, model))
    says(lambda: criterion(model(IMAGES), LABELS), errors.TapError, ["without its model", "again"])
