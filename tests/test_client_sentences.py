"""Where the features behind some logits cannot be told, one sentence says why; and nothing stays behind."""

import gc
import io
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import opl
from _said import says
from _small_cnn import SmallCNN, data
from _textbook import agrees, textbook
from opl import errors

BASE = nn.CrossEntropyLoss()


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.classify = nn.Embedding(9, 6), nn.Linear(6, 4)

    def forward(self, words):
        return self.classify(self.embed(words).tanh())


class Summed(SmallCNN):
    def __init__(self):
        super().__init__()
        self.more = nn.Linear(16, 4)

    def forward(self, images):
        x = self.embed(images)
        return self.fc(x) + self.more(x)


def cases():
    images, labels = data()
    words, word_labels = torch.randint(0, 9, (4, 5)), torch.tensor([0, 1, 2, 0])

    def given(model, make, target=labels, **options):
        criterion = opl.regularize(BASE, model, **options)
        return lambda: criterion(make(model), target)

    def replaced():
        model = SmallCNN()
        criterion = opl.regularize(BASE, model)
        model.fc = nn.Linear(16, 4)
        criterion(model(images), labels)

    def closed():
        model = SmallCNN()
        with opl.regularize(BASE, model) as criterion:
            pass
        criterion(model(images), labels)

    def traced():
        opl.regularize(BASE, torch.fx.symbolic_trace(SmallCNN()))

    def exported():
        opl.regularize(BASE, torch.export.export(SmallCNN(), (images,)).module())

    def many():
        criterion = opl.regularize(nn.BCEWithLogitsLoss(), model)
        criterion(model(images), torch.ones(24, 4))

    model, tokens = SmallCNN(), Tokens()
    return {
        "torch.jit": (lambda: opl.regularize(BASE, torch.jit.script(SmallCNN())), errors.LayerError, ["torch.jit"]),
        "torch.fx": (traced, errors.LayerError, ["torch.fx", "features="]),
        "torch.export": (exported, errors.LayerError, ["torch.export", "features="]),
        "head replaced": (replaced, errors.TapError, ["'fc'", "call it again"]),
        "closed": (closed, errors.TapError, ["'fc'", "call"]),
        "another model's": (given(model, lambda _: SmallCNN()(images)), errors.TapError, ["another model's", "layer="]),
        "two heads added": (given(Summed(), lambda m: m(images)), errors.LayerError, ["'fc' and 'more'", "layer="]),
        "detached": (given(model, lambda m: m(images).detach()), errors.TapError, ["no gradient", "criterion.eval()"]),
        "rows mixed": (
            given(model, lambda m: m(images) - m(images).mean(0)), errors.FeatureError, ["mix", "features=lambda"],
        ),
        "the largest word": (
            given(tokens, lambda m: m(words).amax(1), word_labels), errors.TapError, ["AmaxBackward0", "layer="],
        ),
        "two readings": (
            given(tokens, lambda m: m(words[:, :4]), torch.zeros(4, 4, dtype=torch.long)),
            errors.OptionError, ["two ways", "flatten"],
        ),
        "no pooling": (
            given(tokens, lambda m: m(words).mean(1), word_labels, features="embed"),
            errors.FeatureError, ["(4, 5, 6)", "pool="],
        ),
        "unused layer": (
            given(Summed(), lambda m: m.fc(m.embed(images)), features="more"), errors.TapError, ["'more'"],
        ),
        "unknown pool": (
            lambda: opl.regularize(BASE, model, features="pool", pool="middle"),
            errors.OptionError, ["'middle'", "'mean'"],
        ),
        "both": (lambda: opl.regularize(BASE, model, layer="fc", features="pool"), errors.OptionError, ["one of them"]),
        "no function": (lambda: opl.regularize(BASE, model, features=3), errors.OptionError, ["int", "function"]),
        "several labels": (many, errors.LabelError, ["several labels a sample"]),
        "no tensor": (
            given(model, lambda m: m(images), features=lambda output: None),
            errors.FeatureError, ["NoneType", "features="],
        ),
    }  # fmt: skip


