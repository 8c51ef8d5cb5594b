"""Runs that come after others: they learn from them, or start from their weights."""

from dataclasses import replace

import pytest
import torch

from opl.errors import FolderError, OptionError
from opl.experiments import paper
from opl.experiments.methods import OPL, Center, CrossEntropy, Distillation, TwinDistillation
from opl.experiments.models import CifarResNet
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import build_model
from opl.experiments.training.run import run

DIGITS = replace(paper.recipe("digits-ce", "small"), epochs=2)


def test_a_run_learns_from_the_run_that_it_comes_after(tmp_path):
    first = replace(DIGITS, name="first")
    second = replace(DIGITS, name="second", method=Distillation(auxiliary=(OPL(), Center())), after="first")
    with pytest.raises(FolderError, match=r"first.*opl train"):
        run(second, tmp_path)
    run(first, tmp_path)
    run(second, tmp_path)
    records = RunFolder.of(tmp_path, "second", 0).metrics()
    assert records[-1]["train/distillation"] < records[0]["train/distillation"]
    assert {"train/entropy", "train/distillation", "train/projection", "train/center"} <= records[0].keys()
    third = replace(second, name="third", after="second", method=Distillation(weight=0.0))
    plain = replace(first, name="plain")
    for recipe in (third, plain):  # a teacher without a say changes nothing
        run(recipe, tmp_path)
    third_weights, plain_weights = (RunFolder.of(tmp_path, name, 0).weights() for name in ("third", "plain"))
    for name, value in plain_weights.items():
        torch.testing.assert_close(third_weights[name], value)


def test_a_run_that_inherits_starts_from_the_weights_of_the_other(tmp_path):
    run(replace(DIGITS, name="first"), tmp_path)
    still = replace(DIGITS.optimizer, lr=1e-30)  # too small to move a weight
    again = replace(DIGITS, name="again", after="first", inherit=True, optimizer=still, method=TwinDistillation())
    run(again, tmp_path)
    first, second = (RunFolder.of(tmp_path, name, 0).weights() for name in ("first", "again"))
    moved = [name for name in first if not torch.equal(first[name], second[name])]
    assert all("running" in name or "tracked" in name for name in moved)  # what BatchNorm sees, not what is learned
    assert build_model(again).fc.weight.ne(first["fc.weight"]).any()


def test_another_number_of_classes_is_refused_until_the_classifier_is_new(tmp_path):
    data = paper.recipe("cifar100-resnet56-ce", "tiny").data
    base = replace(DIGITS, data=replace(data, rows=16, test=8, classes=4), model=CifarResNet(8, 8), epochs=1)
    run(replace(base, name="four"), tmp_path)
    six = replace(base, name="six", data=replace(base.data, classes=6), after="four", inherit=True)
    with pytest.raises(OptionError, match=r"4 classes and six 6.*--new-head"):
        run(six, tmp_path)
    assert "test/top1" in run(replace(six, name="fresh", new_head=True), tmp_path)
    with pytest.raises(OptionError, match="inherit"):
        replace(base, new_head=True)
    with pytest.raises(OptionError, match="inherit"):
        replace(base, method=CrossEntropy(), inherit=True)
