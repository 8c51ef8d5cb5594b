"""The criterion that `opl.regularize` returns: its loss, its modes, its health, and the base criterion behind it."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import opl
from _small_cnn import Net, SmallCNN, data, train
from _textbook import agrees, expected_loss, textbook
from opl import errors
from opl.plugin.criterion import CollapseWatch, GammaWatch, LossParts


def test_the_criterion_is_cross_entropy_plus_weight_times_opl_with_its_gradient():
    model = SmallCNN()
    images, labels = data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, weight=0.3, gamma=2.0)
    loss = criterion(model(images), labels)
    agrees(model, loss, expected_loss(model, images, labels, 0.3, 2.0))
    features = model.embed(images).detach()
    same, both = 1 - textbook(features, labels, 0.0), textbook(features, labels, 1.0)
    torch.testing.assert_close(criterion.last.same.double(), same, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(criterion.last.other.double(), both - (1 - same), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(criterion.last.base + 0.3 * criterion.last.projection, loss.detach())
    assert not any(part.requires_grad for part in criterion.last)
    norms = model.embed(images).norm(dim=1)
    torch.testing.assert_close(criterion.last.feature_norm, norms.mean().detach())
    assert criterion.last.zero_features == 0


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
    torch.testing.assert_close(half.double(), expected_loss(model, images[:12], labels[:12]) / 2)


def test_a_frozen_backbone_gets_a_warning():
    model = SmallCNN()
    for parameter in model.body.parameters():
        parameter.requires_grad_(False)
    images, labels = data()
    with pytest.warns(errors.OplWarning, match="the input of layer 'fc'.* carry no gradient"):
        opl.regularize(nn.CrossEntropyLoss(), model)(model(images), labels)


def test_the_warning_about_a_bare_linear_layer_points_to_the_line_that_calls_the_criterion():
    model = nn.Linear(4, 4)
    with pytest.warns(errors.OplWarning, match="the input of the model") as caught:
        train(model, opl.regularize(nn.CrossEntropyLoss(), model), lambda images: model(images[:, 0, :4, 0]), steps=1)
    assert caught[0].filename == train.__code__.co_filename


class Segmentation(nn.Module):
    """A loss with an ignored label, as losses of segmentation libraries have it."""

    def __init__(self, ignore_index):
        super().__init__()
        self.ignore_index = ignore_index

    def forward(self, logits, target):
        kept = target != self.ignore_index
        return F.cross_entropy(logits[kept], target[kept])


class Wrapped(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base

    def forward(self, logits, target):
        return 2 * self.base(logits, target)


@pytest.mark.parametrize(
    "base", [Segmentation(255), Wrapped(Segmentation(255)), Wrapped(nn.CrossEntropyLoss(ignore_index=255))]
)
def test_the_ignored_label_of_any_criterion_is_ignored(base):
    model, (images, labels) = Net(), data()
    labels[::5] = 255
    criterion = opl.regularize(base, model)
    logits = model(images)
    expected = base(logits, labels) + textbook(model.seen[0], labels, ignore_index=255)
    agrees(model, criterion(logits, labels), expected)


def test_an_ignored_label_of_none_is_the_default():
    assert opl.regularize(Segmentation(None), SmallCNN()).projection.ignore_index == -100


def test_evaluation_with_gradients_is_the_base_criterion_unless_in_eval_is_set():
    """As in validation loops without `torch.no_grad()`, and attacks on a model in evaluation mode."""
    model, (images, labels) = SmallCNN().eval(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    base = F.cross_entropy(model(images), labels)
    assert criterion(model(images), labels) == base
    assert criterion.last.projection is None
    whole = opl.regularize(nn.CrossEntropyLoss(), model, in_eval=True)
    agrees(model, whole(model(images), labels), expected_loss(model, images, labels))
    model.train()
    agrees(model, criterion(model(images), labels), expected_loss(model, images, labels))


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile])
def test_the_mode_is_that_of_the_model_inside_a_wrapper(wrap):
    model, (images, labels) = SmallCNN(), data()
    for given in (model, wrap(model)):
        criterion = opl.regularize(nn.CrossEntropyLoss(), given)
        model.eval()
        assert criterion(model(images), labels) == F.cross_entropy(model(images), labels)
        model.train()
        assert criterion(model(images), labels) > F.cross_entropy(model(images), labels)


def test_a_model_that_is_never_in_training_mode_gets_one_warning():
    model, (images, labels) = SmallCNN().eval(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = model(images)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(250):
            criterion(logits, labels)
    [warning] = caught
    assert "in_eval=True" in str(warning.message)


@pytest.mark.parametrize("reduction", ["none", "sum"])
def test_opl_is_added_once_per_batch_to_losses_that_are_not_means(reduction):
    model, (images, labels) = Net(), data()
    labels[::6] = -100
    criterion = opl.regularize(nn.CrossEntropyLoss(reduction=reduction), model)
    logits = model(images)
    loss = criterion(logits, labels)
    kept = labels != -100
    total = loss[kept].sum() if reduction == "none" else loss
    expected = F.cross_entropy(logits, labels, reduction="sum") + textbook(model.seen[0], labels)
    agrees(model, total, expected)
    if reduction == "none":
        assert (loss[~kept] == 0).all()
        torch.testing.assert_close(loss.sum(), total)


def test_gamma_can_be_changed_during_training():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    for gamma in (2.0, 0.1):
        criterion.projection.gamma = gamma
        logits = model(images)
        expected = F.cross_entropy(logits, labels) + textbook(model.seen[-1], labels, gamma)
        agrees(model, criterion(logits, labels), expected)
    criterion.projection.gamma = opl.Ramp(1.0, 3.0, steps=2)
    values = [criterion(model(images), labels) and criterion.last.gamma.item() for _ in range(4)]
    assert values == [1.0, 2.0, 3.0, 3.0]
    with pytest.raises(errors.OptionError, match="at least 0"):
        criterion.projection.gamma = -1.0


def test_the_weight_of_opl_can_be_changed_and_ramped():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    criterion.opl_weight = 0.25
    logits = model(images)
    expected = F.cross_entropy(logits, labels) + 0.25 * textbook(model.seen[-1], labels)
    agrees(model, criterion(logits, labels), expected)
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, weight=opl.Ramp(0.0, 1.0, steps=2, delay=1))
    weights = []
    for _ in range(5):
        loss = criterion(model(images), labels)
        weights.append(((loss - criterion.last.base) / criterion.last.projection).item())
    assert weights == pytest.approx([0, 0, 0.5, 1, 1], abs=1e-5)
    assert criterion.opl_weight == opl.Ramp(0.0, 1.0, steps=2, delay=1)


def test_a_ramp_counts_optimizer_steps_under_accumulation():
    model, (images, labels) = SmallCNN(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, gamma=opl.Ramp(0.0, 1.0, steps=4))

    def accumulate(criterion, steps):
        gammas = []
        for _ in range(steps):
            for _ in range(3):
                criterion(model(images), labels)
            gammas.append(criterion.last.gamma.item())
            criterion.step()
        return gammas

    assert accumulate(criterion, 3)[1:] == [0.25, 0.5]
    other = opl.regularize(nn.CrossEntropyLoss(), model, gamma=opl.Ramp(0.0, 1.0, steps=4))
    other.load_state_dict(criterion.state_dict())
    assert accumulate(other, 2)[1:] == [1.0]


@pytest.mark.parametrize("convert", [nn.Module.half, nn.Module.bfloat16])
@pytest.mark.parametrize("gamma", ["auto", opl.Ramp(0.0, 1.0, steps=3)], ids=str)
def test_a_criterion_in_half_precision_keeps_its_state_in_single(convert, gamma):
    model, (images, labels) = SmallCNN(), data()
    criterion = convert(opl.regularize(nn.CrossEntropyLoss(weight=torch.ones(4)), model, gamma=gamma))
    assert criterion.criterion.weight.dtype != torch.float32
    criterion.weight = torch.ones(4)
    for _ in range(3):
        loss = criterion(model(images), labels)
    assert loss.isfinite()
    assert criterion.last.gamma.isfinite()


def test_the_criterion_is_a_drop_in_for_its_base():
    model = SmallCNN()
    base = nn.CrossEntropyLoss(torch.ones(4), label_smoothing=0.1)
    criterion = opl.regularize(base, model)
    assert criterion.weight is base.weight
    assert (criterion.reduction, criterion.label_smoothing, criterion.ignore_index) == ("mean", 0.1, -100)
    criterion.weight = torch.tensor([1.0, 2.0, 3.0, 4.0])
    criterion.reduction = "none"
    assert base.weight.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert base.reduction == "none"
    assert criterion.opl_weight == 1.0
    criterion.remark = "mine"
    assert not hasattr(base, "remark")
    assert not hasattr(criterion, "nonsense")
    assert not hasattr(opl.regularize(F.cross_entropy, model), "reduction")


def test_a_reduction_that_is_replaced_for_predictions():
    """As fastai does it for `get_preds(with_loss=True)`."""
    model, (images, labels) = SmallCNN().eval(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    before, criterion.reduction = criterion.reduction, "none"
    with torch.no_grad():
        losses = criterion(model(images), labels)
    criterion.reduction = before
    torch.testing.assert_close(losses, F.cross_entropy(model(images), labels, reduction="none"))


def test_further_arguments_reach_the_base_criterion():
    model, (images, labels) = Net(), data()

    def base(logits, target, scale, *, shift):
        return scale * F.cross_entropy(logits, target) + shift

    criterion = opl.regularize(base, model)
    logits = model(images)
    expected = 3 * F.cross_entropy(logits, labels) + 1 + textbook(model.seen[0], labels)
    agrees(model, criterion(logits, labels, 3, shift=1), expected)


def test_other_labels_or_a_mask_of_rows_for_opl():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    other, mask = labels.roll(1) % 3, torch.arange(24) % 2 == 0
    logits = model(images)
    agrees(
        model,
        criterion(logits, labels, opl_labels=other),
        F.cross_entropy(logits, labels) + textbook(model.seen[0], other),
    )
    masked = labels.where(mask, -100)
    expected = F.cross_entropy(logits, labels) + textbook(model.seen[0], masked)
    agrees(model, criterion(logits, labels, opl_labels=mask), expected)
    foreground = opl.regularize(nn.CrossEntropyLoss(), model, labels=lambda target: target > 0)
    logits = model(images)
    expected = F.cross_entropy(logits, labels) + textbook(model.seen[-1], labels.where(labels > 0, -100))
    agrees(model, foreground(logits, labels), expected)


def test_zero_features_are_counted():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    x = torch.randn(12, 4)
    with torch.no_grad():
        model[0].bias.zero_()
    x[:3] = 0
    labels = torch.arange(12) % 2
    labels[0] = -100
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    criterion(model(x), labels)
    assert criterion.last.zero_features.item() == pytest.approx(2 / 11)
    torch.testing.assert_close(criterion.last.feature_norm, model[:2](x)[1:].norm(dim=1).mean().detach())


def test_features_whose_norm_vanishes_while_the_loss_stands_still_get_the_warning():
    watch = CollapseWatch(steps=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for norm in (1.0, 1.0, 0.5, 0.1, 1e-4, 1e-4, 1e-5, 1e-5):
            watch.add(LossParts(torch.tensor(2.3), zero_features=torch.tensor(0.0), feature_norm=torch.tensor(norm)))
    assert len(caught) == 1
    watch = CollapseWatch(steps=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for norm, base in ((1.0, 2.3), (1.0, 2.3), (1e-4, 0.1), (1e-4, 0.1)):  # the loss falls: nothing is wrong
            parts = LossParts(torch.tensor(base), zero_features=torch.tensor(0.0), feature_norm=torch.tensor(norm))
            watch.add(parts)


def gamma_warnings(gamma, rows=(12,), steps=6, **settings):
    model = nn.Linear(4, 3)
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, gamma=gamma)
    criterion.watch = GammaWatch(steps=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(steps):
            count = rows[step % len(rows)]
            x = torch.rand(count, 4, generator=torch.Generator().manual_seed(step)).requires_grad_()
            criterion(model(x), torch.arange(count) % 3)
    return [str(warning.message) for warning in caught]


def test_the_gamma_warning_is_worded_by_the_setting():
    [constant] = gamma_warnings(0.1)
    assert "gamma was 0.10 on average over the last 3 steps" in constant
    assert "gamma='auto'" in constant
    [ramp] = gamma_warnings(opl.Ramp(0.0, 0.01, steps=5))
    assert "larger end" in ramp
    assert "'auto'" not in ramp
    assert gamma_warnings("auto") == []


def test_short_last_batches_and_undefined_values_do_not_count():
    watch = GammaWatch(steps=2)
    nan, low, high = torch.tensor(torch.nan), torch.tensor(0.1), torch.tensor(0.9)

    def parts(gamma, needed):
        return LossParts(torch.tensor(1.0), gamma=gamma, gamma_needed=needed)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            watch.add(parts(high, low), 32, 0.9)
            watch.add(parts(low, high), 7, 0.9)  # the last batch of an epoch
            watch.add(parts(low, nan), 32, 0.9)
            watch.add(parts(high, low), 32, 0.9)


def collapse_warnings(seed, weight, gamma, norm, epochs, base=None, rows=32):
    """Train two convolutions on digits by Adam with a rate of 1e-3; return the steps per epoch, and all sentences."""
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    images, labels = (torch.tensor(part) for part in datasets.load_digits(return_X_y=True))
    images = images.float().view(-1, 1, 8, 8) / 16
    torch.manual_seed(seed)
    body = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), *([nn.BatchNorm1d(32)] if norm else []), nn.Linear(32, 10)]
    model = nn.Sequential(*body, *last)
    criterion = opl.regularize(base or nn.CrossEntropyLoss(), model, weight=weight, gamma=gamma)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    step, sentences = 0, []
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(rows):  # the last has 5 images of 32, or 5 of 128
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                loss = criterion(model(images[batch]), labels[batch])
            step += 1
            sentences += [(step, str(warning.message)) for warning in caught]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return step // epochs, [(step, sentence) for step, sentence in sentences if "collapse" in sentence]


@pytest.mark.parametrize("weight", [1.0, 3.0, 10.0])
def test_the_collapse_of_a_plain_network_is_reported_within_an_epoch(weight):
    for seed in range(3):
        epoch, [(step, sentence)] = collapse_warnings(seed, weight, 2.0, norm=False, epochs=1)
        assert step <= epoch
        assert "features collapse" in sentence
        assert "opl.Ramp" in sentence


HEALTHY = [  # weight, gamma, batch norm, epochs, base, rows of a batch
    (1.0, 0.5, True, 2, None, 32),
    (0.1, 1.0, True, 2, opl.losses.FocalLoss(), 32),
    (1.0, 0.5, True, 3, nn.CrossEntropyLoss(label_smoothing=0.1), 128),
    (0.1, 1.0, False, 3, None, 32),
    (1.0, 0.5, False, 3, opl.losses.FocalLoss(), 32),
    (1.0, 0.5, False, 5, nn.CrossEntropyLoss(label_smoothing=0.1), 128),
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", HEALTHY, ids=str)
def test_healthy_runs_get_no_warning_of_a_collapse(settings):
    for seed in range(4):
        assert collapse_warnings(seed, *settings)[1] == []


def test_norms_of_half_precision_do_not_overflow_and_short_rows_have_no_direction():
    model = nn.Linear(4, 3)
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, features=lambda output: output[1], weight=0.1)
    features = torch.full((6, 4), 6e4, dtype=torch.float16)
    features[0] = 1e-6
    logits = model(torch.randn(6, 4))
    criterion((logits, features.requires_grad_()), torch.arange(6) % 3)
    assert float(criterion.last.feature_norm) == pytest.approx(5 / 6 * 2 * 6e4, rel=1e-3)
    assert float(criterion.last.zero_features) == pytest.approx(1 / 6)
