"""Heads in a run: margins in training only, and parameters with their learning rates."""

from dataclasses import replace

import torch
from torch.nn import functional as F

from _digits_methods import DIGITS, METHODS, first_batch, objective_of
from opl.experiments.methods import LGM, ArcFace, ASoftmax, Composite, CosFace, Perpetual
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import build_model
from opl.experiments.training.run import run
from opl.optim import SGD, Steps, param_groups


def test_margin_applies_in_training_only():
    for head in (ArcFace(), CosFace(), LGM(), ASoftmax(base=1e-3, floor=0.0)):
        recipe = replace(DIGITS, method=Composite(head=head))
        model = build_model(recipe)
        objective, batch = objective_of(recipe, model)
        trained = objective(model, batch).parts["entropy"]
        plain = F.cross_entropy(model(batch.images).logits, batch.labels)
        assert trained > plain + 1e-3
        model.eval()
        assert torch.equal(model(batch.images, batch.labels).logits, model(batch.images).logits)


def test_parameters_reach_the_optimizer_with_their_options():
    recipe = replace(
        DIGITS,
        method=Composite(head=LGM(), auxiliary=(Perpetual(),)),
        optimizer=SGD(lr=0.1, weight_decay=5e-4),
        schedule=Steps(milestones=()),
    )
    model = build_model(recipe)
    objective, _ = objective_of(recipe, model)
    optimizer = recipe.optimizer.build(param_groups(model, objective, lr=0.1))
    result = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    assert len(result) == len(list(model.parameters())) + len(list(objective.parameters()))
    means = result[id(model.fc.means)]
    centers = result[id(objective.terms["perpetual"].loss.centers)]
    assert (means["lr"], means["weight_decay"]) == (0.2, 5e-4)
    assert (centers["lr"], centers["weight_decay"]) == (0.5, 0.0)
    bias = build_model(replace(DIGITS, method=METHODS["cb-focal"])).fc
    [free] = [group for group in param_groups(bias, lr=0.1) if group.get("weight_decay") == 0.0]
    assert free["params"][0] is bias.bias


def test_one_step_moves_means_with_twice_the_learning_rate(tmp_path):
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
