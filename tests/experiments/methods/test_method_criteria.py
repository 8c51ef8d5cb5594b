"""Criteria in a run follow its step."""

from dataclasses import replace

import torch
from torch.nn import functional as F

from _digits_methods import DIGITS, METHODS, first_batch, objective_of
from opl.experiments.training.build import build_model


def test_warm_up_depends_on_the_step_of_the_run():
    recipe = replace(DIGITS, method=METHODS["anchor"])
    model = build_model(recipe)
    objective, batch = objective_of(recipe, model)
    _, _, steps = first_batch(recipe)
    entropy = F.cross_entropy(model(batch.images).logits, batch.labels)
    for step, warming in ((0, True), (int(1.5 * steps) - 1, True), (int(1.5 * steps) + 1, False), (3, True)):
        objective.criterion.set_step(step)
        value = objective(model, batch).total
        assert bool(torch.isclose(value, entropy)) == warming
