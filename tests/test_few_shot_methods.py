"""Distillation and the two generations of SKD, against loops by hand; and runs that come after others."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from opl import orthogonal_projection
from opl.errors import FeatureError, FolderError, OptionError
from opl.experiments import cli, tables
from opl.experiments.methods import OPL, Center, CrossEntropy, Distillation, Rotations, TwinDistillation
from opl.experiments.methods.rotations import append_rotations
from opl.experiments.methods.twin_distillation import sum_of_distances
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import build_model
from opl.experiments.training.run import run
from opl.experiments.types import Batch, Output, TaskShape
from opl.losses import KnowledgeDistillationLoss, knowledge_distillation

CLASSES, SIDE, DIM = 3, 4, 5
DIGITS = replace(tables.recipe("digits-ce", "small"), epochs=2)


class TinyNet(nn.Module):
    """Pixels to five features to three classes, in float64."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.body, self.fc = nn.Linear(SIDE * SIDE, DIM).double(), nn.Linear(DIM, CLASSES).double()

    def forward(self, images, labels=None):
        features = torch.tanh(self.body(images.flatten(1)))
        return Output(features, self.fc(features))


def small_batch(rows=6):
    chance = torch.Generator().manual_seed(1)
    images = torch.rand(rows, 1, SIDE, SIDE, dtype=torch.float64, generator=chance)
    return Batch(images, torch.arange(rows) % CLASSES, torch.arange(rows), 1 / rows)


def softmax(logits):
    powers = [math.exp(value) for value in logits]
    return [power / sum(powers) for power in powers]


def divergence(teacher, student, temperature):
    q, p = (softmax([value / temperature for value in logits]) for logits in (teacher, student))
    return temperature**2 * sum(a * math.log(a / b) for a, b in zip(q, p, strict=True))


def built(method, teacher=None):
    return method.build(TaskShape(CLASSES, DIM, (2, 2, 2), 4, teacher)).double()


# The loss


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_distillation_is_the_divergence_written_out(temperature):
    student, teacher = torch.randn(7, 4, dtype=torch.float64), 3 * torch.randn(7, 4, dtype=torch.float64)
    each = [divergence(t, s, temperature) for t, s in zip(teacher.tolist(), student.tolist(), strict=True)]
    found = knowledge_distillation(student, teacher, temperature=temperature)
    assert found.item() == pytest.approx(sum(each) / 7)
    assert KnowledgeDistillationLoss(temperature, "sum")(student, teacher).item() == pytest.approx(sum(each))
    shifted = knowledge_distillation(student + 5, student, temperature=temperature)
    assert shifted.item() == pytest.approx(0, abs=1e-12)


def test_the_teacher_gets_no_gradient_and_the_student_that_of_its_probabilities():
    student = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    knowledge_distillation(student, teacher, temperature=4.0).backward()
    assert teacher.grad is None
    expected = 4.0 * (F.softmax(student / 4, 1) - F.softmax(teacher / 4, 1)) / 3  # t^2 * 1/t
    torch.testing.assert_close(student.grad, expected.detach())


def test_distillation_refuses_what_does_not_fit():
    with pytest.raises(FeatureError, match=r"\(2, 3\).*\(2, 4\)"):
        knowledge_distillation(torch.zeros(2, 3), torch.zeros(2, 4))
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(OptionError, match="temperature"):
            KnowledgeDistillationLoss(wrong)


# SKD, first generation


def test_a_batch_is_turned_as_numpy_turns_it():
    batch = small_batch()
    four = append_rotations(batch)
    for turns in range(4):
        for row in range(6):
            expected = np.rot90(batch.images[row, 0].numpy(), turns)
            np.testing.assert_array_equal(four.images[6 * turns + row, 0].numpy(), expected)
    assert four.labels.tolist() == batch.labels.tolist() * 4
    assert four.rows.tolist() == batch.rows.tolist() * 4
    assert four.sample_weight == batch.sample_weight / 4


def test_turned_images_keep_their_layout():
    batch = small_batch()._replace(images=torch.rand(2, 3, 8, 8).contiguous(memory_format=torch.channels_last))
    assert append_rotations(batch).images.is_contiguous(memory_format=torch.channels_last)


