"""Truncated Lq in a run: which samples are pruned, by which model, and bit-identical resume."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from _gloo import alone_and_in_two
from opl.errors import OptionError
from opl.experiments import paper
from opl.experiments.data import Digits, UniformNoise
from opl.experiments.methods import OPL, Center, TruncatedLq
from opl.experiments.models import MnistNet
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import build_model
from opl.experiments.training.run import run
from opl.experiments.types import Batch, Output, TaskShape
from opl.functional import orthogonal_projection
from opl.losses.truncated import generalized_cross_entropy
from opl.optim import SGD, Steps

DIGITS = replace(
    paper.recipe("digits-ce", "small"),
    name="noisy-digits",
    method=TruncatedLq(start=2, every=2),
    noise=UniformNoise(0.4),
    epochs=6,
)
DIGITS = replace(DIGITS, data=replace(DIGITS.data, val=100))


class Table(nn.Module):
    """A model that looks its logits up: image i is the number i."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))

    def forward(self, images):
        rows = images.flatten().long()
        return Output(self.logits[rows].exp(), self.logits[rows])


def table_batch(labels, rows=None):
    rows = torch.arange(len(labels)) if rows is None else torch.tensor(rows)
    return Batch(rows.float()[:, None], torch.tensor(labels)[rows], rows, 1 / len(rows))


SURE, UNSURE, WRONG = [4.0, 0.0], [0.1, 0.0], [-4.0, 0.0]
TIE = [0.0, 0.0]  # p is 1/2 = k: not believed


def pruned(model, objective, epoch=2):
    """What the objective keeps of the four images, all with label 0, when that epoch begins."""
    objective.after_epoch(model, {"val/top1": 50.0})
    objective.before_epoch(epoch, model, lambda: iter([table_batch([0] * 4, [0, 1]), table_batch([0] * 4, [2, 3])]))
    return objective.kept.tolist()


def objective_of(rows=4, **settings):
    return TruncatedLq(**{"start": 2, "every": 2, **settings}).build(TaskShape(2, 2, (rows, 0)))


# The warm-up


def test_warm_up_epochs_have_cross_entropy_and_the_others_lq():
    model, objective = Table([SURE, UNSURE, TIE, WRONG]), objective_of(warmup=2, start=5)
    batch = table_batch([0, 1, 0, 0])
    logits = model.logits.detach()
    expected = [nn.functional.cross_entropy(logits, batch.labels)] * 2
    expected += [generalized_cross_entropy(logits, batch.labels, q=0.7)] * 2
    for epoch, value in enumerate(expected):
        objective.before_epoch(epoch, model, lambda: iter([]))
        torch.testing.assert_close(objective(model, batch).total, value)
    objective.before_epoch(0, model, lambda: iter([]))
    resumed = objective_of(warmup=2, start=5)
    resumed.load_state_dict(objective.state_dict())  # as a run does that was stopped inside the first epoch
    torch.testing.assert_close(resumed(model, batch).total, expected[0])


# Who is pruned


def test_samples_with_probable_labels_are_kept_and_can_return():
    model, objective = Table([SURE, UNSURE, TIE, WRONG]), objective_of()
    assert objective.kept.all()
    assert pruned(model, objective) == [True, True, False, False]
    model.logits.data = torch.tensor([WRONG, SURE, SURE, WRONG])
    objective.score = -1.0
    assert pruned(model, objective) == [False, True, True, False]
    assert pruned(Table([UNSURE] * 4), objective_of(k=0.6)) == [False] * 4


def test_pruning_happens_only_at_its_epochs():
    model = Table([WRONG] * 4)
    for epoch in range(12):
        due = epoch in (3, 7, 11)
        assert (not any(pruned(model, objective_of(start=3, every=4), epoch))) == due
    released = TruncatedLq(start=39, every=10)
    times = [epoch + 1 for epoch in range(120) if epoch >= released.start and not (epoch - released.start) % 10]
    assert times == [40, 50, 60, 70, 80, 90, 100, 110, 120]


def test_best_model_prunes_instead_of_the_current_model():
    model, objective = Table([SURE] * 4), objective_of()
    objective.after_epoch(model, {"val/top1": 60.0})
    model.logits.data = torch.tensor([WRONG] * 4)
    objective.after_epoch(model, {"val/top1": 50.0})
    objective.after_epoch(model, {})  # an epoch without validation
    objective.before_epoch(2, model, lambda: iter([table_batch([0] * 4)]))
    assert objective.kept.all()
    assert torch.equal(model.logits.data, torch.tensor([WRONG] * 4))
    assert model.training


