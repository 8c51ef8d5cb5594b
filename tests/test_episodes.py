"""Few-shot episodes: which images they draw, what is encoded, and the accuracy that comes out."""

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.utils.data import DataLoader

from opl.errors import OptionError
from opl.experiments import cli, tables
from opl.experiments.cluster.local import jobs_of, run_all
from opl.experiments.data.augment import ColorJitter, Flip, PadCrop
from opl.experiments.data.episodes import Episodes
from opl.experiments.evaluation.few_shot import evaluate as module
from opl.experiments.evaluation.few_shot.evaluate import episode_accuracies, evaluate_episodes
from opl.experiments.evaluation.few_shot.settings import FewShot
from opl.experiments.item import Item, Row
from opl.experiments.report.page import write_report
from opl.experiments.results.comparisons import compare, describe_comparison
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import cells, lines
from opl.experiments.run_folder import RunFolder
from opl.experiments.tables import item
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
    spare = torch.zeros(2, 3, side, side, dtype=torch.uint8)  # rows of the source that are not of this part
    rows = torch.arange(classes * each) + 2
    return Images(torch.cat([spare, pixels]), torch.cat([torch.tensor([99, 99]), labels]), rows)


class Flat(nn.Module):
    """The pixels are the features; remembers how many images it was shown."""

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


# Drawing


def test_support_and_queries_are_disjoint_and_of_their_classes():
    labels = torch.arange(90) % 6
    drawn = Episodes(labels, way=4, shot=3, queries=5, episodes=200, seed=1)
    for episode in map(drawn.__getitem__, range(200)):
        assert len(set(episode.classes.tolist())) == 4
        assert labels[episode.support].eq(episode.classes[:, None]).all()
        assert labels[episode.queries].eq(episode.classes[:, None]).all()
        images = torch.cat([episode.support.flatten(), episode.queries.flatten()]).tolist()
        assert len(set(images)) == len(images) == 4 * 8


def test_classes_and_images_are_drawn_uniformly():
    labels = torch.arange(200) % 10
    drawn = Episodes(labels, way=5, shot=2, queries=3, episodes=4000, seed=0, copies=2, views=4)
    classes, support, queries, firsts, views = Counter(), Counter(), Counter(), Counter(), Counter()
    for episode in map(drawn.__getitem__, range(4000)):
        classes.update(episode.classes.tolist())
        firsts.update(episode.classes[:1].tolist())
        support.update(episode.support.flatten().tolist())
        queries.update(episode.queries.flatten().tolist())
        views.update(map(tuple, episode.views.flatten(0, 1).tolist()))
    assert all(one != two for one, two in views)
    for counts, kinds in ((classes, 10), (firsts, 10), (support, 200), (queries, 200), (views, 12)):
        assert len(counts) == kinds
        # Draws without replacement spread less than independent ones, so an honest sampler fails no more often.
        assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_an_episode_is_a_function_of_its_number_whoever_draws_it():
    drawn = Episodes(torch.arange(120) % 6, episodes=40, queries=5, seed=7, copies=2, views=3)
    longer = Episodes(torch.arange(120) % 6, episodes=4000, queries=5, seed=7, copies=2, views=3)
    for workers in (0, 1, 2):
        loader = DataLoader(drawn, batch_size=None, num_workers=workers, collate_fn=lambda one: one)
        for number, episode in enumerate(loader):
            for part, expected in zip(episode, longer[number], strict=True):
                assert torch.equal(part, expected)
    assert not torch.equal(longer[0].support, longer[1].support)
    other = Episodes(torch.arange(120) % 6, episodes=40, queries=5, seed=8, copies=2, views=3)
    assert not torch.equal(other[0].support, drawn[0].support)
    stacked = longer.stack(3, 6)
    assert torch.equal(stacked.queries[1], longer[4].queries)


BAD = {
    "too many ways": ({"way": 7}, "give 2 to 6"),
    "one way": ({"way": 1}, "give 2 to 6"),
    "no shot": ({"shot": 0}, "shot is 0"),
    "no episodes": ({"episodes": 0}, "episodes is 0"),
    "too few images": ({"shot": 6}, "20 of each class".replace("20", "21")),
    "more copies than views": ({"copies": 5, "views": 3}, "5 copies"),
}


@pytest.mark.parametrize("name", BAD)
def test_impossible_episodes_are_refused(name):
    options, words = BAD[name]
    with pytest.raises(OptionError, match=words):
        Episodes(torch.arange(120) % 6, **options)


