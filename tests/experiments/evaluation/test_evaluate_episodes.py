"""Few-shot episodes: a loop over images and scikit-learn as reference, encoding of views and noise, finished runs."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression
from torch import nn

from opl.errors import OptionError
from opl.experiments import cli, paper
from opl.experiments.data.augment import ColorJitter, Flip, PadCrop
from opl.experiments.data.episode_sampling import Episodes
from opl.experiments.evaluation import episodes as module
from opl.experiments.evaluation.episodes import episode_accuracies, evaluate_episodes
from opl.experiments.evaluation.protocols import FewShot
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run
from opl.experiments.types import Images, Output

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)
AUGMENT = (PadCrop(2), ColorJitter(0.4, 0.4, 0.4), Flip(0.5))


def some_images(classes=8, each=25, side=6):
    chance = torch.Generator().manual_seed(3)
    centers = torch.randint(110, 145, (classes, 3, side, side), generator=chance)
    labels = torch.arange(classes * each) % classes
    noise = torch.randint(-55, 55, (classes * each, 3, side, side), generator=chance)
    pixels = (centers[labels] + noise).clamp(0, 255).to(torch.uint8)
    spare = torch.zeros(2, 3, side, side, dtype=torch.uint8)  # rows of the source that are outside of this part
    rows = torch.arange(classes * each) + 2
    return Images(torch.cat([spare, pixels]), torch.cat([torch.tensor([99, 99]), labels]), rows)


class Flat(nn.Module):
    """The pixels are the features; records the images that it receives."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.seen = []

    def forward(self, images):
        assert not self.training
        self.seen.append(images.clone())
        return Output(images.flatten(1) * self.weight, images.flatten(1)[:, :2])


def measured(settings, part=None, model=None, augment=AUGMENT):
    model = model or Flat()
    return episode_accuracies(model, part or some_images(), [settings], augment=augment, mean=MEAN, std=STD)[0], model


def by_hand(part, settings):
    """Episode by episode, image by image, scikit-learn's classifier; plain views."""
    labels = part.labels[part.rows]
    names = ("way", "shot", "queries", "episodes", "seed", "views")
    drawn = Episodes(labels, copies=settings.repeats, **{name: getattr(settings, name) for name in names})

    def feature(row):
        pixels = part.pixels[part.rows[row]].double() / 255
        values = (pixels - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
        return (values / values.norm()).flatten().numpy()

    for episode in map(drawn.__getitem__, range(settings.episodes)):
        x, y = [], []
        for label, rows in enumerate(episode.support.tolist()):
            for row in rows:
                x += [feature(row)] * settings.repeats
                y += [label] * settings.repeats
        fitted = LogisticRegression(C=1.0, max_iter=1000, tol=1e-8).fit(np.array(x), y)
        predicted = [fitted.predict([feature(row) for row in rows]) for rows in episode.queries.tolist()]
        yield 100 * np.mean([answer == label for label, answers in enumerate(predicted) for answer in answers])


@pytest.mark.parametrize("shot", [1, 3])
def test_accuracies_equal_a_loop_over_images_and_scikit_learn(shot):
    settings = FewShot(shot=shot, queries=4, episodes=12, view="plain", seed=2)
    part = some_images()
    result, _ = measured(settings, part)
    np.testing.assert_allclose(result.numpy(), list(by_hand(part, settings)), atol=1e-9)
    assert 25 < result.mean() < 100


@pytest.mark.parametrize("classifier", ["prototypes", "nearest", "cosine", "ridge", "scikit-learn"])
def test_every_classifier_is_far_above_chance(classifier):
    result, _ = measured(FewShot(shot=5, queries=5, episodes=20, classifier=classifier, view="plain"))
    assert result.mean() > 40


def test_several_shots_together_equal_separate_evaluations():
    one, five = (FewShot(shot=shot, queries=5, episodes=30) for shot in (1, 5))
    part = some_images()
    both = episode_accuracies(Flat(), part, [one, five], augment=AUGMENT, mean=MEAN, std=STD)
    for settings, result in zip((one, five), both, strict=True):
        assert torch.equal(measured(settings, part)[0], result)
    with pytest.raises(OptionError, match="one at a time"):
        episode_accuracies(Flat(), part, [one, replace(five, noise=0.1)], augment=AUGMENT, mean=MEAN, std=STD)


def test_model_mode_and_global_random_state_are_restored():
    torch.manual_seed(4)
    expected = torch.rand(2)
    torch.manual_seed(4)
    _, model = measured(FewShot(queries=5, episodes=5, noise=0.1), model=Flat().train())
    assert model.training
    torch.testing.assert_close(torch.rand(2), expected)


def test_every_image_and_view_is_encoded_once_for_any_number_of_episodes():
    part, rows = some_images(), 200
    for count in (10, 400):
        _, model = measured(FewShot(queries=5, episodes=count, views=6), part)
        encoded = sum(map(len, model.seen))
        drawn = Episodes(part.labels[part.rows], queries=5, episodes=count, seed=0, copies=5, views=6)
        wanted = {
            (row, view)
            for episode in map(drawn.__getitem__, range(count))
            for rows, views in zip(episode.support.tolist(), episode.views.tolist(), strict=True)
            for row, choice in zip(rows, views, strict=True)
            for view in choice
        }
        assert encoded == rows + len(wanted) <= rows * 7


def test_a_view_does_not_depend_on_other_encoded_images(monkeypatch):
    few, _ = measured(FewShot(queries=5, episodes=10))
    many, _ = measured(FewShot(queries=5, episodes=300))
    assert torch.equal(many[:10], few)
    monkeypatch.setattr(module, "CHUNK", 7)
    again, _ = measured(FewShot(queries=5, episodes=300))
    assert torch.equal(again, many)


def test_separate_copies_are_augmented_independently_one_episode_at_a_time():
    _, model = measured(FewShot(queries=5, episodes=9, views=0))
    batches = [images for images in model.seen if len(images) == 25]
    assert len(batches) == 9  # an episode at a time: five classes, five copies
    copies = batches[0].reshape(5, 5, -1)
    assert all(not torch.equal(views[i], views[j]) for views in copies for i in range(5) for j in range(i))


def test_support_without_jitter_keeps_its_colors():
    part = some_images()
    values = {view: set() for view in ("plain", "no-jitter", "training")}
    for view in values:
        _, model = measured(FewShot(queries=5, episodes=5, view=view), part, augment=AUGMENT[1:])
        restored = model.seen[-1] * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]
        values[view] = (restored * 255 - (restored * 255).round()).abs().max().item()
    assert values["plain"] < 1e-2
    assert values["no-jitter"] < 1e-2 < values["training"]


