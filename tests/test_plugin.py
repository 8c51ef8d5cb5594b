"""OPL in one line inside other people's training: plain, DDP, compiled, checkpointed, Hugging Face, Lightning."""

import copy
import gc
import io
import pickle
import resource

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import opl
from _said import says
from opl import errors


class SmallCNN(nn.Module):
    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, classes)

    def forward(self, images):
        return self.fc(self.pool(self.body(images)).flatten(1))

    def embed(self, images):
        return self.pool(self.body(images)).flatten(1)


def data(rows: int = 24, classes: int = 4, size: int = 16):
    labels = torch.arange(rows) % classes
    return torch.randn(rows, 3, size, size) + labels[:, None, None, None], labels


def expected_loss(model, images, labels, weight=1.0, gamma=0.5):
    """Cross-entropy plus the textbook matrix of cosines, from the model's own method."""
    features = model.embed(images)
    cosines = F.cosine_similarity(features[:, None], features[None], dim=-1)
    same = labels[:, None] == labels
    s = cosines[same & ~torch.eye(len(labels), dtype=torch.bool)].mean()
    d = cosines[~same].abs().mean()
    return F.cross_entropy(model.fc(features), labels) + weight * (1 - s + gamma * d), s, d


def train(model, criterion, forward=None, steps: int = 3):
    """The loop that everybody has; returns its losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    images, labels = data()
    losses = []
    for _ in range(steps):
        output = model(images) if forward is None else forward(images)
        loss = criterion(output, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_the_criterion_is_cross_entropy_plus_weight_times_opl_with_its_gradient():
    model = SmallCNN()
    images, labels = data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, weight=0.3, gamma=2.0)
    loss = criterion(model(images), labels)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    expected, s, d = expected_loss(model, images, labels, 0.3, 2.0)
    torch.testing.assert_close(loss, expected)
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, list(model.parameters())), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(criterion.last.same, s.detach())
    torch.testing.assert_close(criterion.last.other, d.detach())
    torch.testing.assert_close(criterion.last.base + 0.3 * criterion.last.projection, loss.detach())
    assert not any(part.requires_grad for part in criterion.last)


def test_weight_zero_trains_exactly_like_the_base_criterion_and_still_measures():
    torch.manual_seed(3)
    plain = SmallCNN()
    model = copy.deepcopy(plain)
    torch.manual_seed(4)
    base = train(plain, nn.CrossEntropyLoss(label_smoothing=0.1))
    torch.manual_seed(4)
    criterion = opl.regularize(nn.CrossEntropyLoss(label_smoothing=0.1), model, weight=0)
    assert train(model, criterion) == base
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert 0 < criterion.last.same <= 1


def test_the_model_is_left_as_it_was():
    model = SmallCNN()
    keys, before = list(model.state_dict()), sum(parameter.numel() for parameter in model.parameters())
    criterion = opl.regularize(nn.CrossEntropyLoss(weight=torch.ones(4)), model)
    assert list(model.state_dict()) == keys
    assert sum(parameter.numel() for parameter in model.parameters()) == before
    assert list(criterion.state_dict()) == ["criterion.weight"]
    assert list(criterion.parameters()) == []
    criterion.tap.close()
    assert not model.fc._forward_pre_hooks


def test_soft_targets_of_mixup_reach_both_losses():
    model = SmallCNN()
    images, labels = data()
    soft = 0.7 * F.one_hot(labels, 4) + 0.3 * F.one_hot(labels.roll(1), 4)
    loss = opl.regularize(nn.CrossEntropyLoss(), model)(model(images), soft)
    projection = opl.orthogonal_projection(model.embed(images), soft).loss
    torch.testing.assert_close(loss, F.cross_entropy(model(images), soft) + projection)


@pytest.mark.parametrize("layer", ["fc", "module.fc", None, "the module"])
def test_the_layer_is_found_by_name_by_object_or_as_the_last_linear(layer):
    model = SmallCNN()
    tap = opl.FeatureTap(model, model.fc if layer == "the module" else layer)
    images, _ = data()
    model(images)
    assert tap.name == "fc"
    torch.testing.assert_close(tap.features, model.embed(images))


def test_a_pooled_map_is_flattened():
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Conv2d(5, 4, 1), nn.Flatten())
    tap = opl.FeatureTap(model, "2")
    model(torch.randn(6, 3, 8, 8))
    assert tap.features.shape == (6, 5)


def test_evaluation_costs_nothing_and_needs_no_forward_pass():
    model = SmallCNN()
    images, labels = data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    with torch.no_grad():
        logits = model(images)
        assert criterion(logits, labels) == F.cross_entropy(logits, labels)
        assert criterion(logits, labels) == F.cross_entropy(logits, labels)  # stored logits, model not run again
    assert criterion.last.projection is None
    criterion.eval()
    assert criterion(model(images), labels) == F.cross_entropy(logits, labels)
    criterion.train()
    assert criterion(model(images), labels) > F.cross_entropy(logits, labels)


class Reply:
    def __init__(self, logits):
        self.logits = logits


def test_outputs_with_logits_and_accumulated_gradients_as_the_trainer_calls_it():
    model = SmallCNN()
    images, labels = data(24)
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    whole = criterion(Reply(model(images)), labels)
    called = criterion(Reply(model(images)), labels, num_items_in_batch=None)
    assert whole == called
    # Two halves of 12 and 12 of 24 items: each half's mean counts one half.
    half = criterion(Reply(model(images[:12])), labels[:12], num_items_in_batch=torch.tensor(24))
    expected, *_ = expected_loss(model, images[:12], labels[:12])
    torch.testing.assert_close(half, expected / 2)


def test_checkpointed_blocks_run_again_in_backward_without_leaving_anything():
    model = SmallCNN()
    images, labels = data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    expected, *_ = expected_loss(model, images, labels)
    gradients = torch.autograd.grad(expected, list(model.parameters()))

    def whole(x):  # the tapped layer itself lies inside the checkpoint
        return checkpoint(model, x, use_reentrant=False)

    def body(x):
        features = checkpoint(lambda y: model.pool(model.body(y)), x, use_reentrant=False)
        return model.fc(features.flatten(1))

    for forward in (whole, body):
        loss = criterion(forward(images), labels)
        torch.testing.assert_close(loss, expected)
        for ours, theirs in zip(torch.autograd.grad(loss, list(model.parameters())), gradients, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
        with pytest.raises(errors.TapError):  # what ran again during backward was not recorded
            criterion.tap.take()


@pytest.mark.parametrize("first", ["tap", "compile"])
def test_a_compiled_model_is_tapped(first):
    torch._dynamo.reset()
    model = SmallCNN()
    images, labels = data()
    expected, *_ = expected_loss(model, images, labels)
    if first == "tap":
        criterion = opl.regularize(nn.CrossEntropyLoss(), model)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    else:
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        criterion = opl.regularize(nn.CrossEntropyLoss(), compiled)
    for _ in range(2):
        loss = criterion(compiled(images), labels)
        torch.testing.assert_close(loss, expected)
    loss.backward()
    assert model.body[0].weight.grad.abs().sum() > 0


def test_a_ddp_model_is_tapped(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        model = SmallCNN()
        images, labels = data()
        wrapped = DistributedDataParallel(model)
        criterion = opl.regularize(nn.CrossEntropyLoss(), wrapped, layer="fc", global_batch=True)
        loss = criterion(wrapped(images), labels)
        torch.testing.assert_close(loss, expected_loss(model, images, labels)[0])
        loss.backward()
        assert model.body[0].weight.grad.abs().sum() > 0
    finally:
        dist.destroy_process_group()


def clone_by_pickle(value):
    return pickle.loads(pickle.dumps(value))


def clone_by_torch(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return torch.load(io.BytesIO(buffer.getvalue()), weights_only=False)


@pytest.mark.parametrize("clone", [copy.deepcopy, clone_by_pickle, clone_by_torch])
@pytest.mark.parametrize("order", ["model first", "criterion first"])
def test_a_model_and_its_criterion_are_copied_together(clone, order):
    model = SmallCNN()
    images, labels = data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    loss = criterion(model(images), labels)
    model(images)  # a graph is pending: it must not be copied
    if order == "model first":
        twin, its = clone((model, criterion))
    else:
        its, twin = clone((criterion, model))
    torch.testing.assert_close(its(twin(images), labels), loss)
    twin(images)
    criterion.tap.clear()
    with pytest.raises(errors.TapError):  # the copy's forward pass is not the original's
        criterion(torch.zeros(24, 4), labels)


def test_a_copy_of_the_model_alone_keeps_nothing_alive():
    model = SmallCNN()
    opl.regularize(nn.CrossEntropyLoss(), model)
    average = copy.deepcopy(model)  # as for an exponential moving average
    images, _ = data()
    average(images)
    (record,) = average.fc._forward_pre_hooks.values()
    assert record.features is None


def graphs_alive() -> int:
    gc.collect()
    return sum(1 for thing in gc.get_objects() if isinstance(thing, torch.Tensor) and thing.grad_fn is not None)


def test_no_graph_stays_alive_between_steps():
    model = SmallCNN()
    images, labels = data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    before = graphs_alive()
    loss = criterion(model(images), labels)
    loss.backward()
    del loss
    assert graphs_alive() == before


def test_a_thousand_steps_leave_memory_flat():
    model = nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 10))
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    inputs, labels = torch.randn(128, 64), torch.randint(0, 10, (128,))

    def steps(number: int) -> int:
        for _ in range(number):
            model.zero_grad()
            criterion(model(inputs), labels).backward()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB

    warm = steps(100)
    # One kept graph is 128 x 2048 floats = 1 MiB: a thousand of them would be a gigabyte.
    assert steps(1000) - warm < 50 * 1024


def test_a_frozen_backbone_is_said():
    model = SmallCNN()
    for parameter in model.body.parameters():
        parameter.requires_grad_(False)
    images, labels = data()
    with pytest.warns(errors.OplWarning, match="carry no gradient"):
        opl.regularize(nn.CrossEntropyLoss(), model)(model(images), labels)


def calls():
    model = SmallCNN()
    images, labels = data()
    good = opl.regularize(nn.CrossEntropyLoss(), model)
    tokens = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))

    def twice():
        output = model(images)
        good(output, labels)
        good(output, labels)

    def on_tokens():
        criterion = opl.regularize(lambda logits, target: logits.sum(), tokens)
        criterion(tokens(torch.randn(4, 7, 3)), torch.zeros(4, dtype=torch.long))

    base = nn.CrossEntropyLoss()
    return {
        "not run since": (twice, errors.TapError, ["'fc'", "call the model first"]),
        "never run": (lambda: opl.FeatureTap(model).features, errors.TapError, ["'fc'"]),
        "no linear": (lambda: opl.FeatureTap(nn.Conv2d(1, 1, 1)), errors.LayerError, ["Conv2d", "layer="]),
        "wrong name": (lambda: opl.FeatureTap(model, "body.22"), errors.LayerError, ["'body.22'", "'body.2'"]),
        "a stranger": (lambda: opl.FeatureTap(model, nn.Linear(2, 2)), errors.LayerError, ["not a part"]),
        "no model": (lambda: opl.regularize(base, "resnet"), errors.LayerError, ["str"]),
        "weight": (lambda: opl.regularize(base, model, weight=-1), errors.OptionError, ["-1", "from 0 up"]),
        "weight NaN": (lambda: opl.regularize(base, model, weight=float("nan")), errors.OptionError, ["nan"]),
        "option": (lambda: opl.regularize(base, model, forms="mean"), errors.OptionError, ["'forms'", "'form'"]),
        "output": (lambda: good((1, 2), labels), errors.OptionError, ["tuple", ".logits"]),
        "tokens": (on_tokens, errors.FeatureError, ["(4, 7, 5)"]),
    }


@pytest.mark.parametrize("case", calls())
def test_bad_calls_get_their_sentence(case):
    says(*calls()[case])


def test_the_same_two_lines_train_hugging_face_models():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    vit = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=16, patch_size=8
    )
    resnet = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    vit.num_labels = resnet.num_labels = 4
    makers = (
        lambda: transformers.ViTForImageClassification(vit),
        lambda: transformers.ResNetForImageClassification(resnet),
    )
    for make in makers:
        for checkpointing in (False, True):
            torch.manual_seed(0)
            model = make()
            if checkpointing and model.supports_gradient_checkpointing:
                model.gradient_checkpointing_enable()
            criterion = opl.regularize(nn.CrossEntropyLoss(), model)
            losses = train(model, criterion, steps=8)
            assert losses[-1] < losses[0]
            torch.manual_seed(0)
            plain = make()
            torch.manual_seed(1)
            base = train(plain, lambda output, target: F.cross_entropy(output.logits, target))
            torch.manual_seed(0)
            zero = make()
            torch.manual_seed(1)
            assert train(zero, opl.regularize(nn.CrossEntropyLoss(), zero, weight=0)) == base
