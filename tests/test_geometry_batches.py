"""Geometry of many batches: split, merged, saved, and summed over processes."""

import pytest
import torch
import torch.distributed as dist

import opl.geometry
from _every_pair import NUMBERS, every_pair, exactly, numbers, some, uneven_halves, whole
from _gloo import together
from opl.errors import DistributedError, OptionError
from opl.geometry import Geometry, measure


def test_large_call_is_processed_in_blocks_without_losing_rows(monkeypatch):
    features, labels = some("signed", rows=23)
    monkeypatch.setattr(opl.geometry, "ROWS", 5)
    expected = every_pair(features, labels)
    assert numbers(measure(features, labels)) == exactly({name: expected[name] for name in NUMBERS})


@pytest.mark.parametrize("positive_first", [True, False])
def test_merging_keeps_the_flag_of_negative_features(positive_first):
    parts = [measure(torch.eye(2), torch.arange(2)), measure(-torch.eye(2), torch.arange(2))]
    one, two = parts if positive_first else reversed(parts)
    with pytest.raises(OptionError, match="mean_abs"):
        one.merge(two).other("mean_abs")


def test_sums_are_on_the_given_device_or_on_that_of_the_first_batch():
    there = Geometry(3, num_classes=2, device="meta")
    followed = Geometry(3, num_classes=2).merge(there)
    assert {state.device.type for state in followed.state_dict().values()} == {"meta"}
    told = Geometry(3, num_classes=2, device="meta").merge(measure(torch.eye(3), torch.tensor([0, 1, 1])))
    assert {state.device.type for state in told.state_dict().values()} == {"meta"}


def test_updates_continue_after_inference_mode():
    features, labels = some("signed")
    with torch.inference_mode():
        geometry = Geometry(5, num_classes=4).update(features[:9].clone(), labels[:9])
    geometry.update(features[9:], labels[9:])
    expected = every_pair(features, labels)
    assert numbers(geometry) == exactly({name: expected[name] for name in NUMBERS})


def _process(rank, folder):
    """One of two: process 0 has 9 rows, negatives among them; process 1 has 15 without one."""
    features, labels = uneven_halves()[rank]
    geometry = Geometry(5, num_classes=4).update(features, labels).all_reduce()
    found = {"numbers": numbers(geometry), "counts": geometry.counts.tolist(), "negative": int(geometry.negative)}
    found["both negative"] = int(Geometry(5, num_classes=4).update(-features, labels).all_reduce().negative)
    one_empty = Geometry(5, num_classes=4)
    found["one empty"] = numbers((one_empty.update(features, labels) if rank else one_empty).all_reduce())
    alone = dist.new_group([0])
    for what, call in {
        "shapes": lambda: Geometry(5, num_classes=4 + rank).all_reduce(),
        "group": lambda: Geometry(5, num_classes=4).update(features, labels).all_reduce(alone),
    }.items():
        try:
            found[what] = numbers(call())
        except DistributedError as error:
            found[what] = str(error)
    torch.save(found, f"{folder}/{rank}.pt")


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        together(_process, 2, folder, folder)
    return [torch.load(f"{folder}/{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.slow
def test_all_reduce_gives_each_process_the_geometry_of_both(two_processes):
    features, labels = whole()
    for result in two_processes:
        expected = every_pair(features, labels)
        assert result["numbers"] == exactly({name: expected[name] for name in NUMBERS})
        assert result["counts"] == [labels.tolist().count(c) for c in range(4)]
        assert (result["negative"], result["both negative"]) == (1, 1)
        expected = every_pair(*uneven_halves()[1])  # the other process has no batch
        assert result["one empty"] == exactly({name: expected[name] for name in NUMBERS})


@pytest.mark.slow
def test_all_reduce_raises_for_different_shapes_and_for_processes_outside_of_the_group(two_processes):
    assert "process 1 has a geometry of 5 classes" in two_processes[0]["shapes"]
    assert "process 0 has a geometry of 4 classes" in two_processes[1]["shapes"]
    expected = every_pair(*uneven_halves()[0])
    assert two_processes[0]["group"] == exactly({name: expected[name] for name in NUMBERS})
    assert "not a member" in two_processes[1]["group"]
