"""The accuracy of episodes, against a loop over images and scikit-learn, and beside a finished run."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from _few_shot_images import AUGMENT, MEAN, STD, Flat, measured, some_images
from scipy import stats
from sklearn.linear_model import LogisticRegression

from opl.errors import OptionError
from opl.experiments import cli, paper
from opl.experiments.data.episodes import Episodes
from opl.experiments.evaluation.few_shot.evaluate import episode_accuracies, evaluate_episodes
from opl.experiments.evaluation.few_shot.settings import FewShot
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run


def by_hand(part, settings):
    """Episode by episode, image by image, scikit-learn's classifier; plain views."""
    labels = part.labels[part.rows]
    names = ("way", "shot", "queries", "episodes", "seed", "views")
    drawn = Episodes(labels, copies=settings.repeats, **{name: getattr(settings, name) for name in names})

    def feature(place):
        pixels = part.pixels[part.rows[place]].double() / 255
        values = (pixels - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
        return (values / values.norm()).flatten().numpy()

    for episode in map(drawn.__getitem__, range(settings.episodes)):
        x, y = [], []
        for label, places in enumerate(episode.support.tolist()):
            for place in places:
                x += [feature(place)] * settings.repeats
                y += [label] * settings.repeats
        fitted = LogisticRegression(C=1.0, max_iter=1000, tol=1e-8).fit(np.array(x), y)
        predicted = [fitted.predict([feature(place) for place in places]) for places in episode.queries.tolist()]
        yield 100 * np.mean([answer == label for label, answers in enumerate(predicted) for answer in answers])


@pytest.mark.parametrize("shot", [1, 3])
def test_accuracies_are_those_of_a_loop_over_images_and_scikit_learn(shot):
    settings = FewShot(shot=shot, queries=4, episodes=12, view="plain", seed=2)
    part = some_images()
    found, _ = measured(settings, part)
    np.testing.assert_allclose(found.numpy(), list(by_hand(part, settings)), atol=1e-9)
    assert 25 < found.mean() < 100


@pytest.mark.parametrize("classifier", ["prototypes", "nearest", "cosine", "ridge", "scikit-learn"])
def test_every_classifier_is_far_above_chance(classifier):
    found, _ = measured(FewShot(shot=5, queries=5, episodes=20, classifier=classifier, view="plain"))
    assert found.mean() > 40


def test_several_shots_in_one_go_are_the_same_as_each_alone():
    one, five = (FewShot(shot=shot, queries=5, episodes=30) for shot in (1, 5))
    part = some_images()
    both = episode_accuracies(Flat(), part, [one, five], augment=AUGMENT, mean=MEAN, std=STD)
    for settings, found in zip((one, five), both, strict=True):
        assert torch.equal(measured(settings, part)[0], found)
    with pytest.raises(OptionError, match="one at a time"):
        episode_accuracies(Flat(), part, [one, replace(five, noise=0.1)], augment=AUGMENT, mean=MEAN, std=STD)


def test_the_model_goes_back_to_training_and_the_global_chance_is_left_alone():
    torch.manual_seed(4)
    expected = torch.rand(2)
    torch.manual_seed(4)
    _, model = measured(FewShot(queries=5, episodes=5, noise=0.1), model=Flat().train())
    assert model.training
    torch.testing.assert_close(torch.rand(2), expected)


QUICK = FewShot(queries=5, episodes=30)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    for name in ("cifar-fs-rfs", "cifar-fs-rfs-opl"):
        run(paper.recipe(name, "tiny"), out)
    return out


def test_episodes_of_a_run_are_written_beside_it_with_an_interval(runs, capsys):
    folder = RunFolder.of(runs, "cifar-fs-rfs", 0)
    words = ["--shot", "1", "5", "--episodes", "30", "--queries", "5"]
    assert cli.main(["evaluate", str(folder.path), "episodes", *words]) == 0
    numbers = json.loads(capsys.readouterr().out)
    arrays = folder.outputs("measures/episodes-5-way-1-shot-queries-5")
    each = arrays["each"].astype(np.float64)
    low, high = stats.t.interval(0.95, 29, loc=each.mean(), scale=stats.sem(each))
    key = "episodes/5-way-1-shot-queries-5"
    assert numbers[key] == pytest.approx(each.mean())
    assert numbers[f"{key}/half"] == pytest.approx((high - low) / 2, rel=1e-5)
    assert folder.result()["episodes/5-way-5-shot-queries-5"] > 20
    assert "test/top1" in folder.result()


def test_bad_words_are_one_sentence(runs, tmp_path, capfd):
    path = str(RunFolder.of(runs, "cifar-fs-rfs", 0).path)
    for words, expected in (
        ([path, "episodes", "--way", "50"], "give 2 to 20"),
        ([path, "episodes", "--shot", "1000"], "lower shot or queries"),
        ([path, "epsiodes"], "did you mean 'episodes'"),
        ([path], "needs a run and a protocol"),
        ([str(tmp_path), "episodes"], "no finished run"),
    ):
        assert cli.main(["evaluate", *words]) == 2, words
        assert expected in capfd.readouterr().err
    run(replace(paper.recipe("digits-ce", "small"), epochs=1), tmp_path)
    assert cli.main(["evaluate", str(tmp_path / "digits-ce" / "seed-0"), "episodes"]) == 2
    assert "no classes beside those of the run" in capfd.readouterr().err


def test_the_same_run_gives_the_same_episodes_again(runs):
    folder = RunFolder.of(runs, "cifar-fs-rfs-opl", 0)
    assert evaluate_episodes(folder, [QUICK]) == evaluate_episodes(folder, [QUICK])
