"""Accuracy under attack: closed forms, pyautoattack itself, interruptions, and what an honest attack must show."""

import json
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional as F

from opl.errors import OplWarning, OptionError
from opl.experiments import cli, tables
from opl.experiments.cluster.local import jobs_of, measure_all
from opl.experiments.evaluation.attack import sanity
from opl.experiments.evaluation.attack.attacks import PixelClassifier, choose_images, fgsm, is_correct, pgd
from opl.experiments.evaluation.attack.autoattack import ATTACKS, ROBUST, autoattack, configure
from opl.experiments.evaluation.attack.evaluate import evaluate_attacks
from opl.experiments.evaluation.attack.settings import Attack
from opl.experiments.methods import AdversarialTraining
from opl.experiments.radius import format_radius, parse_radius
from opl.experiments.results.comparisons import compare, describe_comparison, wilson_lines
from opl.experiments.results.runs import read_runs
from opl.experiments.run_folder import RunFolder
from opl.experiments.statistics import wilson
from opl.experiments.tables import item
from opl.experiments.tables.table_4 import IMAGES
from opl.experiments.training.build import finished_model
from opl.experiments.training.run import run
from opl.experiments.types import Images, Output

SHORT = Attack(iterations=6, queries=40, batch=7, eps=0.1)
CLASSES = 5


class Net(nn.Module):
    """A convolution, a dropout that must sleep, a classifier; from pixels to logits."""

    def __init__(self, classes=CLASSES):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(2))
        self.fc = nn.Linear(32, classes)

    def forward(self, images):
        return self.fc(self.body(images).flatten(1))


def learned(images, labels, steps=150):
    """A network that tells the images apart, not too far from the border."""
    model = Net().eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    optimizer.zero_grad()
    return model


@pytest.fixture(scope="module")
def site():
    """A model, images in [0, 1] and labels, of which the model gets most right; some are near the border."""
    chance = torch.Generator().manual_seed(1)
    labels = torch.arange(30) % CLASSES
    patterns = torch.rand(CLASSES, 3, 1, 1, generator=chance)
    images = (patterns[labels] + 0.25 * torch.randn(30, 3, 8, 8, generator=chance)).clamp(0, 1)
    model = learned(images, labels)
    labels = labels.clone()
    labels[:3] = (labels[:3] + 1) % CLASSES  # wrong from the start
    return model, images, labels


def left_alone(model):
    """A check that nothing of the model, nor of the global generator, was touched."""
    model.train()
    model.fc.eval()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    model.fc.bias.requires_grad_(False)
    torch.manual_seed(5)
    state, weights = torch.get_rng_state(), {name: value.clone() for name, value in model.state_dict().items()}

    def check():
        assert torch.equal(torch.get_rng_state(), state)
        assert [part.training for part in (model, model.body, model.body[2], model.fc)] == [True, True, True, False]
        assert all((parameter.grad == 1).all() for parameter in model.parameters())
        assert [name for name, each in model.named_parameters() if not each.requires_grad] == ["fc.bias"]
        assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
        model.requires_grad_(True)
        model.zero_grad()

    return check


# FGSM and PGD


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("seed", range(4))
def test_attacks_stay_in_the_ball_and_in_the_range_of_pixels(norm, seed):
    torch.manual_seed(seed)
    model, images, labels = Net(), torch.rand(9, 3, 6, 6), torch.arange(9) % CLASSES
    images[0] = images[0].round()
    settings = Attack(eps=(0.01, 0.1, 0.7, 1.0 if norm == "linf" else 2.0)[seed], norm=norm, steps=4, batch=4)
    before = images.clone()
    for moved in (fgsm(model, images, labels, settings), pgd(model, images, labels, settings)):
        delta = (moved - before).flatten(1)
        size = delta.abs().amax(1) if norm == "linf" else delta.norm(dim=1)
        assert size.max() <= settings.eps * (1 + 1e-5) + 1e-6
        assert moved.min() >= 0
        assert moved.max() <= 1
        assert size.min() > 0
    assert torch.equal(images, before)