def test_settings_have_names_for_what_differs():
    assert FewShot().name == "5-way-1-shot"
    assert FewShot(way=20, shot=5, noise=0.05, unit=False).name == "20-way-5-shot-unit-off-noise-0.05"
    assert (FewShot().repeats, FewShot(shot=5).repeats, FewShot(shot=5, copies=5).repeats) == (5, 1, 5)
    for wrong in ({"noise": -0.1}, {"copies": -1}, {"views": -1}, {"seed": -1}):
        with pytest.raises(OptionError):
            FewShot(**wrong)


# Measuring


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


def test_every_image_and_every_view_is_encoded_once_however_many_episodes():
    part, rows = some_images(), 200
    for count in (10, 400):
        _, model = measured(FewShot(queries=5, episodes=count, views=6), part)
        shown = sum(map(len, model.seen))
        drawn = Episodes(part.labels[part.rows], queries=5, episodes=count, seed=0, copies=5, views=6)
        wanted = {
            (place, view)
            for episode in map(drawn.__getitem__, range(count))
            for places, views in zip(episode.support.tolist(), episode.views.tolist(), strict=True)
            for place, own in zip(places, views, strict=True)
            for view in own
        }
        assert shown == rows + len(wanted) <= rows * 7


def test_a_view_is_the_same_whatever_else_is_encoded(monkeypatch):
    few, _ = measured(FewShot(queries=5, episodes=10))
    many, _ = measured(FewShot(queries=5, episodes=300))
    assert torch.equal(many[:10], few)
    monkeypatch.setattr(module, "CHUNK", 7)
    again, _ = measured(FewShot(queries=5, episodes=300))
    assert torch.equal(again, many)


def test_several_shots_in_one_go_are_the_same_as_each_alone():
    one, five = (FewShot(shot=shot, queries=5, episodes=30) for shot in (1, 5))
    part = some_images()
    both = episode_accuracies(Flat(), part, [one, five], augment=AUGMENT, mean=MEAN, std=STD)
    for settings, found in zip((one, five), both, strict=True):
        assert torch.equal(measured(settings, part)[0], found)
    with pytest.raises(OptionError, match="one at a time"):
        episode_accuracies(Flat(), part, [one, replace(five, noise=0.1)], augment=AUGMENT, mean=MEAN, std=STD)


def test_copies_anew_are_augmented_apart_and_cost_no_memory_of_all():
    _, model = measured(FewShot(queries=5, episodes=9, views=0))
    shown = [images for images in model.seen if len(images) == 25]
    assert len(shown) == 9  # an episode at a time: five classes, five copies
    copies = shown[0].reshape(5, 5, -1)
    assert all(not torch.equal(own[i], own[j]) for own in copies for i in range(5) for j in range(i))


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
def test_noise_has_the_deviation_asked_for_in_its_unit_on_support_and_queries(unit):
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


def test_noisy_pixels_are_cut_to_their_range_unless_told_not_to():
    part = Images(torch.zeros(200, 3, 6, 6, dtype=torch.uint8), torch.arange(200) % 8, torch.arange(200))
    lowest = {}
    for clip in (True, False):
        _, model = measured(FewShot(queries=5, episodes=5, noise=0.3, clip=clip, view="plain"), part)
        shown = torch.cat(model.seen) * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]
        lowest[clip] = shown.min().item()
    assert lowest[True] == pytest.approx(0, abs=1e-6)
    assert lowest[False] < -0.5


def test_the_model_goes_back_to_training_and_the_global_chance_is_left_alone():
    torch.manual_seed(4)
    expected = torch.rand(2)
    torch.manual_seed(4)
    _, model = measured(FewShot(queries=5, episodes=5, noise=0.1), model=Flat().train())
    assert model.training
    torch.testing.assert_close(torch.rand(2), expected)


# Runs, tables, words

TINY = tables.recipe("cifar-fs-rfs", "tiny")
QUICK = FewShot(queries=5, episodes=30)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    for name in ("cifar-fs-rfs", "cifar-fs-rfs-opl"):
        run(tables.recipe(name, "tiny"), out)
    return out


def test_episodes_of_a_run_are_written_beside_it_with_an_interval(runs, capsys):
    folder = RunFolder.of(runs, "cifar-fs-rfs", 0)
    words = ["--shot", "1", "5", "--episodes", "30", "--queries", "5"]
    assert cli.main(["evaluate", str(folder.path), "episodes", *words]) == 0
    numbers = json.loads(capsys.readouterr().out)
    arrays = folder.outputs("measures/episodes-5-way-1-shot-queries-5-episodes-30")
    each = arrays["each"].astype(np.float64)
    low, high = stats.t.interval(0.95, 29, loc=each.mean(), scale=stats.sem(each))
    key = "episodes/5-way-1-shot-queries-5-episodes-30"
    assert numbers[key] == pytest.approx(each.mean())
    assert numbers[f"{key}/half"] == pytest.approx((high - low) / 2, rel=1e-5)
    assert folder.result()["episodes/5-way-5-shot-queries-5-episodes-30"] > 20
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
    run(replace(tables.recipe("digits-ce", "small"), epochs=1), tmp_path)
    assert cli.main(["evaluate", str(tmp_path / "digits-ce" / "seed-0"), "episodes"]) == 2
    assert "no classes beside those of the run" in capfd.readouterr().err


