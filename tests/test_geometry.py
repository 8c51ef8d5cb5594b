"""Geometry vs a double loop over all pairs, its precision, and its errors."""

import math

import pytest
import torch
import torch.nn.functional as F

import opl.geometry
from _every_pair import KINDS, NUMBERS, cosine, every_pair, exactly, mean, numbers, some
from _said import refuses
from opl import orthogonal_projection
from opl.errors import DistributedError, FeatureError, LabelError, OptionError
from opl.geometry import Geometry, measure


@pytest.mark.parametrize("kind", KINDS)
def test_class_cosines_equal_the_double_loop_and_are_nan_for_absent_classes(kind):
    features, labels = some(kind)
    expected = every_pair(features, labels)["matrix"]
    found = measure(features, labels, num_classes=7).class_cosines()
    assert found.tolist() == [exactly([expected.get((i, j), math.nan) for j in range(7)]) for i in range(7)]


def test_mean_abs_raises_after_a_negative_feature():
    features, labels = some("without a negative")
    geometry = measure(features, labels)
    assert geometry.other("mean_abs") == exactly(every_pair(features, labels)["mean_abs"])
    geometry.update(-torch.eye(5)[:1], torch.tensor([1]))
    with pytest.raises(OptionError, match=r"some features are negative: use form='abs_mean' or 'mean'"):
        geometry.other("mean_abs")


def test_negative_value_in_an_ignored_row_does_not_count():
    features, labels = some("without a negative")
    labels[3], features[3] = -100, -1.0
    assert measure(features, labels).other("mean_abs") == exactly(every_pair(features, labels)["mean_abs"])


@pytest.mark.parametrize("ignore_index", [-100, 1, -1])
def test_ignored_rows_are_excluded(ignore_index):
    features, labels = some("signed")
    labels[::3] = ignore_index
    expected = every_pair(features, labels, ignore_index)
    geometry = measure(features, labels, num_classes=4, ignore_index=ignore_index)
    assert numbers(geometry) == exactly({name: expected[name] for name in NUMBERS})
    assert geometry.counts.sum() == (labels != ignore_index).sum()


def test_measures_of_no_samples_are_means_over_no_pairs():
    nothing = {"s": 0.0, "d": 0.0, "orthogonality": 1.0, "expected_orthogonality": 0.0}
    ignored = measure(torch.ones(3, 2), torch.full((3,), -100))
    empty = Geometry(2, num_classes=3).update(torch.ones(0, 2), torch.ones(0, dtype=torch.long))
    for geometry in (Geometry(2, num_classes=3), ignored, empty):
        assert numbers(geometry) == nothing
        assert geometry.expected_orthogonality("mean") == 0
        assert geometry.class_cosines().isnan().all()


