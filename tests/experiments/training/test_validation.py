"""Validation gives the same numbers on one process and on several, even if a process has no images."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.distributed as dist

from _gloo import together
from opl import geometry, orthogonal_projection
from opl.experiments import paper
from opl.experiments.models import DigitsNet, PreActResNet18
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import finished_model
from opl.experiments.training.run import run
from opl.experiments.training.validation import FEATURE_ROWS, FeatureSample, pictures, shot_accuracies, validate
from opl.experiments.types import Batch, Images, Output

CLASSES, IMAGES = 4, 10


def network() -> torch.nn.Module:
    torch.manual_seed(3)
    return DigitsNet(width=4).build(1, CLASSES)


def batch(rows: slice) -> Batch:
    torch.manual_seed(5)
    images, labels = torch.rand(IMAGES, 1, 8, 8), torch.arange(IMAGES) % CLASSES
    return Batch(images[rows], labels[rows], torch.arange(IMAGES)[rows], 1.0)


def work(rank: int, shares: list[list[int]], folder: str) -> None:
    start, stop = shares[rank]
    batches = [batch(slice(start, stop))] if stop > start else []
    result = validate(signed_network(), batches, CLASSES, group=dist.group.WORLD, keep=True)
    assert bool(result.arrays) == (rank == 0)
    if rank == 0:
        np.savez(f"{folder}/arrays.npz", **result.arrays)
    with open(f"{folder}/{rank}.json", "w") as file:
        json.dump(result.numbers, file)


@pytest.mark.parametrize("shares", [[[0, 5], [5, 10]], [[0, 0], [0, 10]], [[0, 7], [7, 7], [7, 10]]])
def test_several_processes_give_the_numbers_and_predictions_of_a_single_process(tmp_path, shares):
    together(work, len(shares), tmp_path, shares, str(tmp_path))
    whole = validate(signed_network(), [batch(slice(0, IMAGES))], CLASSES, keep=True)
    for rank in range(len(shares)):
        numbers = json.loads((tmp_path / f"{rank}.json").read_text())
        assert numbers == pytest.approx(whole.numbers, abs=1e-6)
    with np.load(tmp_path / "arrays.npz") as arrays:
        assert {*arrays} == {*whole.arrays}
        for name, values in whole.arrays.items():
            np.testing.assert_allclose(arrays[name], values, rtol=2e-3, err_msg=name)


def nothing(rank: int, folder: str) -> None:
    assert validate(network(), [], CLASSES, group=dist.group.WORLD, keep=True) == ({}, {})


def test_several_processes_without_images_do_not_deadlock(tmp_path):
    together(nothing, 2, tmp_path, str(tmp_path))
    assert validate(network(), [], CLASSES, keep=True) == ({}, {})


def test_accuracies_and_loss_match_their_definitions():
    result = validate(network(), [batch(slice(0, 6)), batch(slice(6, 10))], CLASSES)
    model, everything = network().eval(), batch(slice(0, IMAGES))
    with torch.no_grad():
        logits = model(everything.images).logits.double()
    right = [int(logit.argmax()) == int(label) for logit, label in zip(logits, everything.labels, strict=True)]
    losses = [
        -float(logit[label] - logit.exp().sum().log()) for logit, label in zip(logits, everything.labels, strict=True)
    ]
    assert result.numbers["top1"] == pytest.approx(100 * sum(right) / IMAGES)
    assert result.numbers["top5"] == 100
    assert result.numbers["loss"] == pytest.approx(sum(losses) / IMAGES, rel=1e-5)


def signed_network() -> torch.nn.Module:
    torch.manual_seed(3)
    return PreActResNet18(widths=(8,) * 17).build(1, CLASSES)


def test_d_equals_the_penalty_of_the_loss_on_signed_and_unsigned_features():
    everything = batch(slice(0, IMAGES))
    for net, signs in ((network(), 1), (signed_network(), 2)):
        numbers = validate(net, [batch(slice(0, 6)), batch(slice(6, 10))], CLASSES).numbers
        with torch.no_grad():
            features = net.eval()(everything.images).features
        loss = orthogonal_projection(features, everything.labels)
        units = torch.nn.functional.normalize(features.double(), dim=1)
        pairs = everything.labels[:, None] != everything.labels
        assert features.sign().unique().numel() >= signs
        assert numbers["d"] == pytest.approx(loss.other.item(), rel=1e-5)
        assert numbers["d"] == pytest.approx((units @ units.T)[pairs].abs().mean().item(), rel=1e-5)
        assert numbers["d_signed"] == pytest.approx((units @ units.T)[pairs].mean().item(), rel=1e-5)
        assert numbers["orthogonality"] == pytest.approx(1 - numbers["s"] + numbers["d"])
        assert numbers["d_signed"] <= numbers["d"] + 1e-9


def test_the_gamma_needed_is_left_out_where_the_rule_does_not_apply():
    class Fixed(torch.nn.Module):
        def __init__(self, features: torch.Tensor) -> None:
            super().__init__()
            self.features = features

        def forward(self, images: torch.Tensor) -> Output:
            return Output(self.features, self.features[:, :CLASSES])

    torch.manual_seed(0)
    features = torch.randn(IMAGES, 6)
    assert "gamma_needed" not in validate(Fixed(features), [batch(slice(0, IMAGES))], CLASSES).numbers
    assert "gamma_needed" in validate(Fixed(features.abs()), [batch(slice(0, IMAGES))], CLASSES).numbers


def test_a_sample_of_features_keeps_every_kth_image():
    sample = FeatureSample()
    rows = torch.arange(4 * FEATURE_ROWS + 3)
    for part in rows.split(701):
        sample.add(part[:, None].float(), part)
    features, labels = sample.joined()
    assert len(labels) <= FEATURE_ROWS
    assert torch.equal(labels, rows[:: sample.step])
    assert torch.equal(features[:, 0].long(), labels)


def test_balanced_accuracy_is_that_of_scikit_learn():
    from sklearn.metrics import balanced_accuracy_score

    images, rows = torch.rand(30, 1, 8, 8), torch.arange(30)
    labels = torch.tensor([0] * 22 + [1] * 5 + [3] * 3)  # imbalanced, and one class has no images
    net = network().eval()
    expected = balanced_accuracy_score(labels, net(images).logits.argmax(1))
    batches = [Batch(images[part], labels[part], rows[part], 1.0) for part in (rows[:20], rows[20:])]
    assert validate(net, batches, CLASSES).numbers["balanced"] == pytest.approx(100 * expected)


def test_validation_with_keep_measures_features_and_predictions():
    model, everything = network().eval(), batch(slice(0, IMAGES))
    with torch.no_grad():
        features, logits = model(everything.images)
    expected = geometry.summarize(features, everything.labels, logits)
    numbers = validate(model, [batch(slice(0, 6)), batch(slice(6, 10))], CLASSES, keep=True).numbers
    shares = ("recall_at_1", "map_at_r", "r_precision", "failure_auroc")
    for name in {*geometry.MEASURES} - {"temperature", "scaled_ece"}:
        factor = 100 if name in shares else 1
        assert numbers[name] == pytest.approx(factor * expected[name], rel=1e-5), name
    assert not {"map_at_r", "ece", "nc1"} & {*validate(model, [everything], CLASSES).numbers}


def test_a_finished_run_has_neighbor_accuracies_equal_to_scikit_learn(tmp_path):
    from sklearn.neighbors import NearestCentroid

    recipe = replace(paper.recipe("digits-ce", "small"), epochs=1)
    result = run(recipe, tmp_path)
    model = finished_model(RunFolder.of(tmp_path, recipe.name, 0)).eval()
    splits = recipe.data.load(0)
    units = {}
    for name, part in (("train", splits.train), ("test", splits.test)):
        pixels, labels = part.take(torch.arange(len(part)))
        mean, std = (torch.tensor(values)[:, None, None] for values in (recipe.data.mean, recipe.data.std))
        with torch.no_grad():
            features = model((pixels.float() / 255 - mean) / std).features
        units[name] = torch.nn.functional.normalize(features, dim=1).numpy(), labels.numpy()
    expected = NearestCentroid().fit(*units["train"]).score(*units["test"])
    assert result["test/ncm"] == pytest.approx(100 * expected, abs=0.3)  # stored features have half precision
    assert result["test/knn"] > 50


@pytest.mark.parametrize(("images", "kept"), [(84, 84), (300, 300), (2000, 42)])
def test_pictures_are_all_of_a_small_part_or_a_sample_of_all_classes(images, kept):
    pixels, labels = torch.zeros(images, 3, 96, 96, dtype=torch.uint8), (torch.arange(images) % 7).sort().values
    arrays = pictures(Images(pixels, labels, torch.arange(images)))
    assert images <= 300 or arrays["pixels"].nbytes <= 600_000
    assert labels[arrays["pixel_rows"]].unique().tolist() == list(range(7))
    assert arrays["pixels"].shape[1:] == (64, 64, 3)
    assert len(set(arrays["pixel_rows"].tolist())) == kept


def test_accuracies_of_many_medium_and_few_are_means_over_classes():
    counts = torch.tensor([500, 101, 100, 20, 19, 1])
    labels = np.array([0, 0, 1, 2, 3, 3, 3, 4, 5, 5])
    first = np.array([0, 1, 1, 2, 0, 3, 3, 0, 5, 5])
    arrays = {"labels": labels, "top5": np.stack([first, first], 1)}
    by_class = [50.0, 100.0, 100.0, 200 / 3, 0.0, 100.0]
    many, medium, few = (sum(by_class[2 * group : 2 * group + 2]) / 2 for group in range(3))
    expected = {"many": many, "medium": medium, "few": few}
    assert shot_accuracies(counts, arrays) == pytest.approx(expected)


def test_groups_of_classes_without_test_images_are_omitted_and_one_group_is_none():
    labels = np.array([0, 1])
    arrays = {"labels": labels, "top5": labels[:, None]}
    assert shot_accuracies(torch.tensor([500, 50, 5]), arrays) == {"many": 100.0, "medium": 100.0}
    assert shot_accuracies(torch.tensor([500, 500]), arrays) == {}
