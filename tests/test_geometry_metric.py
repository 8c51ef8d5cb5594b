"""The torchmetrics metric, which is created on first access."""

import doctest
import pickle
import sys

import pytest
import torch

import opl.geometry
from _every_pair import NUMBERS, every_pair, exactly, numbers, some, uneven_halves, whole
from opl.errors import OptionError
from opl.geometry import measure


def metric_or_skip():
    pytest.importorskip("torchmetrics", reason="GeometryMetric is a torchmetrics.Metric")
    return opl.geometry.GeometryMetric


@pytest.mark.parametrize("rank", [0, 1])
def test_metric_computes_over_all_processes(rank):
    sent = []  # stands in for the network of torchmetrics: what a gathering of each state answers, in order
    network = {"distributed_available_fn": lambda: True, "dist_sync_fn": lambda state, group=None: sent.pop(0)}
    metrics = [metric_or_skip()(5, num_classes=4, **network) for _ in range(2)]
    for metric, (features, labels) in zip(metrics, uneven_halves(), strict=True):
        metric.update(-features, labels)  # the same cosines, and both have seen a negative value
    sent += [[getattr(metric, name).clone() for metric in metrics] for name in metrics[0].metric_state] * 2
    found = {name: value.item() for name, value in metrics[rank].compute().items()}
    expected = every_pair(*whole())
    assert found == exactly({name: expected[name] for name in NUMBERS})
    with metrics[rank].sync_context(dist_sync_fn=network["dist_sync_fn"]):
        assert metrics[rank].geometry().negative == 1


def test_metric_equals_the_geometry_over_batches_and_after_reset():
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


def test_forward_returns_the_batch_values_and_accumulates():
    features, labels = some("signed")
    metric = metric_or_skip()(5, num_classes=4)
    metric(features[:9].abs(), labels[:9])
    batch = metric(features[9:], labels[9:])
    assert batch["s"].item() == exactly(measure(features[9:], labels[9:]).same)
    together = torch.cat([features[:9].abs(), features[9:]])
    torch.testing.assert_close(metric.geometry().class_cosines(), measure(together, labels).class_cosines())
    with pytest.raises(OptionError, match="mean_abs"):
        metric.geometry().other("mean_abs")


def test_metric_works_in_a_collection_and_excludes_ignored_rows():
    from_package = metric_or_skip()
    from torchmetrics import MeanMetric, MetricCollection

    features, labels = some("signed")
    two = {"all": from_package(5, num_classes=4), "without 1": from_package(5, num_classes=4, ignore_index=1)}
    collection = MetricCollection(two)
    for start in (0, 12):
        collection.update(features[start : start + 12], labels[start : start + 12])
    found = collection.compute()
    assert found["all_s"].item() == exactly(every_pair(features, labels)["s"])
    assert found["without 1_s"].item() == exactly(every_pair(features, labels, ignore_index=1)["s"])
    assert set(MetricCollection([from_package(5, num_classes=4), MeanMetric()])) == {"GeometryMetric", "MeanMetric"}


def test_metric_survives_pickling_and_float32():
    features, labels = some("signed")
    metric = metric_or_skip()(5, num_classes=4).set_dtype(torch.float32)
    metric.update(features[:9], labels[:9])
    again = pickle.loads(pickle.dumps(metric))
    again.update(features[9:], labels[9:])
    assert type(again) is type(metric)
    assert again.compute()["s"].item() == exactly(every_pair(features, labels)["s"], 1e-6)


def test_docstring_examples_of_the_metric():
    metric = metric_or_skip()
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder().find(metric, globs={"GeometryMetric": metric, "torch": torch}):
        runner.run(example)
    assert (runner.failures, runner.tries > 3) == (0, True)


def test_missing_torchmetrics_raises_with_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    opl.geometry._metric_class.cache_clear()
    with pytest.raises(ImportError, match=r"pip install torchmetrics, or use opl\.geometry\.Geometry"):
        _ = opl.geometry.GeometryMetric


def test_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="Geometri"):
        _ = opl.geometry.Geometri