@pytest.mark.parametrize("unit", ["pixels", "normalized"])
def test_noise_has_the_given_deviation_on_support_and_queries(unit):
    part = Images(torch.full((200, 3, 20, 20), 128, dtype=torch.uint8), torch.arange(200) % 8, torch.arange(200))
    settings = FewShot(queries=5, episodes=40, noise=0.1, noise_unit=unit, clip=False, view="plain")
    _, model = measured(settings, part)
    clean = (128 / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    scale = torch.tensor(STD)[:, None, None] if unit == "pixels" else 1.0
    queries, support = ((images - clean) * scale for images in (model.seen[0], torch.cat(model.seen[1:])))
    for noise in (queries, support):
        assert noise.std().item() == pytest.approx(0.1, rel=0.01)
        assert noise.mean().item() == pytest.approx(0, abs=1e-3)
    both = torch.stack([queries[:100].flatten(), support[:100].flatten()])
    assert abs(torch.corrcoef(both)[0, 1]) < 0.02


def test_noisy_pixels_are_clipped_by_default():
    part = Images(torch.zeros(200, 3, 6, 6, dtype=torch.uint8), torch.arange(200) % 8, torch.arange(200))
    lowest = {}
    for clip in (True, False):
        _, model = measured(FewShot(queries=5, episodes=5, noise=0.3, clip=clip, view="plain"), part)
        pixels = torch.cat(model.seen) * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]
        lowest[clip] = pixels.min().item()
    assert lowest[True] == pytest.approx(0, abs=1e-6)
    assert lowest[False] < -0.5


QUICK = FewShot(queries=5, episodes=30)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    for name in ("cifar-fs-rfs", "cifar-fs-rfs-opl"):
        run(paper.recipe(name, "tiny"), out)
    return out


def test_accuracies_of_a_run_are_written_with_an_interval(runs, capsys):
    folder = RunFolder.of(runs, "cifar-fs-rfs", 0)
    argv = ["--shot", "1", "5", "--episodes", "30", "--queries", "5"]
    assert cli.main(["evaluate", str(folder.path), "episodes", *argv]) == 0
    numbers = json.loads(capsys.readouterr().out)
    arrays = folder.outputs("measures/episodes-5-way-1-shot-queries-5")
    accuracies = arrays["each"].astype(np.float64)
    low, high = stats.t.interval(0.95, 29, loc=accuracies.mean(), scale=stats.sem(accuracies))
    key = "episodes/5-way-1-shot-queries-5"
    assert numbers[key] == pytest.approx(accuracies.mean())
    assert numbers[f"{key}/half"] == pytest.approx((high - low) / 2, rel=1e-5)
    assert folder.result()["episodes/5-way-5-shot-queries-5"] > 20
    assert "test/top1" in folder.result()


def test_usage_errors_are_one_sentence(runs, tmp_path, capfd):
    path = str(RunFolder.of(runs, "cifar-fs-rfs", 0).path)
    for argv, expected in (
        ([path, "episodes", "--way", "50"], "must be 2 to 20"),
        ([path, "episodes", "--shot", "1000"], "lower shot or queries"),
        ([path, "epsiodes"], "did you mean 'episodes'"),
        ([path], "needs a run and a protocol"),
        ([str(tmp_path), "episodes"], "not a finished run"),
    ):
        assert cli.main(["evaluate", *argv]) == 2, argv
        assert expected in capfd.readouterr().err
    run(replace(paper.recipe("digits-ce", "small"), epochs=1), tmp_path)
    assert cli.main(["evaluate", str(tmp_path / "digits-ce" / "seed-0"), "episodes"]) == 2
    assert "no novel classes: choose a run" in capfd.readouterr().err


def test_repeated_evaluation_gives_equal_numbers(runs):
    folder = RunFolder.of(runs, "cifar-fs-rfs-opl", 0)
    assert evaluate_episodes(folder, [QUICK]) == evaluate_episodes(folder, [QUICK])
