"""`reduction` and `ignore_index` of every loss, vs loops over samples and PyTorch's cross-entropy."""

import pytest
import torch
from torch.nn import functional as F

from _loss_features import CENTERS, CLASSES, DIM
from _said import says
from opl import errors
from opl.losses import (
    AnchorLoss,
    CenterLoss,
    ClassBalancedFocalLoss,
    FocalLoss,
    GeneralizedCrossEntropyLoss,
    KnowledgeDistillationLoss,
    LogitAdjustmentLoss,
    NegativeCAMLoss,
    NTXentLoss,
    OLELoss,
    OrthogonalProjectionLoss,
    PerpetualProjectionLoss,
    TruncatedLoss,
    update_centers,
)
from opl.losses.truncated import cross_entropies, keep_mask

ROWS = 9
IGNORED = {-100: [1, 4, 8], 255: [0, 1, 2, 3, 5, 6, 7, 8], 2: [3]}  # by ignore_index, the rows; 2 is also a class
TEACHER = torch.randn(ROWS, CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


def fixed_centers(**options):
    loss = CenterLoss(DIM, num_classes=CLASSES, **options).eval()
    loss.centers = CENTERS
    return loss


def directions(version, **options):
    loss = PerpetualProjectionLoss(DIM, num_classes=CLASSES, version=version, **options).double()
    loss.centers.data = CENTERS.double()
    return loss


def taught(**options):
    loss = KnowledgeDistillationLoss(temperature=2.0, **options)
    return lambda x, y, rows=slice(None): loss(x, TEACHER[rows], y)


LOGITS, MAPS = (CLASSES,), (CLASSES, 2, 3)
SAMPLES = {  # by name, the shape of a sample and how to build the loss
    "focal": (LOGITS, FocalLoss),
    "sigmoid focal": (LOGITS, lambda **options: FocalLoss(form="sigmoid", **options)),
    "class-balanced focal": (LOGITS, lambda **options: ClassBalancedFocalLoss([1, 2, 3, 4, 5], **options)),
    "logit adjustment": (LOGITS, lambda **options: LogitAdjustmentLoss([1, 2, 3, 4, 5], **options)),
    "anchor": (LOGITS, AnchorLoss),
    "pos anchor": (LOGITS, lambda **options: AnchorLoss(variant="pos", **options)),
    "warming anchor": (LOGITS, lambda **options: AnchorLoss(warmup=1000, **options)),
    "lq": (LOGITS, GeneralizedCrossEntropyLoss),
    "truncated lq": (LOGITS, lambda **options: TruncatedLoss(k=0.2, **options)),
    "knowledge": (LOGITS, taught),
    "center": ((DIM,), fixed_centers),
    "hnc, kd": (MAPS, lambda **options: NegativeCAMLoss(k=2, **options)),
    "hnc, mse": (MAPS, lambda **options: NegativeCAMLoss(k=2, form="mse", **options)),
}
BATCHES = {
    "opl": OrthogonalProjectionLoss,
    "ole": OLELoss,
    "nt-xent": NTXentLoss,
    "perpetual 1": lambda **options: directions(1, **options),
    "perpetual 2": lambda **options: directions(2, **options),
}


def batch(shape, ignore_index, rows=None):
    """Input that wants a gradient, labels with `ignore_index` in the ignored rows, and the rows that are kept."""
    chance = torch.Generator().manual_seed(3)
    x = torch.randn(ROWS, *shape, dtype=torch.float64, generator=chance)
    ignored = IGNORED[ignore_index] if rows is None else rows
    labels = torch.tensor([0, 1, 3, 4, 3, 1, 0, 4, 1])
    labels[ignored] = ignore_index
    return x.requires_grad_(), labels, [i for i in range(ROWS) if i not in ignored]


def alone(name, x, i, label):
    """The value of one sample, from a batch of nothing else."""
    loss = SAMPLES[name][1](ignore_index=-1)
    rows, label = slice(i, i + 1), torch.tensor([label])
    return loss(x[rows], label, rows) if name == "knowledge" else loss(x[rows], label)


def assert_same(got, expected, x):
    torch.testing.assert_close(got, expected)
    weights = torch.arange(1.0, got.numel() + 1, dtype=got.dtype).view(got.shape)
    gradients = [torch.autograd.grad((weights * each).sum(), x, retain_graph=True)[0] for each in (got, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("ignore_index", IGNORED)
@pytest.mark.parametrize("name", SAMPLES)
def test_mean_sum_and_none_are_those_of_a_loop_over_the_kept_samples(name, ignore_index):
    shape, build = SAMPLES[name]
    x, labels, kept = batch(shape, ignore_index)
    each = [alone(name, x, i, int(labels[i])) if i in kept else 0 * x[i].sum() for i in range(ROWS)]
    total = sum(each)
    expected = {"none": torch.stack(each), "sum": total, "mean": total / len(kept)}
    for reduction, value in expected.items():
        assert_same(build(reduction=reduction, ignore_index=ignore_index)(x, labels), value, x)
    assert_same(build(ignore_index=ignore_index)(x, labels), total / len(kept), x)


ENTROPIES = {
    "focal": lambda **options: FocalLoss(gamma=0.0, **options),
    "logit adjustment": lambda **options: LogitAdjustmentLoss([7] * CLASSES, **options),
    "lq": lambda **options: GeneralizedCrossEntropyLoss(q=0.0, **options),
    "truncated lq": lambda **options: TruncatedLoss(q=0.0, k=1e-9, **options),
    "warming anchor": lambda **options: AnchorLoss(warmup=1000, **options),
}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignore_index", IGNORED)
@pytest.mark.parametrize("name", ENTROPIES)
def test_where_it_is_cross_entropy_it_ignores_as_pytorch_does(name, ignore_index, reduction):
    x, labels, _ = batch(LOGITS, ignore_index)
    options = {"reduction": reduction, "ignore_index": ignore_index}
    assert_same(ENTROPIES[name](**options)(x, labels), F.cross_entropy(x, labels, **options), x)


@pytest.mark.parametrize("name", SAMPLES)
def test_if_all_are_ignored_the_mean_is_0_where_pytorch_gives_nan(name):
    shape, build = SAMPLES[name]
    x, labels, _ = batch(shape, -100, rows=list(range(ROWS)))
    assert F.cross_entropy(torch.randn(ROWS, 3), labels).isnan()
    for reduction, size in (("mean", ()), ("sum", ()), ("none", (ROWS,))):
        value = build(reduction=reduction)(x, labels)
        assert torch.equal(value, torch.zeros(size, dtype=torch.float64))
        assert not torch.autograd.grad(value.sum(), x)[0].any()


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_broken_row_that_is_ignored_reaches_neither_the_value_nor_a_gradient(name, broken):
    shape, build = SAMPLES[name]
    x, labels, _ = batch(shape, -100)
    value = build()(x, labels)
    (slope,) = torch.autograd.grad(value, x)
    worse = x.detach().clone()
    worse[IGNORED[-100]] = broken
    again = build()(worse.requires_grad_(), labels)
    torch.testing.assert_close(again, value, rtol=0, atol=0)
    torch.testing.assert_close(torch.autograd.grad(again, worse)[0], slope, rtol=0, atol=0)


@pytest.mark.parametrize("ignore_index", [-100, 2])
@pytest.mark.parametrize("name", BATCHES)
def test_a_loss_of_the_batch_is_that_of_the_kept_rows(name, ignore_index):
    x, labels, kept = batch((DIM,), ignore_index)
    got = BATCHES[name](ignore_index=ignore_index)(x, labels)
    assert_same(got, BATCHES[name](ignore_index=-1)(x[kept], labels[kept]), x)


@pytest.mark.parametrize("name", BATCHES)
def test_a_loss_of_the_batch_without_rows_is_that_of_an_empty_batch(name):
    x, labels, _ = batch((DIM,), -100, rows=list(range(ROWS)))
    value = BATCHES[name]()(x, labels)
    assert value.item() == (1 if name == "opl" else 0)
    assert not torch.autograd.grad(value, x)[0].any()


def test_ignored_rows_move_no_center():
    x, labels, kept = batch((DIM,), -100)
    expected = update_centers(x[kept], labels[kept], CENTERS)
    torch.testing.assert_close(update_centers(x, labels, CENTERS), expected)
    loss = fixed_centers().train()
    loss(x, labels)
    torch.testing.assert_close(loss.centers, expected)
    assert not torch.equal(loss.centers, CENTERS)


def test_cross_entropies_and_pruning_exclude_ignored_rows():
    x, labels, kept = batch(LOGITS, -100)
    entropy = F.cross_entropy(x, labels, reduction="none")
    torch.testing.assert_close(cross_entropies(x, labels), entropy)
    expected = [i in kept and entropy[i].exp().item() < 1 / 0.2 for i in range(ROWS)]
    assert keep_mask(x, labels, k=0.2).tolist() == expected
    assert 0 < sum(expected) < len(kept)


@pytest.mark.parametrize("name", ["focal", "truncated lq", "knowledge", "center", "hnc, mse", "perpetual 2", "nt-xent"])
def test_compiling_ignores_the_same_rows_although_no_label_can_be_read(name):
    torch._dynamo.reset()
    shape, build = SAMPLES[name] if name in SAMPLES else ((DIM,), BATCHES[name])
    x, labels, _ = batch(shape, -100)
    loss = build()
    compiled = torch.compile(lambda x, labels: loss(x, labels), fullgraph=True, backend="aot_eager")
    for rows in (IGNORED[-100], [], list(range(ROWS))):
        x, labels, _ = batch(shape, -100, rows=rows)
        assert_same(compiled(x, labels), loss(x, labels), x)


@pytest.mark.parametrize("name", [*SAMPLES, *BATCHES])
def test_a_fractional_ignore_index_and_an_unknown_reduction_are_refused(name):
    build = SAMPLES[name][1] if name in SAMPLES else BATCHES[name]
    says(lambda: build(ignore_index=0.5), errors.OptionError, ["ignore_index is 0.5", "integer"])
    if name in SAMPLES:
        says(lambda: build(reduction="avg"), errors.OptionError, ["'avg'", "'mean'"])