def test_rotations_are_the_sum_of_both_entropies_by_hand():
    model, batch, objective = TinyNet(), small_batch(), built(Rotations(weight=2.0))
    layer = objective.terms["rotation"].fc
    assert (layer.in_features, layer.out_features) == (CLASSES, 4)  # from the class logits, not from the features
    entropy = binary = 0.0
    for turns in range(4):
        for image, label in zip(batch.images, batch.labels.tolist(), strict=True):
            logits = model(torch.from_numpy(np.rot90(image[0].numpy(), turns).copy())[None, None]).logits[0]
            entropy -= math.log(softmax(logits.tolist())[label])
            for place, score in enumerate((layer.weight @ logits + layer.bias).tolist()):
                p = 1 / (1 + math.exp(-score))
                binary -= math.log(p if place == turns else 1 - p)
    terms = objective(model, batch)
    assert terms.parts["entropy"].item() == pytest.approx(entropy / 24)
    assert terms.parts["rotation"].item() == pytest.approx(binary / 24 / 4)
    assert terms.total.item() == pytest.approx(entropy / 24 + 2 * binary / 96)


def test_the_turns_are_learned_through_the_class_logits():
    model, objective = TinyNet(), built(Rotations())
    objective(model, small_batch()).parts["rotation"].backward()
    assert model.fc.weight.grad.abs().sum() > 0
    assert objective.terms["rotation"].fc.weight.grad.abs().sum() > 0


def test_opl_beside_rotations_sees_all_four_turns():
    model, batch = TinyNet(), small_batch()
    features = torch.cat([model(batch.images.rot90(turns, (2, 3))).features for turns in range(4)])
    expected = orthogonal_projection(features, batch.labels.repeat(4), gamma=0.5, algorithm="pairs").loss
    terms = built(Rotations(auxiliary=(OPL(weight=0.7),)))(model, batch)
    torch.testing.assert_close(terms.parts["projection"], expected)
    rest = terms.parts["entropy"] + 2 * terms.parts["rotation"]
    torch.testing.assert_close(terms.total, rest + 0.7 * expected)


def test_uneven_shares_add_up_to_the_whole_batch():
    model, batch, objective = TinyNet(), small_batch(), built(Rotations())
    whole = objective(model, batch).total
    parts = [
        Batch(batch.images[s], batch.labels[s], batch.rows[s], batch.sample_weight) for s in (slice(0, 1), slice(1, 6))
    ]
    torch.testing.assert_close(sum(objective(model, part).total for part in parts), whole)


# Learning from a teacher


def test_born_again_is_half_labels_and_half_teacher_by_hand():
    model, teacher, batch = TinyNet(0), TinyNet(1), small_batch()
    terms = built(Distillation(weight=0.5, temperature=4.0), teacher)(model, batch)
    logits, wanted = model(batch.images).logits.tolist(), teacher(batch.images).logits.tolist()
    entropy = [-math.log(softmax(row)[label]) for row, label in zip(logits, batch.labels.tolist(), strict=True)]
    taught = [divergence(t, s, 4.0) for t, s in zip(wanted, logits, strict=True)]
    assert terms.parts["distillation"].item() == pytest.approx(sum(taught) / 6)
    assert terms.total.item() == pytest.approx(0.5 * sum(entropy) / 6 + 0.5 * sum(taught) / 6)


def test_turned_twins_are_the_teachers_answers_and_the_distance_to_the_twin_by_hand():
    model, teacher, batch = TinyNet(0), TinyNet(1), small_batch()
    terms = built(TwinDistillation(weight=0.3, temperature=2.0, auxiliary=(OPL(),)), teacher)(model, batch)
    taught = distance = 0.0
    for image in batch.images:
        logits = model(image[None]).logits[0].tolist()
        twin = model(torch.from_numpy(np.rot90(image[0].numpy(), 2).copy())[None, None]).logits[0].tolist()
        taught += divergence(teacher(image[None]).logits[0].tolist(), logits, 2.0)
        distance += math.dist(logits, twin)
    assert terms.parts["distillation"].item() == pytest.approx(taught / 6)
    assert terms.parts["twins"].item() == pytest.approx(distance / 6)
    projection = orthogonal_projection(model(batch.images).features, batch.labels, algorithm="pairs").loss.item()
    assert terms.total.item() == pytest.approx(taught / 6 + 0.3 / 3 * distance / 6 + projection)