@pytest.mark.parametrize("case", cases())
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_says_why(case):
    says(*cases()[case])


def test_a_compiled_model_that_ran_before_is_tapped_or_says_so():
    """PyTorch may or may not compile it again for the new hooks."""
    torch._dynamo.reset()
    model, (images, labels) = SmallCNN(), data()
    compiled = torch.compile(model, backend="aot_eager")
    compiled(images)
    criterion = opl.regularize(BASE, compiled)
    logits = compiled(images)
    said = ""
    try:
        loss = criterion(logits, labels)
    except errors.TapError as error:
        said = str(error)
    if said:
        assert "compiled and run before" in said
    else:
        agrees(model, loss, F.cross_entropy(logits, labels) + textbook(model.embed(images), labels))


@pytest.mark.parametrize("scaled", [False, True])
def test_compiled_passes_are_told_apart(scaled):
    """The last pass is right; an earlier one, and logits that were changed inside, get their sentence."""
    torch._dynamo.reset()
    model, (images, labels) = SmallCNN(), data()
    criterion = opl.regularize(BASE, model)
    forward = torch.compile(lambda x: model(x) * 2 if scaled else model(x), fullgraph=True, backend="aot_eager")
    one, two = forward(images), forward(images * 2)
    if scaled:
        with pytest.raises(errors.TapError, match="layer="):
            criterion(two, labels)
        named = opl.regularize(BASE, model, layer="fc")
        torch._dynamo.reset()
        two = torch.compile(lambda x: model(x) * 2, fullgraph=True, backend="aot_eager")(images * 2)
        loss = named(two, labels)
    else:
        loss = criterion(two, labels)
    agrees(model, loss, F.cross_entropy(two, labels) + textbook(model.embed(images * 2), labels))
    with pytest.raises(errors.TapError):
        criterion(one, labels)


def test_fsdp_and_checkpoint_wrappers_do_not_change_names():
    from opl.plugin.graph import bare_name

    for name in ("module.fc", "_orig_mod.fc", "_fsdp_wrapped_module.fc", "module._fsdp_wrapped_module._orig_mod.fc"):
        assert bare_name(name) in ("fc", "_orig_mod.fc")
    assert bare_name("body._checkpoint_wrapped_module.0") == "body.0"


def hooks_on(model) -> int:
    return sum(len(layer._forward_hooks) + len(layer._forward_pre_hooks) for layer in model.modules())


def graphs() -> int:
    gc.collect()
    return sum(type(each) is torch.Tensor and each.grad_fn is not None for each in gc.get_objects())


def test_criteria_leave_nothing_behind():
    """A thousand criteria, made and dropped: no hook and no graph stays, and one layer has one hook for all."""
    model, (images, labels) = SmallCNN(), data()
    before = graphs()
    kept = [opl.regularize(BASE, model) for _ in range(3)]
    assert hooks_on(model) == 1
    kept.clear()
    gc.collect()
    assert hooks_on(model) == 0
    for _ in range(1000):
        criterion = opl.regularize(BASE, model)
        criterion(model(images[:4]), labels[:4])
        assert hooks_on(model) == 1
    del criterion
    gc.collect()
    assert hooks_on(model) == 0
    assert graphs() == before


def test_a_saved_model_knows_nothing_of_its_tap():
    model, (images, labels) = SmallCNN(), data()
    criterion = opl.regularize(BASE, model)
    criterion(model(images), labels)
    data_of = pickle.dumps(model)
    assert b"opl" not in data_of
    buffer = io.BytesIO()
    torch.save(model, buffer)
    loaded = torch.load(io.BytesIO(buffer.getvalue()), weights_only=False)
    assert torch.equal(loaded(images), model(images))


def test_layers_that_were_never_the_classifier_lose_their_hooks():
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    images, labels = data()
    criterion = opl.regularize(BASE, model)
    assert hooks_on(model) == 3
    for _ in range(10):
        loss = criterion(model(images), labels)
    assert hooks_on(model) == 1
    features = model[:5](images)
    agrees(model, loss, F.cross_entropy(model[5](features), labels) + textbook(features, labels))
