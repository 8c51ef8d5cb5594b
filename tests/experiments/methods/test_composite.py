"""Heads, criteria and auxiliary losses in a run, on one and on two processes."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from _digits_methods import DIGITS, METHODS, objective_of
from _gloo import alone_and_in_two
from opl.experiments import paper
from opl.experiments.methods import LGM, OPL, Anchor, Center, Composite, CrossEntropy, CrossEntropyOPL, Perpetual
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import build_model
from opl.experiments.training.run import run
from opl.optim import SGD


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_the_digits(tmp_path, name):
    result = run(replace(DIGITS, method=METHODS[name], epochs=15), tmp_path)
    assert result["test/top1"] > 60  # chance is 10


@pytest.mark.slow
def test_two_processes_learn_the_centers_and_heads_of_one_process(tmp_path, one_thread):
    base = paper.recipe("digits-ce", "small")
    base = replace(base, data=replace(base.data, val=100), epochs=3, optimizer=SGD(lr=0.02))
    centers = Composite(auxiliary=(Center(weight=0.05), Perpetual(), OPL(gamma=1.0)))
    gaussians = Composite(head=LGM(weight=0.01, double_every=5), criterion=Anchor(warmup=1))
    methods = {"centers": centers, "gaussians": gaussians}
    alone_and_in_two(tmp_path, *(replace(base, name=name, method=method) for name, method in methods.items()))
    for name in methods:
        one, two = (RunFolder.of(tmp_path / str(devices), name, 0) for devices in (1, 2))
        for key, value in one.weights().items():
            torch.testing.assert_close(two.weights()[key], value, rtol=0, atol=1e-4)
        ours, theirs = one.load()["objective"], two.load()["objective"]
        for key, value in ours.items():
            torch.testing.assert_close(theirs[key], value, rtol=0, atol=1e-4)
    assert {"terms.center.loss.centers", "terms.perpetual.loss.centers"} <= set(one_keys(tmp_path))


def one_keys(tmp_path):
    return RunFolder.of(tmp_path / "1", "centers", 0).load()["objective"]


def test_composite_of_cross_entropy_and_opl_equals_the_method_of_the_paper():
    model = build_model(DIGITS)
    pairs = {
        CrossEntropy(): Composite(),
        CrossEntropyOPL(weight=0.7, gamma=2.0): Composite(auxiliary=(OPL(weight=0.7, gamma=2.0),)),
    }
    for plain, composed in pairs.items():
        values = []
        for method in (plain, composed):
            objective, batch = objective_of(replace(DIGITS, method=method), model)
            values.append(objective(model, batch).total)
        assert values[0] == values[1]
    features, logits = model(batch.images)
    units = F.normalize(features, dim=1)
    same = batch.labels[:, None] == batch.labels
    cosines = units @ units.T
    s = cosines[same & ~torch.eye(len(units), dtype=torch.bool)].mean()
    by_hand = F.cross_entropy(logits, batch.labels) + 0.7 * (1 - s + 2.0 * cosines[~same].abs().mean())
    torch.testing.assert_close(values[0], by_hand)


def test_every_method_starts_from_the_same_backbone():
    start = {name: value for name, value in build_model(DIGITS).state_dict().items() if not name.startswith("fc.")}
    for method in METHODS.values():
        other = build_model(replace(DIGITS, method=method)).state_dict()
        assert all(torch.equal(other[name], value) for name, value in start.items())