def test_loss_and_gradient_of_kept_samples_are_averaged_over_the_whole_batch():
    model, objective = Table([SURE, UNSURE, TIE, WRONG]), objective_of()
    pruned(model, objective)
    batch = table_batch([0] * 4, [3, 1, 0, 2])
    terms = objective(model, batch)
    bound = (1 - 0.5**0.7) / 0.7
    kept = generalized_cross_entropy(model.logits[:2], torch.tensor([0, 0]), reduction="sum")
    torch.testing.assert_close(terms.total, (kept + 2 * bound) / 4)
    slope = torch.autograd.grad(terms.total, model.logits)[0]
    torch.testing.assert_close(slope, torch.autograd.grad(kept / 4, model.logits)[0])
    assert not slope[2:].any()


@pytest.mark.parametrize("leave_out", [False, True])
def test_opl_uses_pruned_samples_by_default(leave_out):
    logits = [SURE, UNSURE, WRONG, SURE, WRONG, UNSURE]
    model = Table(logits)
    labels = [0, 0, 0, 1, 1, 1]
    objective = objective_of(6, leave_out=leave_out, auxiliary=(OPL(weight=0.5, gamma=2.0),))
    objective.kept.copy_(torch.tensor([True, True, False, False, True, True]))
    terms = objective(model, table_batch(labels))
    chosen = objective.kept if leave_out else torch.ones(6).bool()
    features = torch.tensor(logits).exp()[chosen]
    expected = orthogonal_projection(features, torch.tensor(labels)[chosen], gamma=2.0).loss
    torch.testing.assert_close(terms.parts["projection"], expected)
    torch.testing.assert_close(terms.total, terms.parts["truncated"] + 0.5 * expected)


# In a run


def test_pruning_epoch_trains_by_the_formula(tmp_path):
    """Two runs, the second longer by an epoch of one step that begins with pruning: the gradient of the kept samples.

    In the released code such an epoch trains a copy that is thrown away, and the network stays as it was.
    """
    recipe = replace(
        DIGITS,
        epochs=3,
        batch_size=799,
        optimizer=SGD(lr=0.1, momentum=0.0, weight_decay=0.0),
        schedule=Steps(milestones=()),
        method=TruncatedLq(start=2, every=1, k=0.1),
    )
    run(replace(recipe, name="two", epochs=2), tmp_path)
    run(recipe, tmp_path)
    model = build_model(recipe)
    model.load_state_dict(RunFolder.of(tmp_path, "two", 0).weights())
    folder = RunFolder.of(tmp_path, recipe.name, 0)
    state, labels = folder.load()["objective"], torch.from_numpy(folder.outputs("noise")["train/labels"])
    part = recipe.data.load(0).train
    images = (part.pixels[part.rows].float() / 255 - recipe.data.mean[0]) / recipe.data.std[0]
    p = model(images).logits.softmax(1).gather(1, labels[:, None]).squeeze(1)
    kept = state["kept"]
    assert 0 < int(kept.sum()) < len(kept)
    (((1 - p**0.7) / 0.7) * kept).mean().backward()
    for name, parameter in model.named_parameters():
        expected = (parameter - 0.1 * parameter.grad).detach()
        torch.testing.assert_close(folder.weights()[name], expected, rtol=0, atol=1e-7)
        assert (folder.weights()[name] - parameter).abs().max() > 1e-6
    assert [record["kept"] < 1 for record in folder.metrics()] == [False, False, True]


def test_resume_before_and_after_pruning_is_bit_identical(tmp_path, monkeypatch):
    method = TruncatedLq(start=2, every=2, k=0.1, leave_out=True, auxiliary=(OPL(),))
    recipe = replace(DIGITS, epochs=5, method=method)
    run(recipe, tmp_path / "whole")
    whole = RunFolder.of(tmp_path / "whole", recipe.name, 0)
    assert 0 < whole.metrics()[-1]["kept"] < 1

    class Stop(Exception):
        pass

    for stop in (2, 3, 4):  # the epoch before pruning, the one that begins with it, the one after

        def save(self, state, real=RunFolder.save, stop=stop):
            if state["epoch"] == stop:  # the best weights are on disk already, the checkpoint is not
                raise Stop
            real(self, state)

        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "save", save)
            with pytest.raises(Stop):
                run(recipe, tmp_path / str(stop))
        torch.rand(1)  # whatever the global generator does in between
        run(recipe, tmp_path / str(stop))
        stopped = RunFolder.of(tmp_path / str(stop), recipe.name, 0)
        assert (whole.path / "model.safetensors").read_bytes() == (stopped.path / "model.safetensors").read_bytes()
        assert torch.equal(whole.load()["objective"]["kept"], stopped.load()["objective"]["kept"])
        assert timeless(whole) == timeless(stopped)


