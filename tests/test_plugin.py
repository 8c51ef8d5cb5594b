"""OPL in one line inside other people's training: its loss, its layer, its refusals, and Hugging Face models."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import opl
from _said import says
from _small_cnn import SmallCNN, data, expected_loss, train
from opl import errors


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
    assert model.fc._forward_hooks
    criterion.close()
    assert not any(layer._forward_hooks for layer in model.modules())


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
    assert tap.name == "'fc'"
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

    def detached():
        good(model(images).detach(), labels)

    def on_tokens():
        criterion = opl.regularize(lambda logits, target: logits.sum(), tokens)
        criterion(tokens(torch.randn(4, 7, 3)), torch.zeros(4, dtype=torch.long))

    base = nn.CrossEntropyLoss()
    return {
        "detached": (detached, errors.TapError, ["carry no gradient", "criterion.eval()"]),
        "never run": (lambda: opl.FeatureTap(model).features, errors.TapError, ["'fc'"]),
        "no linear": (lambda: opl.FeatureTap(nn.Conv2d(1, 1, 3)), errors.LayerError, ["Conv2d", "layer="]),
        "wrong name": (lambda: opl.FeatureTap(model, "body.22"), errors.LayerError, ["'body.22'", "'body.2'"]),
        "a stranger": (lambda: opl.FeatureTap(model, nn.Linear(2, 2)), errors.LayerError, ["not a part"]),
        "no model": (lambda: opl.regularize(base, "resnet"), errors.LayerError, ["str"]),
        "weight": (lambda: opl.regularize(base, model, weight=-1), errors.OptionError, ["-1", "from 0 up"]),
        "weight NaN": (lambda: opl.regularize(base, model, weight=float("nan")), errors.OptionError, ["nan"]),
        "output": (lambda: good((1, 2), labels), errors.OptionError, ["tuple", ".logits"]),
        "tokens": (on_tokens, errors.LabelError, ["(4, 7, 2)", "(4, 7)"]),
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
