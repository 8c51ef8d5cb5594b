"""Adversarial training in a run: normalized inside, resumed to the byte, fine-tuned, in two processes."""

from dataclasses import replace

import pytest
import torch

from _gloo import alone_and_in_two
from opl.errors import OptionError
from opl.experiments import paper
from opl.experiments.data import Synthetic
from opl.experiments.methods import MART, OPL, TRADES, AdversarialTraining
from opl.experiments.models import CifarResNet, ResNet
from opl.experiments.run_folder import RunFolder
from opl.experiments.settings import to_json
from opl.experiments.training.build import build_model, parse_recipe
from opl.experiments.training.run import run
from opl.optim import SGD

DIGITS = replace(paper.recipe("digits-ce", "small"), epochs=2)
ATTACKED = replace(DIGITS, method=AdversarialTraining(steps=2, auxiliary=(OPL(),)), normalize="model")


def test_attacks_need_the_normalization_inside():
    with pytest.raises(OptionError, match="normalize='model'"):
        replace(DIGITS, method=MART())
    assert parse_recipe(to_json(ATTACKED)) == ATTACKED


def test_where_images_are_normalized_changes_no_number(tmp_path):
    losses = [
        run(replace(DIGITS, name=where, normalize=where, epochs=1), tmp_path)["test/loss"]
        for where in ("data", "model", "none")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0] != pytest.approx(losses[2], rel=1e-4)  # other pixels


def test_fine_tuning_inherits_everything_but_the_classifier(tmp_path, monkeypatch):
    first = replace(ATTACKED, name="first", epochs=1)
    second = replace(first, name="second", after="first", inherit=True, new_head=True)
    run(first, tmp_path)
    starts = []
    monkeypatch.setattr(
        "opl.experiments.training.run.fit", lambda fabric, recipe, model, *_, **__: starts.append(model) or model
    )
    run(second, tmp_path)
    before, now, new = (
        RunFolder.of(tmp_path, "first", 0).weights(),
        starts[0].state_dict(),
        build_model(second).state_dict(),
    )
    for name, value in now.items():
        assert torch.equal(value, (new if name.startswith("fc.") else before)[name]), name


def test_fine_tuning_normalizes_by_the_new_data(tmp_path):
    loop = AdversarialTraining(steps=1)
    few = Synthetic(like="cifar10", rows=12, val=0, test=6, classes=3)
    network = ResNet(10, "half", width=8)
    first = replace(ATTACKED, name="first", data=few, method=loop, model=network, epochs=1, batch_size=4)
    second = replace(first, name="second", data=replace(few, like="cifar100"), after="first", inherit=True)
    run(first, tmp_path)
    run(second, tmp_path)
    before, tuned = (RunFolder.of(tmp_path, name, 0).weights() for name in ("first", "second"))
    for weights, published in ((before, (0.4914, 0.2470)), (tuned, (0.50708, 0.26733))):
        result = [weights[f"standardize.{name}"][0].item() for name in ("mean", "std")]
        assert result == pytest.approx(published)
    fresh = build_model(second).state_dict()
    kept, new = (
        sum((tuned[name] - weights[name]).abs().sum() for name in tuned if "conv" in name)
        for weights in (before, fresh)
    )
    assert 0 < kept < new  # it started from the first run's weights


@pytest.mark.slow
def test_two_processes_train_on_attacks_as_a_single_process(tmp_path, one_thread):
    base = replace(DIGITS, epochs=1, optimizer=SGD(lr=0.02), normalize="model")
    loop = {"random_start": False, "steps": 2}
    madry = replace(base, name="madry", method=AdversarialTraining(inner="eval", **loop, auxiliary=(OPL(),)))
    mart = replace(base, name="mart", method=MART(**loop))
    data = replace(base.data, val=740)  # few images are left for training
    norms = replace(base, name="norms", model=CifarResNet(8, 8), data=data, method=TRADES(steps=1))
    alone_and_in_two(tmp_path, madry, mart, norms)  # norms: batch norms, two passes, one backward
    for name in ("madry", "mart"):
        one, two = (RunFolder.of(tmp_path / str(devices), name, 0).weights() for devices in (1, 2))
        for key, value in one.items():
            torch.testing.assert_close(two[key], value, rtol=0, atol=2e-4)
