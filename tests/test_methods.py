"""The plug point: heads, criteria and auxiliary losses inside a run, alone and in two processes."""

from dataclasses import replace

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn
from torch.nn import functional as F

from _gloo import alone_and_in_two
from opl.errors import OptionError
from opl.experiments import tables
from opl.experiments.methods import (
    LGM,
    OLE,
    OPL,
    RBF,
    Anchor,
    ArcFace,
    ASoftmax,
    Center,
    ClassBalancedFocal,
    Composite,
    CosFace,
    CrossEntropy,
    CrossEntropyOPL,
    Focal,
    Linear,
    NegativeCAM,
    Perpetual,
)
from opl.experiments.models import MnistNet
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import batches, build_model, build_objective
from opl.experiments.training.run import run
from opl.experiments.types import Batch, TaskShape
from opl.optim import SGD, Steps, param_groups

DIGITS = replace(tables.recipe("digits-ce", "small"), epochs=3)
METHODS = {
    "center": Composite(auxiliary=(Center(weight=0.1),)),
    "ole": Composite(auxiliary=(OLE(),)),
    "hnc": Composite(auxiliary=(NegativeCAM(k=3),)),
    "perpetual-1": Composite(auxiliary=(Perpetual(version=1),)),
    "perpetual-2": Composite(auxiliary=(Perpetual(version=2),)),
    "focal": Composite(criterion=Focal()),
    "anchor": Composite(criterion=Anchor(warmup=1.5)),
    "cb-focal": Composite(head=Linear(), criterion=ClassBalancedFocal()),
    "a-softmax": Composite(head=ASoftmax(gamma=1.0)),
    "lmc": Composite(head=CosFace(scale=10.0)),
    "aam": Composite(head=ArcFace(scale=10.0, margin=0.1, warmup=30)),
    "lgm": Composite(head=LGM(double_every=5, learn_variances=True)),
    "rbf": Composite(head=RBF()),
    "aam with opl and center": Composite(head=ArcFace(scale=10.0), auxiliary=(OPL(), Center())),
}


def first_batch(recipe):
    part = recipe.data.load(recipe.seed).train
    fabric = Fabric(accelerator="cpu", devices=1)
    data = batches(fabric, recipe, part)
    return next(iter(data.epoch(0))), part, data.steps


def objective_of(recipe, model):
    batch, part, steps = first_batch(recipe)
    return build_objective(recipe, model, part, steps), batch


@pytest.mark.parametrize("name", METHODS)
def test_a_stopped_run_of_any_method_goes_on_to_the_same_bytes(tmp_path, stopped, name):
    recipe = replace(DIGITS, method=METHODS[name])
    run(recipe, tmp_path / "whole")

    stopped(recipe, tmp_path / "stopped", 1)
    torch.rand(1)  # whatever the global generator does in between
    run(recipe, tmp_path / "stopped")
    whole, stopped = (RunFolder.of(tmp_path / each, recipe.name, 0) for each in ("whole", "stopped"))
    assert (whole.path / "model.safetensors").read_bytes() == (stopped.path / "model.safetensors").read_bytes()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_the_digits(tmp_path, name):
    result = run(replace(DIGITS, method=METHODS[name], epochs=15), tmp_path)
    assert result["test/top1"] > 60  # chance is 10


SCRIPT = """
import sys
from dataclasses import replace
from opl.experiments import tables
from opl.experiments.methods import *
from opl.optim import SGD
from opl.experiments.training.run import run
base = tables.recipe("digits-ce", "small")
base = replace(base, data=replace(base.data, val=100), epochs=3, optimizer=SGD(lr=0.02), devices=int(sys.argv[1]))
centers = Composite(auxiliary=(Center(weight=0.05), Perpetual(), OPL(gamma=1.0)))
run(replace(base, name="centers", method=centers), sys.argv[2])
gaussians = Composite(head=LGM(weight=0.01, double_every=5), criterion=Anchor(warmup=1))
run(replace(base, name="gaussians", method=gaussians), sys.argv[2])
"""


def test_two_processes_learn_centers_and_heads_as_one_does(tmp_path):
    alone_and_in_two(SCRIPT, tmp_path)
    for name in ("centers", "gaussians"):
        one, two = (RunFolder.of(tmp_path / str(devices), name, 0) for devices in (1, 2))
        for key, value in one.weights().items():
            torch.testing.assert_close(two.weights()[key], value, rtol=0, atol=1e-4)
        ours, theirs = one.load()["objective"], two.load()["objective"]
        for key, value in ours.items():
            torch.testing.assert_close(theirs[key], value, rtol=0, atol=1e-4)
    assert {"terms.center.loss.centers", "terms.perpetual.loss.centers"} <= set(one_keys(tmp_path))


def one_keys(tmp_path):
    return RunFolder.of(tmp_path / "1", "centers", 0).load()["objective"]


def test_composed_of_cross_entropy_and_opl_is_the_method_of_the_paper():
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


def test_the_margin_is_there_in_training_and_gone_in_evaluation():
    for head in (ArcFace(), CosFace(), LGM(), ASoftmax(base=1e-3, floor=0.0)):
        recipe = replace(DIGITS, method=Composite(head=head))
        model = build_model(recipe)
        objective, batch = objective_of(recipe, model)
        trained = objective(model, batch).parts["entropy"]
        plain = F.cross_entropy(model(batch.images).logits, batch.labels)
        assert trained > plain + 1e-3
        model.eval()
        assert torch.equal(model(batch.images, batch.labels).logits, model(batch.images).logits)