def test_fgsm_on_a_linear_model_is_the_closed_form():
    weight = torch.randn(2, 12, dtype=torch.float64)

    class Linear(nn.Module):
        def forward(self, images):
            return images.flatten(1) @ weight.T

    images, labels = torch.rand(8, 3, 2, 2, dtype=torch.float64), torch.arange(8) % 2
    rival_minus_own = torch.stack([weight[1] - weight[0], weight[0] - weight[1]])[labels].view_as(images)
    expected = (images + 0.2 * rival_minus_own.sign()).clamp(0, 1)
    torch.testing.assert_close(fgsm(Linear(), images, labels, Attack(eps=0.2)), expected)
    torch.testing.assert_close(pgd(Linear(), images, labels, Attack(eps=0.2, step=0.1)), expected)


def test_attacks_leave_everything_else_alone(site):
    model, images, labels = site
    check = left_alone(model)
    fgsm(model, images, labels, SHORT)
    pgd(model, images, labels, SHORT)
    is_correct(model, images, labels)
    autoattack(model, images, labels, SHORT)
    check()


def test_the_random_start_of_an_image_depends_on_its_number_alone(site):
    model, images, labels = site
    settings = Attack(eps=0.1, steps=1, step=0.01)
    whole = pgd(model, images, labels, settings)
    alone = pgd(model, images[[4, 20]], labels[[4, 20]], replace(settings, batch=1), [4, 20])
    torch.testing.assert_close(alone, whole[[4, 20]], rtol=0, atol=1e-6)
    other = pgd(model, images, labels, replace(settings, seed=1))
    assert (other - whole).abs().max() > 0.05


def test_the_same_images_are_chosen_for_every_network_and_all_of_them_for_0():
    part = Images(torch.zeros(50, 1, 2, 2), torch.zeros(50), torch.arange(50))
    places = choose_images(part, Attack(images=20))
    assert len(set(places.tolist())) == 20
    assert places.tolist() == sorted(places.tolist()) == choose_images(part, Attack(images=20, eps=0.5)).tolist()
    assert places.tolist() != choose_images(part, Attack(images=20, seed=1)).tolist()
    assert (
        choose_images(part, Attack(images=0)).tolist()
        == choose_images(part, Attack(images=999)).tolist()
        == list(range(50))
    )


# AutoAttack


def direct(model, images, labels, settings):
    """pyautoattack as its page says, in one call."""
    from pyautoattack import AutoAttack

    attacker = AutoAttack(model, eps=settings.eps, norm="Linf", seed=settings.seed, device="cpu")
    attacker = configure(attacker, settings, CLASSES)
    model.eval()
    model.requires_grad_(False)
    moved, answers = attacker.run_standard_evaluation(images, labels, batch_size=settings.batch)
    model.requires_grad_(True)
    assert (moved - images).abs().max() <= settings.eps + 1e-6  # the points that broke something are fair
    assert moved.min() >= 0
    assert moved.max() <= 1
    return answers == labels


@pytest.mark.parametrize("eps", [0.02, 0.1])
def test_autoattack_is_pyautoattack_called_directly(site, eps):
    model, images, labels = site
    settings = replace(SHORT, eps=eps)
    ours = autoattack(model, images, labels, settings)
    theirs = direct(model, images, labels, settings)
    assert torch.equal(ours.robust, theirs)
    assert 0 < theirs.sum() < len(labels) - 3  # something is left, and something fell
    assert (ours.broken[:3] < ROBUST).all()
    assert (ours.attack, ours.batches) == (len(ATTACKS), 0)


