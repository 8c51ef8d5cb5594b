"""Wrong labels come from their matrix, are counted one by one, and are the same for every method and split."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from opl.experiments.data.noisy_labels import NoiseMatrix, PairFlip, UniformNoise, corrupt_labels, draw_labels
from opl.experiments.types import Images, Splits

SEEDS = st.integers(0, 2**31)


@st.composite
def matrices(draw, classes: int = 0):
    """Transition matrices with zeros and ones in them, of 2 to 6 classes or of a given number."""
    classes = classes or draw(st.integers(2, 6))
    generator = torch.Generator().manual_seed(draw(SEEDS))
    matrix = torch.rand(classes, classes, dtype=torch.float64, generator=generator)
    matrix[torch.rand(matrix.shape, generator=generator) < draw(st.sampled_from([0.0, 0.5, 0.9]))] = 0
    matrix[matrix.sum(1) == 0] = torch.eye(classes, dtype=torch.float64)[matrix.sum(1) == 0]
    return matrix / matrix.sum(1, keepdim=True)


@st.composite
def splits(draw, classes: int):
    """A source of labels, divided at random into training, validation, test and rows that nobody uses."""
    labels = torch.tensor(draw(st.lists(st.integers(0, classes - 1), min_size=4, max_size=40)))
    order = torch.tensor(draw(st.permutations(range(len(labels)))))
    cuts = sorted(draw(st.lists(st.integers(0, len(labels)), min_size=3, max_size=3)))
    pixels = torch.zeros(len(labels), 1, 1, 1, dtype=torch.uint8)
    train, val, test = (Images(pixels, labels, order[low:high]) for low, high in zip([0, *cuts[:2]], cuts, strict=True))
    return Splits(train, val, test, tuple(f"class {each}" for each in range(classes)), "drawn")


@given(matrices(), st.lists(st.integers(0, 1000), min_size=1, max_size=200), SEEDS)
def test_a_label_becomes_only_what_its_row_allows_and_the_seed_decides(matrix, numbers, seed):
    labels = torch.tensor(numbers) % len(matrix)
    drawn = draw_labels(labels, matrix, seed)
    assert drawn.shape == labels.shape
    assert (matrix[labels, drawn] > 0).all()
    torch.manual_seed(seed)
    assert torch.equal(draw_labels(labels, matrix, seed), drawn)
    assert torch.equal(draw_labels(labels[:7], matrix, seed), drawn[:7])


@given(st.data(), st.floats(0, 0.99), st.sampled_from([UniformNoise, PairFlip]), SEEDS)
def test_only_wrong_labels_are_counted_and_nothing_else_is_touched(data, rate, kind, seed):
    classes = data.draw(st.integers(2, 6))
    before = data.draw(splits(classes))
    noisy = corrupt_labels(before, kind(rate), seed)
    assert noisy.splits.test is before.test
    for name, old, new in (
        ("train", before.train, noisy.splits.train),
        ("val", before.val, noisy.splits.val),
    ):
        rows = old.rows.tolist()
        wrong = [old.labels[row].item() != new.labels[row].item() for row in rows]
        assert noisy.wrong[name].tolist() == wrong
        counts = [[0] * classes for _ in range(classes)]
        for row in rows:
            counts[old.labels[row]][new.labels[row]] += 1
        assert noisy.counts[name].tolist() == counts
        if rows:
            assert math.isclose(noisy.rates()[name], sum(wrong) / len(rows))
        others = [row for row in range(len(old.labels)) if row not in set(rows)]
        assert torch.equal(new.labels[others], old.labels[others])
        assert torch.equal(new.rows, old.rows)
        if rate == 0:
            assert not any(wrong)


@given(st.data(), matrices(4), SEEDS)
def test_an_image_has_the_same_wrong_label_in_every_split_of_the_same_source(data, matrix, seed):
    class Drawn(NoiseMatrix):
        def matrix(self, class_names, groups=()):
            return matrix

    first = data.draw(splits(4))
    rows = torch.cat([first.train.rows, first.val.rows])
    turned = rows.flip(0)
    half = len(turned) // 2
    second = first._replace(
        train=Images(first.train.pixels, first.train.labels, turned[:half]),
        val=Images(first.val.pixels, first.val.labels, turned[half:]),
    )
    found = [corrupt_labels(each, Drawn(), seed) for each in (first, second)]
    one, other = (
        dict(zip(torch.cat([s.train.rows, s.val.rows]).tolist(), labels, strict=True))
        for s in (each.splits for each in found)
        for labels in [torch.cat([s.train.labels[s.train.rows], s.val.labels[s.val.rows]]).tolist()]
    )
    assert one == other
    fixed = [corrupt_labels(first, Drawn(seed=5), each).splits.train.labels for each in (seed, seed + 1)]
    assert torch.equal(*fixed)  # noise with a seed of its own does not depend on the seed of the run


@given(matrices(), SEEDS)
def test_shares_of_drawn_labels_are_the_probabilities(matrix, seed):
    """By Hoeffding, a share of 4,000 is off by more than 0.08 once in 10^22 draws."""
    for label, row in enumerate(matrix):
        drawn = draw_labels(torch.full((4000,), label), matrix, seed)
        shares = torch.bincount(drawn, minlength=len(matrix)) / 4000
        assert (shares - row).abs().max() < 0.08


@given(st.integers(2, 8), st.floats(0, 0.999))
def test_a_rate_is_what_leaves_the_diagonal(classes, rate):
    for kind in (UniformNoise, PairFlip):
        matrix = kind(rate).matrix([str(each) for each in range(classes)])
        torch.testing.assert_close(matrix.sum(1), torch.ones(classes, dtype=torch.float64))
        torch.testing.assert_close(matrix.diagonal(), torch.full((classes,), 1 - rate, dtype=torch.float64))
        assert (matrix >= 0).all()