def test_parameters_reach_the_optimizer_with_the_wishes_of_their_source():
    recipe = replace(
        DIGITS,
        method=Composite(head=LGM(), auxiliary=(Perpetual(),)),
        optimizer=SGD(lr=0.1, weight_decay=5e-4),
        schedule=Steps(milestones=()),
    )
    model = build_model(recipe)
    objective, _ = objective_of(recipe, model)
    optimizer = recipe.optimizer.build(param_groups(model, objective, lr=0.1))
    found = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    assert len(found) == len(list(model.parameters())) + len(list(objective.parameters()))
    means = found[id(model.fc.means)]
    centers = found[id(objective.terms["perpetual"].loss.centers)]
    assert (means["lr"], means["weight_decay"]) == (0.2, 5e-4)
    assert (centers["lr"], centers["weight_decay"]) == (0.5, 0.0)
    bias = build_model(replace(DIGITS, method=METHODS["cb-focal"])).fc
    [free] = [group for group in param_groups(bias, lr=0.1) if group.get("weight_decay") == 0.0]
    assert free["params"][0] is bias.bias


def test_one_step_of_the_run_moves_means_twice_as_far(tmp_path):
    recipe = replace(
        DIGITS,
        epochs=1,
        batch_size=899,
        method=Composite(head=LGM(weight=0.1, margin=0.0)),
        optimizer=SGD(lr=0.01, momentum=0.0, weight_decay=0.0),
        schedule=Steps(milestones=()),
    )
    model = build_model(recipe)
    batch, _, _ = first_batch(recipe)
    features, logits = model(batch.images)
    distances = (features[:, None] - model.fc.means).square().sum(2) / 2
    torch.testing.assert_close(logits, -distances)
    loss = F.cross_entropy(-distances, batch.labels) + 0.1 * distances.gather(1, batch.labels[:, None]).mean()
    loss.backward()
    run(recipe, tmp_path)
    after = RunFolder.of(tmp_path, recipe.name, 0).weights()
    for name, parameter in model.named_parameters():
        rate = 0.02 if name == "fc.means" else 0.01
        torch.testing.assert_close(after[name], (parameter - rate * parameter.grad).detach(), rtol=0, atol=1e-5)


def test_the_step_of_the_run_decides_the_warm_up_however_often_the_loss_was_called():
    recipe = replace(DIGITS, method=METHODS["anchor"])
    model = build_model(recipe)
    objective, batch = objective_of(recipe, model)
    _, _, steps = first_batch(recipe)
    entropy = F.cross_entropy(model(batch.images).logits, batch.labels)
    for step, warming in ((0, True), (int(1.5 * steps) - 1, True), (int(1.5 * steps) + 1, False), (3, True)):
        objective.criterion.set_step(step)
        value = objective(model, batch).total
        assert bool(torch.isclose(value, entropy)) == warming


def test_maps_are_those_of_the_classifier_at_every_position():
    recipe = replace(DIGITS, method=METHODS["hnc"])
    model = build_model(recipe)
    objective, batch = objective_of(recipe, model)
    seen = []
    model.avgpool.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    value = objective(model, batch).parts["negative_cam"]
    maps = torch.einsum("bdhw,cd->bchw", seen[0], model.fc.weight) + model.fc.bias[:, None, None]
    torch.testing.assert_close(maps.mean((2, 3)), model(batch.images).logits)
    total = 0.0
    for image, label in zip(maps, batch.labels, strict=True):
        wrong = [c for c in range(10) if c != label]
        strongest = sorted(wrong, key=lambda c: -image[c].sum())[:3]
        total += sum(-F.log_softmax(image[c].flatten(), dim=0).mean() for c in strongest)
    torch.testing.assert_close(value, total / len(batch.labels))


def test_maps_without_a_linear_classifier_on_a_pooled_map_are_refused():
    shape = TaskShape(10, 32)
    batch = Batch(torch.randn(4, 1, 28, 28), torch.arange(4), torch.arange(4), 0.25)
    objective = Composite(auxiliary=(NegativeCAM(),)).build(shape)
    with pytest.raises(OptionError, match="average pool"):
        objective(MnistNet(embed=2).build(1, 10), batch)
    objective = Composite(head=ArcFace(), auxiliary=(NegativeCAM(),)).build(shape)
    model = MnistNet().build(1, 10)
    model.fc = ArcFace().build(shape)
    with pytest.raises(OptionError, match="linear classifier"):
        objective(model, batch)


def test_the_same_loss_twice_is_refused():
    with pytest.raises(OptionError, match="twice"):
        Composite(auxiliary=(OPL(), OPL(weight=2.0))).build(TaskShape(10, 4))


def test_opl_finds_the_features_of_a_head_unasked():
    import opl
    from opl.heads import ArcFaceHead

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(5, 8), ArcFaceHead(8, 3)

        def forward(self, x):
            return self.head(self.body(x).relu())

    model = Model()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    x, labels = torch.randn(6, 5), torch.tensor([0, 1, 2, 0, 1, 2])
    loss = criterion(model(x), labels)
    features = model.body(x).relu()
    expected = F.cross_entropy(model.head(features), labels) + opl.orthogonal_projection(features, labels).loss
    torch.testing.assert_close(loss, expected)