def test_equal_twins_have_a_gradient_of_zero_not_of_nan():
    one = torch.randn(2, 3, requires_grad=True)
    sum_of_distances(one, one.detach().clone()).backward()
    assert one.grad.abs().sum() == 0


@pytest.mark.parametrize("method", [Distillation(), TwinDistillation()])
def test_a_teacher_is_neither_trained_nor_saved(method):
    teacher = TinyNet(1).train()
    objective = built(method, teacher)
    assert not list(objective.parameters())
    assert not objective.state_dict()
    objective(TinyNet(0), small_batch()).total.backward()
    assert not teacher.training
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_methods_without_their_teacher_or_with_nonsense_say_so():
    for method in (Distillation(), TwinDistillation()):
        with pytest.raises(OptionError, match="after"):
            built(method)
    for method in (Distillation(weight=1.5), Distillation(temperature=0), TwinDistillation(temperature=-1)):
        with pytest.raises(OptionError):
            built(method, TinyNet())
    with pytest.raises(OptionError, match="twice"):
        built(Rotations(auxiliary=(OPL(), OPL(weight=2.0))))
    with pytest.raises(OptionError, match="after"):
        replace(DIGITS, inherit=True)


# Runs


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
    still = replace(DIGITS.optimizer, lr=0.0)
    again = replace(DIGITS, name="again", after="first", inherit=True, optimizer=still, method=TwinDistillation())
    run(again, tmp_path)
    first, second = (RunFolder.of(tmp_path, name, 0).weights() for name in ("first", "again"))
    moved = [name for name in first if not torch.equal(first[name], second[name])]
    assert all("running" in name or "tracked" in name for name in moved)  # what BatchNorm sees, not what is learned
    assert build_model(again).fc.weight.ne(first["fc.weight"]).any()


TINY = tables.recipe("cifar-fs-rfs-opl", "tiny")


def test_dropout_and_dropblock_are_functions_of_the_step(tmp_path, stopped):
    method = Rotations(auxiliary=(OPL(),))
    recipe = replace(TINY, method=method, epochs=3, model=replace(TINY.model, drop=0.3, ramp=6))
    run(recipe, tmp_path / "whole")

    torch.manual_seed(123)
    stopped(recipe, tmp_path / "broken", 2)
    torch.manual_seed(456)
    run(recipe, tmp_path / "broken")
    run(replace(recipe, eval_every=3), tmp_path / "rarely")  # evaluation changes nothing
    whole, broken, rarely = (
        RunFolder.of(tmp_path / name, recipe.name, 0).path for name in ("whole", "broken", "rarely")
    )
    wanted = (whole / "model.safetensors").read_bytes()
    assert (broken / "model.safetensors").read_bytes() == wanted
    assert (rarely / "model.safetensors").read_bytes() == wanted
    other = replace(recipe, model=replace(recipe.model, drop=0.0))
    run(other, tmp_path / "other")
    assert (RunFolder.of(tmp_path / "other", recipe.name, 0).path / "model.safetensors").read_bytes() != wanted


def test_training_leaves_the_global_generator_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run(TINY, tmp_path)
    torch.testing.assert_close(torch.rand(3), expected)


def test_a_missing_teacher_is_one_sentence_on_the_command_line(tmp_path, capfd):
    words = ["train", "cifar-fs-rfs-distilled", "--scale", "tiny", "--out", str(tmp_path)]
    assert cli.main(words) == 2
    assert "cifar-fs-rfs/seed-0 is no finished run" in capfd.readouterr().err


def test_recipes_of_table_6_are_like_for_like():
    for scale in ("paper", "small", "tiny"):
        for ours, theirs in (("rfs-opl", "rfs"), ("rfs-script-opl", "rfs-script"), ("skd-opl", "skd")):
            one, two = (tables.recipe(f"cifar-fs-{name}", scale) for name in (ours, theirs))
            assert replace(one, name="", method=CrossEntropy()) == replace(two, name="", method=CrossEntropy())