def test_an_autoattack_stopped_after_any_batch_ends_the_same(site):
    model, images, labels = site
    settings = replace(SHORT, eps=0.06)
    moments = []

    def remember(state):
        moments.append(replace(state, broken=state.broken.clone()))

    whole = autoattack(model, images, labels, settings, save=remember)
    assert len(moments) > len(ATTACKS) + 2
    assert {moment.attack for moment in moments} == set(range(len(ATTACKS) + 1))
    for moment in moments[:: max(1, len(moments) // 6)]:
        torch.rand(3)
        again = autoattack(model, images, labels, settings, state=replace(moment, broken=moment.broken.clone()))
        assert torch.equal(again.broken, whole.broken)


def test_the_tracer_of_a_debugger_comes_back(site):
    model, images, labels = site

    def tracer(frame, event, argument):
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        autoattack(model, images[:2], labels[:2], replace(SHORT, iterations=1, queries=1))
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_what_cannot_be_attacked_is_refused(site):
    model, images, labels = site
    with pytest.raises(OptionError, match="at least 4 classes"):
        autoattack(Net(3), images, labels % 3, SHORT)
    with pytest.raises(OptionError, match=r"\[0, 1\]"):
        autoattack(model, images - 0.5, labels, SHORT)


# Settings


def test_radii_are_read_and_spelled_as_people_write_them():
    assert parse_radius("8/255") == 8 / 255
    assert parse_radius("0.031") == 0.031
    assert (format_radius(8 / 255), format_radius(0.031), format_radius(1 / 1000)) == ("8/255", "0.031", "0.001")
    for word in ("eight", "8/0", "", "8/255/2"):
        with pytest.raises(OptionError, match="8/255"):
            parse_radius(word)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"eps": 0.0}, "eps is 0"),
        ({"eps": 8.0}, "is 8/255 meant"),
        ({"images": -1}, "images is -1"),
        ({"queries": 0}, "queries is 0"),
        ({"kinds": ("cw",)}, "'cw' does not exist"),
    ],
)
def test_settings_that_attack_nothing_are_refused(wrong, words):
    with pytest.raises(OptionError, match=words):
        Attack(**wrong)


def test_a_shortened_autoattack_does_not_bear_its_name():
    assert Attack().metric("autoattack") == "attack/autoattack-linf-8-255"
    assert Attack(queries=100).metric("autoattack") == "attack/short-autoattack-100-100-linf-8-255"
    assert Attack(step=0.01).metric("pgd") == "attack/pgd-20-linf-8-255-step-0.01"


# Sanity


def test_an_honest_attack_raises_no_suspicion():
    found = {"clean": 80.0, "fgsm": 40.0, "pgd": 30.0, "autoattack": 25.0}
    curve = {0.01: 50.0, 0.03: 30.0, 0.06: 30.5, 0.5: 0.0}
    assert sanity.suspicions(found, curve, 0.2, 500, 0.5) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"found": {"fgsm": 20.0, "pgd": 30.0}}, "PGD leaves 30.0 % and FGSM only 20.0 %"),
        ({"found": {"pgd": 20.0, "autoattack": 30.0}}, "AutoAttack leaves 30.0 % and PGD only 20.0 %"),
        ({"curve": {0.1: 20.0, 0.2: 30.0}}, "fall with the radius"),
        ({"curve": {0.1: 20.0, 0.5: 15.0}}, "15.0 % at 0.5, where nearly nothing"),
        ({"square": 3.0}, "Square"),
    ],
)
def test_each_sign_of_masked_gradients_is_said(change, words):
    given = {"found": {}, "curve": {}, "square": 0.0, "images": 500, "large": 0.5, **change}
    [sentence] = sanity.suspicions(**given)
    assert words in sentence


