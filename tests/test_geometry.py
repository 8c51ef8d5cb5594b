import doctest
import math
import pickle
import subprocess
import sys
from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

import opl.geometry
from _gloo import together
from opl import orthogonal_projection
from opl.errors import DistributedError, FeatureError, LabelError, OptionError
from opl.geometry import Geometry, measure

NUMBERS = ("s", "d", "orthogonality", "expected_orthogonality")


def cosine(a, b):
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def mean(values):
    return math.fsum(values) / len(values) if values else 0.0


def every_pair(features, labels, ignore_index=-100):
    """All numbers by a double loop over the samples, on plain Python floats."""
    rows = [(r, c) for r, c in zip(features.double().tolist(), labels.tolist(), strict=True) if c != ignore_index]
    between = {}
    for i, (a, one) in enumerate(rows):
        for j, (b, two) in enumerate(rows):
            if i != j:
                between.setdefault((one, two), []).append(cosine(a, b))
    classes = sorted({label for _, label in rows})
    expected = {(i, j): mean(between[i, j]) if (i, j) in between else 1.0 for i in classes for j in classes}
    others = [value for (i, j), values in between.items() if i != j for value in values]
    s = mean([value for (i, j), values in between.items() if i == j for value in values])
    eq8 = math.fsum(abs(value - (i == j)) for (i, j), value in expected.items())
    return {
        "s": s,
        "mean": mean(others),
        "d": abs(mean(others)),
        "mean_abs": mean([abs(value) for value in others]),
        "orthogonality": (1 - s) + abs(mean(others)),
        "expected_orthogonality": eq8,
        "mean of Eq. 8": eq8 / len(expected) if expected else 0.0,
        "matrix": expected,
    }


def numbers(geometry):
    values = (geometry.same, geometry.other(), geometry.orthogonality(), geometry.expected_orthogonality())
    return dict(zip(NUMBERS, values, strict=True))


def exactly(expected, tolerance=1e-10):
    return pytest.approx(expected, rel=tolerance, abs=tolerance, nan_ok=True)


