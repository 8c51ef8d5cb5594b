"""What may not change the loss, for every form, algorithm and kind of label: order, names, rotation, lengths."""

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from _batches import FORMS, algorithms_for, batches
from opl import orthogonal_projection

IGNORED = -100
SEEDS = st.integers(0, 2**31)
EXACT = {"rtol": 1e-9, "atol": 1e-9}


def value_and_gradient(features: Tensor, labels: Tensor, form: str, algorithm: str, **more) -> tuple[Tensor, Tensor]:
    """The loss with s and d, and the gradient of each row times the length of the row, which no length changes."""
    x = features.clone().requires_grad_()
    found = orthogonal_projection(x, labels, form=form, algorithm=algorithm, **more)
    (gradient,) = torch.autograd.grad(found.loss, x)
    return torch.stack(found).detach(), gradient * features.double().norm(dim=1, keepdim=True)


def is_smooth(features: Tensor, labels: Tensor, form: str) -> bool:
    """Whether no absolute value in the loss is of a number near 0, where its derivative jumps."""
    if form == "abs_mean":
        return orthogonal_projection(features, labels, form=form).other.abs().item() > 1e-6
    unit = torch.nn.functional.normalize(features / features.abs().amax(1, keepdim=True).clamp(min=1e-300), dim=1)
    return form == "mean" or bool(((unit @ unit.T).abs() > 1e-6).all())


def rotation(dim: int, seed: int) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(dim, dim, dtype=torch.float64, generator=chance))[0]


def shuffled(size: int, seed: int) -> Tensor:
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))


@given(batches(), st.sampled_from(FORMS), SEEDS)
def test_the_order_of_the_batch_does_not_matter(batch, form, seed):
    features, labels = batch
    order = shuffled(len(labels), seed)
    for algorithm in algorithms_for(features, labels, form):
        value, gradient = value_and_gradient(features, labels, form, algorithm)
        again, moved = value_and_gradient(features[order], labels[order], form, algorithm)
        torch.testing.assert_close(again, value, **EXACT)
        torch.testing.assert_close(moved, gradient[order], **EXACT)


@given(batches(), st.sampled_from(FORMS), st.data())
def test_the_names_of_the_classes_do_not_matter(batch, form, data):
    features, labels = batch
    if labels.ndim == 1:
        old = sorted(set(labels.tolist()) - {IGNORED})
        names = data.draw(st.lists(st.integers(0, 2**62), min_size=len(old), max_size=len(old), unique=True))
        new = dict(zip(old, names, strict=True))
        renamed = torch.tensor([new.get(label, IGNORED) for label in labels.tolist()])
    else:
        renamed = labels[:, shuffled(labels.shape[1], data.draw(SEEDS))]
    for algorithm in algorithms_for(features, labels, form):
        value, gradient = value_and_gradient(features, labels, form, algorithm)
        again, same = value_and_gradient(features, renamed, form, algorithm)
        torch.testing.assert_close(again, value, **EXACT)
        torch.testing.assert_close(same, gradient, **EXACT)


@given(batches(), st.sampled_from(FORMS), SEEDS)
def test_a_rotation_of_the_feature_space_does_not_matter(batch, form, seed):
    features, labels = batch
    turn = rotation(features.shape[1], seed)
    turned = features @ turn
    smooth = is_smooth(features, labels, form)
    value, gradient = value_and_gradient(features, labels, form, "pairs")
    for algorithm in algorithms_for(turned, labels, form):
        again, found = value_and_gradient(turned, labels, form, algorithm)
        torch.testing.assert_close(again, value, **EXACT)
        if smooth:
            torch.testing.assert_close(found, gradient @ turn, rtol=1e-7, atol=1e-7)


