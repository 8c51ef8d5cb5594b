"""Geometry does not depend on batches or order, and equals its definition."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from _batches import batches
from _contract import through_a_file
from _every_pair import NUMBERS, every_pair, exactly, numbers
from opl import orthogonal_projection
from opl.geometry import Geometry, measure

IGNORED = -100
SEEDS = st.integers(0, 2**31)


@st.composite
def samples(draw):
    """Features with class ids below 9, some of them ignored."""
    features, labels = draw(batches())
    if labels.ndim == 2:
        labels = torch.where((labels == IGNORED).all(1), IGNORED, labels.argmax(1))
    ids = sorted(set(labels.tolist()) - {IGNORED})
    return features, torch.tensor([IGNORED if label == IGNORED else ids.index(label) for label in labels.tolist()])


def pieces(draw, size: int) -> list[torch.Tensor]:
    """The indices 0 to `size - 1` in any order, split anywhere; some parts are empty."""
    order = torch.tensor(draw(st.permutations(range(size))), dtype=torch.long)
    cuts = sorted(draw(st.lists(st.integers(0, size), max_size=4)))
    return [order[low:high] for low, high in zip([0, *cuts], [*cuts, size], strict=True)]


def assert_alike(one: Geometry, other: Geometry) -> None:
    assert torch.equal(one.counts, other.counts)
    assert torch.equal(one.directed, other.directed)
    assert bool(one.negative) == bool(other.negative)
    torch.testing.assert_close(one.unit_sums, other.unit_sums, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(one.raw_sums, other.raw_sums, rtol=1e-10, atol=1e-10 * one.raw_sums.abs().max().item())
    assert numbers(one) == exactly(numbers(other), 1e-8)


@given(samples(), st.data())
def test_any_split_streams_to_the_numbers_of_one_pass(batch, data):
    features, labels = batch
    whole = measure(features, labels, num_classes=9)
    streamed = Geometry(features.shape[1], num_classes=9)
    for piece in pieces(data.draw, len(labels)):
        streamed.update(features[piece], labels[piece])
    assert_alike(streamed, whole)


@given(samples(), st.data())
def test_merging_parts_in_any_order_gives_the_numbers_of_one_pass(batch, data):
    features, labels = batch
    parts = [measure(features[piece], labels[piece], num_classes=9) for piece in pieces(data.draw, len(labels))]
    while len(parts) > 1:
        first, second = data.draw(st.permutations(range(len(parts))))[:2]
        kept = through_a_file(parts[second].state_dict())
        merged = Geometry(features.shape[1], num_classes=9).merge(parts[first]).merge(parts[second])
        assert_alike(parts[second], Geometry(features.shape[1], num_classes=9).load_state_dict(kept))
        parts = [part for place, part in enumerate(parts) if place not in (first, second)] + [merged]
    assert_alike(parts[0], measure(features, labels, num_classes=9))


@given(samples())
def test_numbers_equal_a_loop_over_every_pair(batch):
    features, labels = batch
    scaled = features / features.abs().amax(1, keepdim=True).clamp(min=1e-300)  # a square of 1e-180 is 0 in the loop
    expected = every_pair(scaled, labels)
    geometry = measure(features[:, :, None, None], labels[:, None].int())  # pooled maps, and a column of labels
    assert numbers(geometry) == exactly({name: expected[name] for name in NUMBERS}, 1e-8)
    assert geometry.other("mean") == exactly(expected["mean"], 1e-8)
    assert geometry.orthogonality(gamma=0.25) == exactly(1 - expected["s"] + 0.25 * expected["d"], 1e-8)
    assert geometry.expected_orthogonality("mean") == exactly(expected["mean of Eq. 8"], 1e-8)


@given(samples(), st.sampled_from(["mean", "abs_mean", "mean_abs"]))
def test_s_and_d_equal_those_of_the_loss(batch, form):
    features, labels = batch
    features = features.abs() if form == "mean_abs" else features
    found = orthogonal_projection(features, labels, form=form)
    geometry = measure(features, labels)
    assert geometry.same == exactly(found.same.item(), 1e-8)
    assert geometry.other(form) == exactly(found.other.item(), 1e-8)


@given(samples(), SEEDS)
def test_classes_in_another_order_reorder_the_matrices_and_change_no_number(batch, seed):
    features, labels = batch
    order = torch.randperm(9, generator=torch.Generator().manual_seed(seed))
    renamed = torch.where(labels == IGNORED, IGNORED, order[labels.clamp(min=0)])
    before, after = (measure(features, each, num_classes=9) for each in (labels, renamed))
    assert numbers(after) == exactly(numbers(before), 1e-8)
    close = {"rtol": 1e-8, "atol": 1e-8, "equal_nan": True}
    torch.testing.assert_close(after.class_cosines()[order][:, order], before.class_cosines(), **close)
    for of in ("raw", "unit"):
        torch.testing.assert_close(after.class_similarity(of)[order][:, order], before.class_similarity(of), **close)


@given(samples(), SEEDS)
def test_rotating_and_stretching_features_changes_no_number(batch, seed):
    features, labels = batch
    chance = torch.Generator().manual_seed(seed)
    turn = torch.linalg.qr(torch.randn(features.shape[1], features.shape[1], dtype=torch.float64, generator=chance))[0]
    lengths = 10 ** (12 * torch.rand(len(labels), 1, dtype=torch.float64, generator=chance) - 6)
    before, after = measure(features, labels), measure(features @ turn * lengths, labels)
    assert numbers(after) == exactly(numbers(before), 1e-8)


@given(samples())
def test_saved_sums_restore_the_geometry(batch):
    features, labels = batch
    before = measure(features, labels, num_classes=9)
    after = Geometry(features.shape[1], num_classes=9).load_state_dict(through_a_file(before.state_dict()))
    assert_alike(after, before)
    after.update(features, labels)
    assert torch.equal(before.counts * 2, after.counts)