def timeless(folder):
    return [{key: value for key, value in record.items() if "second" not in key} for record in folder.metrics()]


def test_pruning_detects_wrong_labels_and_records_how_well(tmp_path):
    model = MnistNet(widths=(16, 16, 16, 32))
    result = run(replace(DIGITS, model=model, epochs=14, method=TruncatedLq(start=8, every=3)), tmp_path)
    folder = RunFolder.of(tmp_path, DIGITS.name, 0)
    first, last = folder.metrics()[0], folder.metrics()[-1]
    assert first["kept"] == 1
    assert first["kept/clean"] == pytest.approx(1 - result["noise/train"])
    assert first["wrong/pruned"] == 0
    kept, wrong = folder.load()["objective"]["kept"], torch.from_numpy(folder.outputs("noise")["train/wrong"])
    assert last["kept/clean"] == pytest.approx((kept & ~wrong).sum().item() / kept.sum().item())
    assert last["wrong/pruned"] == pytest.approx((wrong & ~kept).sum().item() / wrong.sum().item())
    assert last["kept/clean"] > 0.9
    assert last["wrong/pruned"] > 0.8
    assert result["test/top1"] > 80


def test_the_last_and_the_selected_weights_are_both_tested(tmp_path):
    quick = replace(DIGITS, epochs=3, optimizer=SGD(lr=0.5))  # so fast that the last epoch is not the best
    both, last, best = (
        run(replace(quick, name=name, selection=name), tmp_path) for name in ("both", "last", "best-val")
    )
    assert both["test/top1"] == last["test/top1"]
    assert both["selected/top1"] == best["test/top1"]
    weights = [RunFolder.of(tmp_path, name, 0).path / "model.safetensors" for name in ("both", "last")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_test_set_is_used_only_with_the_setting_named_for_it(tmp_path):
    honest = run(replace(DIGITS, name="honest", epochs=3), tmp_path)
    assert honest["selection"] == "last"
    assert not any(name.startswith("test/") for name in RunFolder.of(tmp_path, "honest", 0).metrics()[-1])
    method = replace(DIGITS.method, select="test-as-released")
    peeking = run(replace(DIGITS, name="peeking", epochs=3, method=method), tmp_path)
    assert "TEST set" in peeking["selection"]
    records = RunFolder.of(tmp_path, "peeking", 0).metrics()
    score = RunFolder.of(tmp_path, "peeking", 0).load()["objective"]["_extra_state"]["score"]
    assert score == max(record["test/top1"] for record in records)
    assert records[-1]["test/top1"] == peeking["test/top1"]


@pytest.mark.slow
def test_two_processes_prune_and_train_like_one_process(tmp_path, one_thread):
    method = TruncatedLq(start=2, every=2, k=0.1, leave_out=True, auxiliary=(OPL(),))
    recipe = replace(DIGITS, epochs=4, method=method, optimizer=SGD(lr=0.02))
    alone_and_in_two(tmp_path, recipe)
    one, two = (RunFolder.of(tmp_path / devices, DIGITS.name, 0) for devices in ("1", "2"))
    kept, theirs = (folder.load()["objective"]["kept"] for folder in (one, two))
    assert (kept != theirs).sum() <= 2  # a probability next to k may fall on either side
    assert 0 < kept.sum() < len(kept)
    for name, value in one.weights().items():
        torch.testing.assert_close(two.weights()[name], value, rtol=0, atol=1e-3)


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_pruning_works_in_other_precisions(tmp_path, precision):
    run(replace(DIGITS, epochs=3, method=TruncatedLq(start=2, k=0.1), precision=precision), tmp_path)
    assert "kept/clean" in RunFolder.of(tmp_path, DIGITS.name, 0).metrics()[-1]


# What cannot be used


def test_settings_that_cannot_prune_are_refused(tmp_path):
    with pytest.raises(OptionError, match="OPL alone"):
        TruncatedLq(leave_out=True, auxiliary=(Center(),)).build(TaskShape(10, 4, (1,) * 10))
    with pytest.raises(OptionError, match=r"--data\.val"):
        run(replace(DIGITS, name="a", data=replace(DIGITS.data, val=0)), tmp_path)
    with pytest.raises(OptionError, match=r"selection best-val .* --data\.val"):
        run(replace(paper.recipe("digits-ce", "small"), name="b", data=Digits(), selection="best-val"), tmp_path)
    with pytest.raises(OptionError, match="eval_every"):
        run(replace(DIGITS, name="c", eval_every=5), tmp_path)