def some(kind, rows=24, dim=5, classes=4, seed=0):
    """Features and labels of a named kind, in float64."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, dim, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (rows,), generator=generator)
    if kind == "without a negative":
        features = features.relu()
    if kind == "zero rows":
        features[::4] = 0
    if kind == "a singleton and an absent class":
        labels = labels.clamp(max=1)
        labels[5] = 3
    if kind == "only singletons":
        features, labels = features[:6], torch.arange(6)
    if kind == "opposed classes":
        labels = labels % 2
        features[:, 0] += 4 * labels - 2
    if kind == "one class":
        labels = torch.full_like(labels, 2)
    if kind == "one sample":
        features, labels = features[:1], labels[:1]
    return features, labels


KINDS = (
    "signed",
    "without a negative",
    "zero rows",
    "a singleton and an absent class",
    "only singletons",
    "opposed classes",
    "one class",
    "one sample",
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_equals_a_double_loop_over_all_pairs(kind):
    features, labels = some(kind)
    expected, geometry = every_pair(features, labels), measure(features, labels)
    assert numbers(geometry) == exactly({name: expected[name] for name in NUMBERS})
    assert geometry.other("mean") == exactly(expected["mean"])
    assert geometry.orthogonality(gamma=0.25) == exactly(1 - expected["s"] + 0.25 * expected["d"])
    assert geometry.expected_orthogonality("mean") == exactly(expected["mean of Eq. 8"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_matrix_of_expected_cosines_equals_the_double_loop_and_is_nan_for_absent_classes(kind):
    features, labels = some(kind)
    expected = every_pair(features, labels)["matrix"]
    found = measure(features, labels, num_classes=7).class_cosines()
    assert found.tolist() == [exactly([expected.get((i, j), math.nan) for j in range(7)]) for i in range(7)]


def test_mean_abs_is_known_while_no_feature_is_negative_and_refused_from_then_on():
    features, labels = some("without a negative")
    geometry = measure(features, labels)
    assert geometry.other("mean_abs") == exactly(every_pair(features, labels)["mean_abs"])
    geometry.update(-torch.eye(5)[:1], torch.tensor([1]))
    with pytest.raises(OptionError, match=r"sums of classes cannot know it: use form='abs_mean' or 'mean'"):
        geometry.other("mean_abs")


def test_a_negative_value_in_an_ignored_row_does_not_count():
    features, labels = some("without a negative")
    labels[3], features[3] = -100, -1.0
    assert measure(features, labels).other("mean_abs") == exactly(every_pair(features, labels)["mean_abs"])


@pytest.mark.parametrize("cuts", [(0, 24), (0, 1, 24), (0, 7, 7, 20, 24), tuple(range(25))])
def test_any_split_into_batches_gives_the_same_numbers(cuts):
    features, labels = some("zero rows")
    geometry = Geometry(4, 5)
    for start, stop in pairwise(cuts):
        assert geometry.update(features[start:stop], labels[start:stop]) is geometry
    expected = every_pair(features, labels)
    assert numbers(geometry) == exactly({name: expected[name] for name in NUMBERS})
    assert geometry.counts.tolist() == [labels.tolist().count(c) for c in range(4)]


def test_a_call_with_many_rows_is_worked_on_in_parts_without_losing_one(monkeypatch):
    features, labels = some("signed", rows=23)
    monkeypatch.setattr(opl.geometry, "ROWS", 5)
    expected = every_pair(features, labels)
    assert numbers(measure(features, labels)) == exactly({name: expected[name] for name in NUMBERS})


def test_merging_equals_concatenating():
    features, labels = some("signed")
    one, two = measure(features[:9], labels[:9], num_classes=4), measure(features[9:], labels[9:], num_classes=4)
    expected = every_pair(features, labels)
    assert one.merge(two) is one
    assert numbers(one) == exactly({name: expected[name] for name in NUMBERS})
    before = every_pair(features[9:], labels[9:])
    assert numbers(two) == exactly({name: before[name] for name in NUMBERS})


@pytest.mark.parametrize("positive_first", [True, False])
def test_merging_remembers_that_a_negative_feature_was_seen(positive_first):
    parts = [measure(torch.eye(2), torch.arange(2)), measure(-torch.eye(2), torch.arange(2))]
    one, two = parts if positive_first else reversed(parts)
    with pytest.raises(OptionError, match="mean_abs"):
        one.merge(two).other("mean_abs")


def test_sums_are_where_they_were_told_to_be_or_else_where_the_first_data_are():
    there = Geometry(2, 3, device="meta")
    followed = Geometry(2, 3).merge(there)
    assert {state.device.type for state in followed.state_dict().values()} == {"meta"}
    told = Geometry(2, 3, device="meta").merge(measure(torch.eye(3), torch.tensor([0, 1, 1])))
    assert {state.device.type for state in told.state_dict().values()} == {"meta"}


@pytest.mark.parametrize("ignore_index", [-100, 1, -1])
def test_ignored_rows_take_no_part(ignore_index):
    features, labels = some("signed")
    labels[::3] = ignore_index
    expected = every_pair(features, labels, ignore_index)
    geometry = measure(features, labels, num_classes=4, ignore_index=ignore_index)
    assert numbers(geometry) == exactly({name: expected[name] for name in NUMBERS})
    assert geometry.counts.sum() == (labels != ignore_index).sum()


def test_nothing_seen_is_a_mean_over_no_pairs():
    nothing = {"s": 0.0, "d": 0.0, "orthogonality": 1.0, "expected_orthogonality": 0.0}
    ignored = measure(torch.ones(3, 2), torch.full((3,), -100))
    empty = Geometry(3, 2).update(torch.ones(0, 2), torch.ones(0, dtype=torch.long))
    for geometry in (Geometry(3, 2), ignored, empty):
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


def test_collapsed_features_have_s_and_d_1_and_every_entry_off_the_diagonal_wrong():
    geometry = measure(torch.tensor([3.0, 4.0]).expand(12, 2), torch.arange(12) % 3)
    assert numbers(geometry) == exactly({"s": 1.0, "d": 1.0, "orthogonality": 1.0, "expected_orthogonality": 6.0})


@pytest.mark.parametrize(("kept_in", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_one_pair_among_thousands_of_singletons_with_a_large_offset_keeps_its_digits(monkeypatch, kept_in, tolerance):
    monkeypatch.setattr(opl.geometry, "accumulation_dtype", lambda _: kept_in)  # fp32 as on mps
    features = torch.randn(3000, 16, generator=torch.Generator().manual_seed(1)) + 100  # all nearly parallel
    features[7], features[2100] = torch.eye(16)[0], torch.eye(16)[0] + torch.eye(16)[1] * 3
    labels = torch.arange(3000)
    labels[2100] = labels[7]
    geometry = measure(features, labels)
    assert geometry.unit_sums.dtype == kept_in
    assert geometry.same == exactly(1 / math.sqrt(10), tolerance)


def test_one_sample_against_a_class_of_thousands_keeps_its_digits():
    features = torch.randn(5000, 16, generator=torch.Generator().manual_seed(2)) + 100
    labels = torch.zeros(5000, dtype=torch.long)
    labels[77] = 1
    features[77] = torch.tensor([1.0, -1.0] * 8) + 1e-3  # nearly at a right angle to the rest
    expected = mean([cosine(row, features[77].tolist()) for i, row in enumerate(features.tolist()) if i != 77])
    assert measure(features, labels).other("mean") == exactly(expected, 1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_class_similarity_is_the_cosine_between_class_means(kind):
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


@pytest.mark.parametrize("form", ["mean", "abs_mean", "mean_abs"])
@pytest.mark.parametrize("kind", ["without a negative", "zero rows", "a singleton and an absent class"])
def test_s_and_d_are_those_of_the_loss_on_one_batch(kind, form):
    features, labels = some(kind)
    features = features.relu() if form == "mean_abs" else features
    loss, geometry = orthogonal_projection(features, labels, form=form), measure(features, labels)
    assert (geometry.same, geometry.other(form)) == exactly((loss.same.item(), loss.other.item()))


def test_a_feature_too_short_for_its_type_has_no_direction_as_in_the_loss():
    features = torch.tensor([[1.0, 0.0], [1e-40, 0.0], [3.0, 0.0], [0.0, 1.0]])
    labels = torch.tensor([0, 0, 0, 1])
    assert measure(features, labels).same == exactly(1 / 3)
    assert measure(features.double(), labels).same == exactly(1.0)
    assert orthogonal_projection(features, labels).same.item() == exactly(1 / 3, 1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_narrow_types_are_computed_wide_also_under_autocast(dtype):
    features, labels = some("signed")
    features = (features * 2000).to(dtype)  # a square of these is infinite in fp16
    expected = every_pair(features, labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = numbers(measure(features, labels))
    assert found == exactly({name: expected[name] for name in NUMBERS})


def test_pooled_features_and_a_column_of_labels_are_taken_as_they_come():
    features, labels = some("signed")
    expected = numbers(measure(features, labels))
    assert numbers(measure(features[:, :, None, None], labels[:, None].int())) == expected


def test_gradients_are_never_tracked():
    features, labels = some("signed")
    geometry = measure(features.requires_grad_(), labels)
    assert not any(state.requires_grad for state in geometry.state_dict().values())
    assert not geometry.class_similarity().requires_grad


def test_a_pass_begun_in_inference_mode_goes_on_outside_of_it():
    features, labels = some("signed")
    with torch.inference_mode():
        geometry = Geometry(4, 5).update(features[:9].clone(), labels[:9])
    geometry.update(features[9:], labels[9:])
    expected = every_pair(features, labels)
    assert numbers(geometry) == exactly({name: expected[name] for name in NUMBERS})


def test_saved_sums_come_back_and_are_a_copy(tmp_path):
    features, labels = some("signed")
    torch.save(measure(features[:9], labels[:9], num_classes=4).state_dict(), tmp_path / "sums.pt")
    saved = torch.load(tmp_path / "sums.pt", weights_only=True)
    geometry = Geometry(4, 5).load_state_dict(saved).update(features[9:], labels[9:])
    expected = every_pair(features, labels)
    assert numbers(geometry) == exactly({name: expected[name] for name in NUMBERS})
    assert saved["counts"].sum() == 9


ROW, ONE = torch.ones(2, 3), torch.tensor([0, 1])
ERRORS = {
    "label too large": (
        lambda: Geometry(3, 3).update(ROW, torch.tensor([0, 5])),
        LabelError,
        "label 5",
        "num_classes=6",
    ),
    "label negative": (lambda: measure(ROW, torch.tensor([0, -3])), LabelError, "label -3", "ignore_index"),
    "labels soft": (lambda: measure(ROW, torch.eye(2)), LabelError, "soft", "argmax"),
    "labels missing": (lambda: measure(ROW, ONE[:1]), LabelError, "1 labels for 2 features", "one label"),
    "wrong dim": (lambda: Geometry(2, 4).update(ROW, ONE), FeatureError, "3 numbers a row", "feature_dim=3"),
    "wrong shape": (lambda: measure(ROW[None], ONE), FeatureError, "(1, 2, 3)", "(B, D)"),
    "not finite": (lambda: measure(ROW / 0, ONE), FeatureError, "infinite", "check the batch"),
    "ignore_index": (lambda: measure(ROW, ONE, ignore_index=0.5), OptionError, "ignore_index is 0.5", "integer"),
    "no classes": (lambda: Geometry(0, 3), OptionError, "num_classes is 0", "at least 1"),
    "a fractional dim": (lambda: Geometry(3, 2.0), OptionError, "feature_dim is 2.0", "whole number"),
    "a true number": (lambda: Geometry(True, 2), OptionError, "num_classes is True", "whole number"),
    "merging shapes": (lambda: Geometry(3, 2).merge(Geometry(3, 4)), OptionError, "3 classes and 4", "of 3 and 2"),
    "merging a dict": (lambda: Geometry(3, 2).merge({}), OptionError, "a dict", "another Geometry"),
    "form": (lambda: Geometry(2, 2).other("absmean"), OptionError, "'absmean'", "did you mean 'abs_mean'"),
    "gamma": (lambda: Geometry(2, 2).orthogonality(math.inf), OptionError, "gamma is inf", "finite"),
    "reduction": (lambda: Geometry(2, 2).expected_orthogonality("summ"), OptionError, "'summ'", "'sum'"),
    "of": (lambda: Geometry(2, 2).class_similarity("units"), OptionError, "'units'", "'unit'"),
    "state names": (lambda: Geometry(2, 2).load_state_dict({"counts": ONE}), OptionError, "'counts': (2,)", "raw_sums"),
    "state shape": (
        lambda: Geometry(2, 2).load_state_dict(Geometry(1, 2).state_dict()),
        OptionError,
        "'unit_sums': (1, 2)",
        "'unit_sums': (2, 2)",
    ),
    "no processes": (lambda: Geometry(2, 2).all_reduce(), DistributedError, "none", "init_process_group"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_an_error_says_what_was_wrong_and_what_to_do(what):
    call, kind, wrong, remedy = ERRORS[what]
    with pytest.raises(kind) as caught:
        call()
    assert wrong in str(caught.value)
    assert remedy in str(caught.value)


def test_a_refused_batch_leaves_the_sums_as_they_were():
    geometry = measure(torch.eye(3), torch.arange(3))
    before = numbers(geometry)
    with pytest.raises(LabelError):
        geometry.update(torch.ones(2, 3), torch.tensor([0, 3]))
    assert numbers(geometry) == before
    assert geometry.counts.tolist() == [1, 1, 1]


def test_the_examples_in_the_docstrings_are_true():
    failed, tried = doctest.testmod(opl.geometry)
    assert (failed, tried > 5) == (0, True)


def metric_or_skip():
    pytest.importorskip("torchmetrics", reason="GeometryMetric is a torchmetrics.Metric")
    return opl.geometry.GeometryMetric


def _process(rank, folder):
    """One of two: process 0 has 9 rows, negatives among them; process 1 has 15 without one."""
    features, labels = uneven_halves()[rank]
    geometry = Geometry(4, 5).update(features, labels).all_reduce()
    found = {"numbers": numbers(geometry), "counts": geometry.counts.tolist(), "negative": int(geometry.negative)}
    found["both negative"] = int(Geometry(4, 5).update(-features, labels).all_reduce().negative)
    one_empty = Geometry(4, 5)
    found["one empty"] = numbers((one_empty.update(features, labels) if rank else one_empty).all_reduce())
    alone = dist.new_group([0])
    for what, call in {
        "shapes": lambda: Geometry(4 + rank, 5).all_reduce(),
        "group": lambda: Geometry(4, 5).update(features, labels).all_reduce(alone),
    }.items():
        try:
            found[what] = numbers(call())
        except DistributedError as error:
            found[what] = str(error)
    torch.save(found, f"{folder}/{rank}.pt")


def uneven_halves():
    features, labels = some("signed")
    return [(features[:9], labels[:9]), (features[9:].abs(), labels[9:])]


def whole():
    return [torch.cat(parts) for parts in zip(*uneven_halves(), strict=True)]


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        together(_process, 2, folder, folder)
    return [torch.load(f"{folder}/{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("rank", [0, 1])
def test_two_processes_each_learn_the_geometry_of_both(two_processes, rank):
    features, labels = whole()
    expected, found = every_pair(features, labels), two_processes[rank]
    assert found["numbers"] == exactly({name: expected[name] for name in NUMBERS})
    assert found["counts"] == [labels.tolist().count(c) for c in range(4)]
    assert (found["negative"], found["both negative"]) == (1, 1)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_without_a_batch_takes_part_too(two_processes, rank):
    expected = every_pair(*uneven_halves()[1])
    assert two_processes[rank]["one empty"] == exactly({name: expected[name] for name in NUMBERS})


def test_processes_with_different_shapes_are_all_told(two_processes):
    assert "process 1 has a geometry of 5 classes" in two_processes[0]["shapes"]
    assert "process 0 has a geometry of 4 classes" in two_processes[1]["shapes"]


def test_a_group_is_reduced_without_the_others_and_refuses_who_is_not_in_it(two_processes):
    expected = every_pair(*uneven_halves()[0])
    assert two_processes[0]["group"] == exactly({name: expected[name] for name in NUMBERS})
    assert "not a member" in two_processes[1]["group"]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_metric_computes_over_all_processes(rank):
    sent = []  # stands in for the network of torchmetrics: what a gathering of each state answers, in order
    network = {"distributed_available_fn": lambda: True, "dist_sync_fn": lambda state, group=None: sent.pop(0)}
    metrics = [metric_or_skip()(4, 5, **network) for _ in range(2)]
    for metric, (features, labels) in zip(metrics, uneven_halves(), strict=True):
        metric.update(-features, labels)  # the same cosines, and both have seen a negative value
    sent += [[getattr(metric, name).clone() for metric in metrics] for name in metrics[0].metric_state] * 2
    found = {name: value.item() for name, value in metrics[rank].compute().items()}
    expected = every_pair(*whole())
    assert found == exactly({name: expected[name] for name in NUMBERS})
    with metrics[rank].sync_context(dist_sync_fn=network["dist_sync_fn"]):
        assert metrics[rank].geometry().negative == 1


def test_the_metric_equals_the_geometry_over_batches_and_after_reset():
    features, labels = some("signed")
    metric = metric_or_skip()(num_classes=4, feature_dim=5)
    for start in (0, 10, 20):
        metric.update(features[start : start + 10], labels[start : start + 10])
    assert {name: value.item() for name, value in metric.compute().items()} == exactly(
        numbers(measure(features, labels))
    )
    metric.reset()
    metric.update(features[:7], labels[:7])
    found = {name: value.item() for name, value in metric.compute().items()}
    assert found == exactly(numbers(measure(features[:7], labels[:7])))


def test_the_metric_called_forward_gives_the_batch_and_keeps_the_whole():
    features, labels = some("signed")
    metric = metric_or_skip()(4, 5)
    metric(features[:9].abs(), labels[:9])
    batch = metric(features[9:], labels[9:])
    assert batch["s"].item() == exactly(measure(features[9:], labels[9:]).same)
    together = torch.cat([features[:9].abs(), features[9:]])
    torch.testing.assert_close(metric.geometry().class_cosines(), measure(together, labels).class_cosines())
    with pytest.raises(OptionError, match="mean_abs"):
        metric.geometry().other("mean_abs")


def test_the_metric_works_in_a_collection_and_leaves_ignored_rows_out():
    from_package = metric_or_skip()
    from torchmetrics import MeanMetric, MetricCollection

    features, labels = some("signed")
    two = {"all": from_package(4, 5), "without 1": from_package(4, 5, ignore_index=1)}
    collection = MetricCollection(two)
    for start in (0, 12):
        collection.update(features[start : start + 12], labels[start : start + 12])
    found = collection.compute()
    assert found["all_s"].item() == exactly(every_pair(features, labels)["s"])
    assert found["without 1_s"].item() == exactly(every_pair(features, labels, ignore_index=1)["s"])
    assert set(MetricCollection([from_package(4, 5), MeanMetric()])) == {"GeometryMetric", "MeanMetric"}


def test_the_metric_survives_pickling_and_a_narrower_type():
    features, labels = some("signed")
    metric = metric_or_skip()(4, 5).set_dtype(torch.float32)
    metric.update(features[:9], labels[:9])
    again = pickle.loads(pickle.dumps(metric))
    again.update(features[9:], labels[9:])
    assert type(again) is type(metric)
    assert again.compute()["s"].item() == exactly(every_pair(features, labels)["s"], 1e-6)


def test_importing_the_module_does_not_import_torchmetrics():
    metric_or_skip()
    code = "import sys, opl.geometry; print(*(name in sys.modules for name in ('opl.geometry', 'torchmetrics')))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["True", "False"]


def test_without_torchmetrics_the_metric_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    monkeypatch.delitem(sys.modules, "opl._support.metric", raising=False)
    monkeypatch.delattr(opl._support, "metric", raising=False)
    with pytest.raises(ImportError, match=r"pip install torchmetrics, or use opl\.geometry\.Geometry"):
        _ = opl.geometry.GeometryMetric


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Geometri"):
        _ = opl.geometry.Geometri