def test_zero_features_count_in_pairs_with_a_cosine_of_zero():
    features = torch.tensor([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
    geometry = measure(features, torch.tensor([0, 0, 0, 1]))
    assert geometry.same == exactly(1 / 3)  # one of three pairs has a direction on both sides
    assert geometry.other() == 0
    assert geometry.counts.tolist() == [3, 1]


def test_perfectly_orthogonal_classes_have_s_1_d_0_and_eq_8_zero():
    labels = torch.arange(6) % 3
    geometry = measure(F.one_hot(labels).float() * torch.arange(1, 7)[:, None], labels)
    assert numbers(geometry) == {"s": 1.0, "d": 0.0, "orthogonality": 0.0, "expected_orthogonality": 0.0}
    assert torch.equal(geometry.class_cosines(), torch.eye(3, dtype=torch.float64))


def test_collapsed_features_have_s_and_d_1():
    geometry = measure(torch.tensor([3.0, 4.0]).expand(12, 2), torch.arange(12) % 3)
    assert numbers(geometry) == exactly({"s": 1.0, "d": 1.0, "orthogonality": 1.0, "expected_orthogonality": 6.0})


@pytest.mark.parametrize(("kept_in", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_one_pair_among_thousands_of_singletons_is_precise(monkeypatch, kept_in, tolerance):
    monkeypatch.setattr(opl.geometry, "accumulation_dtype", lambda _: kept_in)  # fp32 as on mps
    features = torch.randn(3000, 16, generator=torch.Generator().manual_seed(1)) + 100  # all nearly parallel
    features[7], features[2100] = torch.eye(16)[0], torch.eye(16)[0] + torch.eye(16)[1] * 3
    labels = torch.arange(3000)
    labels[2100] = labels[7]
    geometry = measure(features, labels)
    assert geometry.unit_sums.dtype == kept_in
    assert geometry.same == exactly(1 / math.sqrt(10), tolerance)


def test_one_sample_vs_a_class_of_thousands_is_precise():
    features = torch.randn(5000, 16, generator=torch.Generator().manual_seed(2)) + 100
    labels = torch.zeros(5000, dtype=torch.long)
    labels[77] = 1
    features[77] = torch.tensor([1.0, -1.0] * 8) + 1e-3  # nearly at a right angle to the rest
    expected = mean([cosine(row, features[77].tolist()) for i, row in enumerate(features.tolist()) if i != 77])
    assert measure(features, labels).other("mean") == exactly(expected, 1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_class_similarity_equals_the_cosine_between_class_means(kind):
    features, labels = some(kind)
    units = F.normalize(features, dim=1)
    geometry = measure(features, labels, num_classes=7)
    for found, rows in ((geometry.class_similarity(), features), (geometry.class_similarity("unit"), units)):
        means = torch.stack([rows[labels == c].mean(0) for c in range(7)])  # NaN for an absent class
        expected = F.cosine_similarity(means[:, None], means[None], dim=2)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10, equal_nan=True)


def test_raw_and_unit_class_averages_differ_where_lengths_differ():
    features, labels = torch.tensor([[9.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0, 1])
    geometry = measure(features, labels)
    assert geometry.class_similarity("raw")[0, 1].item() == exactly(1 / math.sqrt(82))
    assert geometry.class_similarity("unit")[0, 1].item() == exactly(1 / math.sqrt(2))


def test_a_class_whose_average_is_zero_has_similarity_zero():
    features = torch.tensor([[1.0, 2.0], [-1.0, -2.0], [1.0, 0.0]])
    assert measure(features, torch.tensor([0, 0, 1])).class_similarity().tolist() == [[0, 0], [0, 1]]


def test_feature_that_underflows_has_no_direction_as_in_the_loss():
    features = torch.tensor([[1.0, 0.0], [1e-40, 0.0], [3.0, 0.0], [0.0, 1.0]])
    labels = torch.tensor([0, 0, 0, 1])
    assert measure(features, labels).same == exactly(1 / 3)
    assert measure(features.double(), labels).same == exactly(1.0)
    assert orthogonal_projection(features, labels).same.item() == exactly(1 / 3, 1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_is_computed_in_full_precision_also_under_autocast(dtype):
    features, labels = some("signed")
    features = (features * 2000).to(dtype)  # a square of these is infinite in fp16
    expected = every_pair(features, labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = numbers(measure(features, labels))
    assert found == exactly({name: expected[name] for name in NUMBERS})


def test_gradients_are_never_tracked():
    features, labels = some("signed")
    geometry = measure(features.requires_grad_(), labels)
    assert not any(state.requires_grad for state in geometry.state_dict().values())
    assert not geometry.class_similarity().requires_grad


ROW, ONE = torch.ones(2, 3), torch.tensor([0, 1])
ERRORS = {
    "label too large": (
        lambda: Geometry(3, num_classes=3).update(ROW, torch.tensor([0, 5])),
        LabelError,
        ["label 5", "num_classes=6"],
    ),
    "label negative": (lambda: measure(ROW, torch.tensor([0, -3])), LabelError, ["label -3", "ignore_index"]),
    "labels soft": (lambda: measure(ROW, torch.eye(2)), LabelError, ["soft", "argmax"]),
    "labels missing": (lambda: measure(ROW, ONE[:1]), LabelError, ["1 labels for 2 features", "one label"]),
    "wrong dim": (
        lambda: Geometry(4, num_classes=2).update(ROW, ONE),
        FeatureError,
        ["dimension 3", "feature_dim=3"],
    ),
    "wrong shape": (lambda: measure(ROW[None], ONE), FeatureError, ["(1, 2, 3)", "(B, D)"]),
    "not finite": (lambda: measure(ROW / 0, ONE), FeatureError, ["infinite", "check the batch"]),
    "ignore_index": (lambda: measure(ROW, ONE, ignore_index=0.5), OptionError, ["ignore_index is 0.5", "integer"]),
    "no classes": (lambda: Geometry(3, num_classes=0), OptionError, ["num_classes is 0", "at least 1"]),
    "a fractional dim": (lambda: Geometry(2.0, num_classes=3), OptionError, ["feature_dim is 2.0", "an integer"]),
    "a true number": (lambda: Geometry(2, num_classes=True), OptionError, ["num_classes is True", "an integer"]),
    "merging shapes": (
        lambda: Geometry(2, num_classes=3).merge(Geometry(4, num_classes=3)),
        OptionError,
        ["3 classes, dimension 4", "3 classes, dimension 2"],
    ),
    "merging a dict": (lambda: Geometry(2, num_classes=3).merge({}), OptionError, ["a dict", "another Geometry"]),
    "form": (
        lambda: Geometry(2, num_classes=2).other("absmean"),
        OptionError,
        ["'absmean'", "did you mean 'abs_mean'"],
    ),
    "gamma": (lambda: Geometry(2, num_classes=2).orthogonality(math.inf), OptionError, ["gamma is inf", "finite"]),
    "reduction": (lambda: Geometry(2, num_classes=2).expected_orthogonality("summ"), OptionError, ["'summ'", "'sum'"]),
    "of": (lambda: Geometry(2, num_classes=2).class_similarity("units"), OptionError, ["'units'", "'unit'"]),
    "state names": (
        lambda: Geometry(2, num_classes=2).load_state_dict({"counts": ONE}),
        OptionError,
        ["'counts': (2,)", "raw_sums"],
    ),
    "state shape": (
        lambda: Geometry(2, num_classes=2).load_state_dict(Geometry(2, num_classes=1).state_dict()),
        OptionError,
        ["'unit_sums': (1, 2)", "'unit_sums': (2, 2)"],
    ),
    "no processes": (lambda: Geometry(2, num_classes=2).all_reduce(), DistributedError, ["none", "init_process_group"]),
}


test_invalid_input_is_refused_in_one_sentence = refuses(ERRORS)


def test_invalid_batch_leaves_the_sums_unchanged():
    geometry = measure(torch.eye(3), torch.arange(3))
    before = numbers(geometry)
    with pytest.raises(LabelError):
        geometry.update(torch.ones(2, 3), torch.tensor([0, 3]))
    assert numbers(geometry) == before
    assert geometry.counts.tolist() == [1, 1, 1]


def test_the_summary_has_the_d_that_the_loss_penalizes_on_signed_features():
    torch.manual_seed(0)
    features, labels = torch.randn(40, 6), torch.arange(40) % 4
    for x in (features, features.abs()):
        expected = opl.orthogonal_projection(x, labels).other.item()
        assert opl.geometry.summarize(x, labels)["d"] == pytest.approx(expected, rel=1e-5)