@given(batches(), st.sampled_from(FORMS), SEEDS, st.floats(0, 12))
def test_the_lengths_of_the_features_do_not_matter(batch, form, seed, decades):
    features, labels = batch
    chance = torch.Generator().manual_seed(seed)
    lengths = 10 ** (decades * (2 * torch.rand(len(labels), 1, dtype=torch.float64, generator=chance) - 1))
    for algorithm in algorithms_for(features, labels, form):
        value, gradient = value_and_gradient(features, labels, form, algorithm)
        again, found = value_and_gradient(features * lengths, labels, form, algorithm)
        torch.testing.assert_close(again, value, **EXACT)
        if is_smooth(features, labels, form):
            torch.testing.assert_close(found, gradient, rtol=1e-7, atol=1e-7)


@given(batches(), st.sampled_from(FORMS), st.one_of(st.integers(-(2**40), -1), st.integers(10**6, 2**50)))
def test_ignored_rows_are_as_if_they_were_not_there_whatever_their_mark(batch, form, mark):
    features, labels = batch
    if labels.ndim == 2:
        mark = mark % 2**15 + 2  # a number that every float type holds
    ignored = (labels == IGNORED) if labels.ndim == 1 else (labels == IGNORED).all(1)
    marked = labels.clone()
    marked[ignored] = mark
    rest = features[~ignored], labels[~ignored]
    for algorithm in algorithms_for(features, labels, form):
        value, gradient = value_and_gradient(features, marked, form, algorithm, ignore_index=mark)
        assert not gradient[ignored].any()
        alone, found = value_and_gradient(*rest, form, "pairs")
        torch.testing.assert_close(value, alone, **EXACT)
        if is_smooth(*rest, form):
            torch.testing.assert_close(gradient[~ignored], found, rtol=1e-7, atol=1e-7)


@given(batches(), st.sampled_from(FORMS))
def test_one_hot_rows_are_class_ids(batch, form):
    features, labels = batch
    assume(labels.ndim == 1)
    ids = sorted(set(labels.tolist()) - {IGNORED})
    ids = ids if len(ids) > 1 else [*ids, -1, -2]  # a single column of floats is refused; no sample is in these classes
    rows = torch.tensor([[float(label == one) for one in ids] for label in labels.tolist()], dtype=torch.float64)
    rows[labels == IGNORED] = IGNORED
    value, gradient = value_and_gradient(features, labels, form, "pairs")
    for algorithm in algorithms_for(features, rows, form):
        again, found = value_and_gradient(features, rows, form, algorithm)
        torch.testing.assert_close(again, value, **{"rtol": 0, "atol": 0} if algorithm == "pairs" else EXACT)
        if is_smooth(features, labels, form):
            torch.testing.assert_close(found, gradient, rtol=1e-7, atol=1e-7)


@given(batches(), st.sampled_from(FORMS), st.sampled_from([torch.float16, torch.bfloat16, torch.float32]))
def test_narrow_types_have_the_loss_of_their_own_values_and_finite_gradients(batch, form, dtype):
    features, labels = batch
    top = torch.finfo(torch.float16).max / 2
    features = (features / features.abs().max().clamp(min=1) * top).to(dtype)
    labels = labels.float() if labels.ndim == 2 else labels
    wide, wide_labels = features.double(), labels.double() if labels.ndim == 2 else labels
    wide[wide.norm(dim=1) <= torch.finfo(torch.float32).tiny] = 0  # too short for a direction in fp32
    expected = torch.stack(orthogonal_projection(wide, wide_labels, form=form, algorithm="pairs"))
    for algorithm in algorithms_for(features, labels, form):
        value, gradient = value_and_gradient(features, labels, form, algorithm)
        assert value.dtype == torch.float32
        assert gradient.isfinite().all()
        torch.testing.assert_close(value.double(), expected, rtol=1e-4, atol=1e-4)


@given(batches(), st.sampled_from(FORMS), st.floats(0, 3))
def test_the_loss_is_its_two_parts_and_both_are_means_of_cosines(batch, form, gamma):
    features, labels = batch
    for algorithm in algorithms_for(features, labels, form):
        loss, same, other = orthogonal_projection(features, labels, gamma=gamma, form=form, algorithm=algorithm)
        torch.testing.assert_close(loss, 1 - same + gamma * other, **EXACT)
        assert abs(same) <= 1 + 1e-9
        assert (-1 - 1e-9 if form == "mean" else 0) <= other <= 1 + 1e-9