def test_a_network_with_masked_gradients_is_found_out(site):
    model, images, labels = site

    class Masked(nn.Module):
        """Steps of a stair: no gradient anywhere."""

        def forward(self, pixels):
            return model((pixels * 20).round() / 20)

    settings = Attack(eps=0.3, steps=5)
    moved = pgd(Masked(), images, labels, settings)
    masked = is_correct(Masked(), moved, labels).float().mean()
    honest = is_correct(model, pgd(model, images, labels, settings), labels).float().mean()
    state = autoattack(Masked(), images, labels, replace(SHORT, eps=0.3, queries=150))
    square = 100 * (state.broken == ATTACKS.index("square")).float().mean().item()
    assert masked > honest + 0.2
    assert any("Square" in each for each in sanity.suspicions({}, {}, square, len(images), 0.5))


def test_the_interval_is_wilsons():
    for hits, total in ((0, 20), (3, 20), (50, 200), (200, 200)):
        expected = stats.binomtest(hits, total).proportion_ci(method="wilson")
        assert wilson(hits, total) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 1000)[0] == 0.0
    assert wilson(1000, 1000)[1] == 1.0


# In a run folder

MADE_UP = replace(
    tables.recipe("digits-ce", "small"),
    method=AdversarialTraining(steps=1),
    normalize="model",
    epochs=2,
    name="attacked",
)
WORDS = ["--images", "40", "--iterations", "4", "--queries", "20", "--batch", "15", "--steps", "3"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    run(MADE_UP, out)
    run(replace(MADE_UP, name="plain", method=tables.recipe("digits-ce", "small").method, normalize="data"), out)
    return {name: RunFolder.of(out, name, 0) for name in ("attacked", "plain")}


def test_the_command_attacks_a_finished_run_and_keeps_every_image(folders, capsys):
    words = ["evaluate", str(folders["attacked"].path), "attack", "--eps", "8/255", *WORDS, "--no-sanity"]
    assert cli.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    name = "short-autoattack-4-20-linf-8-255"
    assert found[f"attack/{name}/images"] == 40
    arrays = folders["attacked"].outputs(f"measures/attack-{name}")
    assert set(np.unique(arrays["each"])) <= {0.0, 100.0}
    assert arrays["each"].mean() == pytest.approx(found[f"attack/{name}"])
    expected = stats.binomtest(round(arrays["each"].sum() / 100), 40).proportion_ci(method="wilson")
    assert found[f"attack/{name}/low"] == pytest.approx(100 * expected.low)
    assert found["attack/clean"] >= found["attack/fgsm-linf-8-255"] >= found["attack/pgd-3-linf-8-255"]
    assert folders["attacked"].result()[f"attack/{name}"] == found[f"attack/{name}"]
    assert not list((folders["attacked"].path / "measures").glob("*.part.npz"))
    model, data = finished_model(folders["attacked"]), MADE_UP.data.load(0).test
    pixels, labels = data.take(torch.from_numpy(arrays["places"]))
    right = model.eval()(pixels.float() / 255).logits.argmax(1) == labels
    clean = folders["attacked"].outputs("measures/attack-clean")
    np.testing.assert_array_equal(clean["each"], 100 * right.float().numpy())


def test_a_network_with_its_normalization_outside_is_attacked_on_pixels(folders, capsys):
    words = ["evaluate", str(folders["plain"].path), "attack", "--eps", "0.5", "--kinds", "clean", "pgd", *WORDS]
    assert cli.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    top1 = folders["plain"].result()["test/top1"]
    assert abs(found["attack/clean"] - top1) < 25  # 40 of 898 images
    assert found["attack/pgd-3-linf-0.5"] <= 10


def test_a_measure_that_is_there_is_read_and_other_settings_are_measured_anew(folders, monkeypatch):
    settings = Attack(images=10, kinds=("pgd",), steps=2, sanity=False)
    first = evaluate_attacks(folders["plain"], [settings])
    with monkeypatch.context() as patch:
        patch.setattr("opl.experiments.evaluation.attack.evaluate.pgd", lambda *_: pytest.fail("it was measured again"))
        assert evaluate_attacks(folders["plain"], [settings]) == first
    other = evaluate_attacks(folders["plain"], [replace(settings, images=12)])
    assert other["attack/pgd-2-linf-8-255/images"] == 12


def test_an_autoattack_of_a_run_that_is_killed_goes_on_where_it_was(folders, tmp_path, monkeypatch):
    import shutil

    settings = Attack(images=30, kinds=("autoattack",), iterations=3, queries=12, batch=8, sanity=False)
    whole = evaluate_attacks(folders["attacked"], [settings])
    name = f"attack-{settings.name('autoattack')}"
    shutil.copytree(folders["attacked"].path, tmp_path / "seed-0", ignore=shutil.ignore_patterns("measures"))
    other, real, calls = RunFolder(tmp_path / "seed-0"), RunFolder.write_part, []

    def stop(self, *words):
        real(self, *words)
        calls.append(words)
        if len(calls) == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_part", stop)
        with pytest.raises(KeyboardInterrupt):
            evaluate_attacks(other, [settings])
    assert other.part(name)["broken"].shape == (30,)
    assert not other.has_measure(name)
    assert evaluate_attacks(other, [settings]) == whole
    ours, theirs = (each.outputs(f"measures/{name}")["each"] for each in (other, folders["attacked"]))
    np.testing.assert_array_equal(ours, theirs)
    assert other.part(name) is None


def test_suspicions_are_warned_of_and_kept(folders, monkeypatch):
    monkeypatch.setattr("opl.experiments.evaluation.attack.sanity.suspicions", lambda *_: ["something is odd"])
    settings = Attack(images=5, kinds=("pgd",), steps=1)
    with pytest.warns(OplWarning, match="something is odd"):
        evaluate_attacks(folders["plain"], [settings])
    kept = folders["plain"].measure("attack-sanity-pgd-1-linf-8-255")
    assert kept["suspicions"] == ["something is odd"]
    assert [each["eps"] for each in kept["curve"]] == list(sanity.radii(8 / 255))


ODD = """
import sys
from opl.experiments import cli
from opl.experiments.evaluation import sanity
sanity.suspicions = lambda *_: ["something is odd"]
sys.exit(cli.main(sys.argv[1:]))
"""


def test_on_the_command_line_a_suspicion_is_a_sentence(folders):
    words = ["evaluate", str(folders["plain"].path), "attack", "--images", "5", "--kinds", "pgd", "--steps", "1"]
    done = subprocess.run([sys.executable, "-c", ODD, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == f"opl: warning: {folders['plain'].path}: something is odd."


def test_wrong_words_are_one_sentence(folders, capfd):
    assert cli.main(["evaluate", str(folders["plain"].path), "attack", "--eps", "eight"]) == 2
    assert "8/255" in capfd.readouterr().err


# Table 4


def test_table_4_asks_for_what_it_shows_at_every_scale():
    asked = item("table-4")
    for scale in ("paper", "small", "tiny"):
        [measure] = [each for each in asked.measures if scale in each.scales]
        written = {name.replace("-", "/", 1) for name in measure.names}
        assert set(asked.metrics) - written == {"test/top1"}
        given = cli_settings([*measure.words[1:]])
        assert {f"attack-{given.name(kind)}" for kind in given.kinds} == set(measure.names)
        assert given.images == IMAGES[scale]
    assert IMAGES["small"] >= 200
    assert all(set(row.paper) <= set(asked.metrics) for row in asked.rows)


def cli_settings(words):
    from opl.experiments.cli.evaluate import Evaluate

    [settings] = Evaluate.parse(["somewhere", "attack", *words]).settings
    return settings


def test_fine_tuning_comes_after_pre_training_on_other_classes():
    for scale in ("paper", "small", "tiny"):
        tuned_recipe = tables.recipe("cifar100-robust-hendrycks-opl", scale)
        before = tables.recipe(tuned_recipe.after, scale)
        assert tuned_recipe.inherit
        assert tuned_recipe.new_head
        assert before.data != tuned_recipe.data
        assert before.model == tuned_recipe.model
        assert before.normalize == tuned_recipe.normalize == "model"
    small = tables.recipe("cifar100-robust-madry", "small"), tables.recipe("cifar100-robust-pretrained", "small")
    assert not set(small[0].data.superclasses) & set(small[1].data.superclasses)


def test_only_rows_are_measured_with_the_words_of_their_scale_and_warnings_are_shown(tmp_path, monkeypatch, capsys):
    asked, words = item("table-4"), []

    def measure(job, given, at_once):
        words.append((job.recipe, given))
        return SimpleNamespace(
            returncode=0, stderr="opl: warning: gradients may be masked" * (job.recipe[-4:] == "mart")
        )

    monkeypatch.setattr("opl.experiments.cluster.local._measure", measure)
    jobs = jobs_of(asked, "tiny", 1, tmp_path, lambda name: tables.recipe(name, "tiny"))
    assert "cifar100-robust-pretrained" in {job.recipe for job in jobs}
    assert measure_all(asked, jobs, 1, "tiny") == []
    assert capsys.readouterr().err.count("masked") == 1
    assert {name for name, _ in words} == {row.recipe for row in asked.at("tiny")}
    assert {given for _, given in words} == {("attack", "--eps", "8/255", "--images", "2")}


def made_up_runs(out):
    """Finished runs of two rows, with measures of four images."""
    metric = "attack/autoattack-linf-8-255"
    for name, each in (("madry", [0, 0, 100, 100]), ("madry-opl", [0, 100, 100, 100])):
        folder = RunFolder.of(out, f"cifar100-robust-{name}", 0)
        folder.start({"name": f"cifar100-robust-{name}", "seed": 0, "scale": "small"}, {})
        folder.finish({}, {"test/top1": 60.0, "attack/pgd-20-linf-8-255": 70.0})
        low, high = wilson(sum(each) // 100, 4)
        numbers = {metric: sum(each) / 4, f"{metric}/low": 100 * low, f"{metric}/high": 100 * high}
        content = {"numbers": {**numbers, f"{metric}/images": 4}}
        folder.write_measure("attack-autoattack-linf-8-255", content, {"each": np.array(each, dtype=np.float32)})
    return read_runs(out)


def test_rows_are_compared_image_by_image_and_have_their_binomial_interval(tmp_path):
    runs = made_up_runs(tmp_path)
    [difference] = compare(item("table-4"), runs, "small")
    assert difference.difference.mean == 25
    assert "AutoAttack %, over the same 4 images (seed 0): +25.00" in describe_comparison(difference)
    lines = wilson_lines(item("table-4"), runs, "small")
    assert len(lines) == 2
    assert "Madry, AutoAttack % of 4 images (95 % by Wilson): 50.00 [15.00, 85.00] (seed 0)" in lines[0]


@pytest.mark.slow
def test_the_whole_of_table_4_at_tiny_scale(tmp_path, capsys):
    words = ["reproduce", "table-4", "--scale", "tiny", "--seeds", "1", "--jobs", "2", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    text = (tmp_path / "tiny" / "table-4" / "table.md").read_text()
    assert text.count("of 2 images (95 % by Wilson)") == 9
    assert "not measured" not in text
    assert "over the same 2 images" in text


def test_a_model_is_asked_through_pixels():
    class Asked(nn.Module):
        def forward(self, images):
            return Output(images, images.flatten(1))

    pixels = torch.rand(2, 1, 2, 2)
    assert torch.equal(PixelClassifier(Asked())(pixels), pixels.flatten(1))


def test_the_docstrings_examples_are_true():
    import doctest
    from importlib import import_module

    for name in (
        "methods.ascent", "radius", "evaluation.attack.settings", "evaluation.attack.sanity", "methods.mart",
        "methods.trades", "methods.adversarial", "models.standardize",
    ):  # fmt: skip
        found = doctest.testmod(import_module(f"opl.experiments.{name}"))
        assert found.failed == 0, name
        assert found.attempted > 0, name