def test_differences_are_taken_episode_by_episode_and_averaged_over_seeds(runs, tmp_path):
    shown = {QUICK.metric: "1-shot %", replace(QUICK, shot=5).metric: "5-shot %"}
    rows = (Row("A", "a", {}), Row("B", "b", {QUICK.metric: 71.0}, "a"))
    table = Item("x", "x", "x", shown, rows, compared=tuple(shown), what="method")
    chance = np.random.default_rng(0)
    each = {}
    for recipe in ("a", "b"):
        for seed in (0, 1):
            folder = RunFolder.of(tmp_path, recipe, seed)
            folder.start({"name": recipe, "seed": seed, "scale": "tiny"}, {})
            folder.finish({"x": torch.zeros(1)}, {"test/top1": 1.0})
            for name in shown if (recipe, seed) != ("b", 1) else list(shown)[:1]:
                each[recipe, seed, name] = chance.normal(50, 5, 40)
                values = {"numbers": {name: float(each[recipe, seed, name].mean())}}
                folder.write_measure(name.replace("/", "-"), values, {"each": each[recipe, seed, name]})
    first, second = compare(table, read_runs(tmp_path), "tiny")
    name = next(iter(shown))
    differences = np.mean([each["b", seed, name] - each["a", seed, name] for seed in (0, 1)], axis=0)
    low, high = stats.t.interval(0.95, 39, loc=differences.mean(), scale=stats.sem(differences))
    assert (first.difference.low, first.difference.high) == pytest.approx((low, high))
    assert (first.seeds, second.seeds) == ((0, 1), (0,))
    assert "over the same 40 episodes (mean of 2 seeds)" in describe_comparison(first)
    found = lines(table, read_runs(tmp_path), "tiny")
    assert found[1].seeds == (0,)
    assert found[1].missing == "seed 1 not measured"
    heading, body = cells(table, found)
    assert heading[:2] == ["method", "seeds"]
    assert heading[-2:] == ["difference in 1-shot %", "difference in 5-shot %"]
    assert body[1][4] == "71.00"
    page = write_report(tmp_path, {"x": table}).read_text()
    assert "Differences over the same 40 episodes" in page
    assert f"{first.difference.mean:+.2f} [{first.difference.low:+.2f}, {first.difference.high:+.2f}]" in page


def test_runs_wait_for_those_that_they_come_after_and_fail_with_them(tmp_path, monkeypatch):
    after = {"teacher": "", "student": "teacher", "pupil": "student", "other": ""}
    look = lambda name: SimpleNamespace(epochs=1, after=after[name])  # noqa: E731
    table = Item("x", "x", "x", {}, (Row("P", "pupil", {}), Row("O", "other", {})))
    jobs = jobs_of(table, "tiny", 2, tmp_path, look)
    assert [job.recipe for job in jobs] == ["teacher", "student", "pupil", "other"] * 2
    order = []

    def start(job, scale, out, at_once):
        job.folder.start({"name": job.recipe}, {})
        order.append(f"{job.recipe} {job.seed}")
        good = not (job.recipe == "student" and job.seed == 1)
        if good:
            job.folder.finish({"x": torch.zeros(1)}, {})
        job.process = SimpleNamespace(poll=lambda: 0)

    monkeypatch.setattr("opl.experiments.cluster.local._start", start)
    failed = run_all(jobs, "tiny", tmp_path, 2)
    for seed in (0, 1):
        assert order.index(f"teacher {seed}") < order.index(f"student {seed}")
    assert order.index("student 0") < order.index("pupil 0")
    assert "pupil 1" not in order
    assert "other 1" in order
    assert [(job.recipe, job.seed) for job in failed] == [("student", 1), ("pupil", 1)]
    assert "comes after student" in failed[1].state


def test_tables_of_few_shot_learning_ask_for_what_they_show():
    for name in ("table-6", "table-s3"):
        asked = item(name)
        written = {measure_name.replace("-", "/", 1) for each in asked.measures for measure_name in each.names}
        assert set(asked.metrics) == written
        assert all(row.recipe in tables.recipes() for row in asked.rows)
        assert all(set(row.paper) <= set(asked.metrics) for row in asked.rows)


def test_the_same_run_gives_the_same_episodes_again(runs):
    folder = RunFolder.of(runs, "cifar-fs-rfs-opl", 0)
    assert evaluate_episodes(folder, [QUICK]) == evaluate_episodes(folder, [QUICK])
