"""Attacks: closed forms, pyautoattack as reference, resuming, sanity checks, and attacks on a finished run."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional as F

from _vouched import vouch
from opl.errors import OplWarning, OptionError
from opl.experiments import cli, paper
from opl.experiments.evaluation import attack
from opl.experiments.evaluation.attack import (
    ATTACKS,
    ROBUST,
    autoattack,
    choose_images,
    configure,
    evaluate_attacks,
    fgsm,
    is_correct,
    pgd,
    sanity_radii,
    suspicions,
)
from opl.experiments.evaluation.protocols import Attack
from opl.experiments.methods import AdversarialTraining
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import finished_model
from opl.experiments.training.run import run
from opl.experiments.types import Images

SHORT = Attack(iterations=6, queries=40, batch=7, eps=0.1)
CLASSES = 5


class Net(nn.Module):
    """A convolution, a dropout that must be inactive, a classifier; from pixels to logits."""

    def __init__(self, classes=CLASSES):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(2))
        self.fc = nn.Linear(32, classes)

    def forward(self, images):
        return self.fc(self.body(images).flatten(1))


def learned(images, labels, steps=150):
    """Train a network that classifies the images, not too far from the decision boundary."""
    model = Net().eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    optimizer.zero_grad()
    return model


def make_site():
    """Return a model, images in [0, 1] and labels; most are classified correctly, some near the boundary."""
    chance = torch.Generator().manual_seed(1)
    labels = torch.arange(30) % CLASSES
    patterns = torch.rand(CLASSES, 3, 1, 1, generator=chance)
    images = (patterns[labels] + 0.25 * torch.randn(30, 3, 8, 8, generator=chance)).clamp(0, 1)
    model = learned(images, labels)
    labels = labels.clone()
    labels[:3] = (labels[:3] + 1) % CLASSES  # wrong from the start
    return model, images, labels


@pytest.fixture(scope="module")
def site():
    return make_site()


def restored_check(model):
    """Return a check that the model and the global random state are unchanged."""
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
        assert [name for name, parameter in model.named_parameters() if not parameter.requires_grad] == ["fc.bias"]
        assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
        model.requires_grad_(True)
        model.zero_grad()

    return check


def test_fgsm_on_a_linear_model_equals_the_closed_form():
    weight = torch.randn(2, 12, dtype=torch.float64)

    class Linear(nn.Module):
        def forward(self, images):
            return images.flatten(1) @ weight.T

    images, labels = torch.rand(8, 3, 2, 2, dtype=torch.float64), torch.arange(8) % 2
    rival_minus_own = torch.stack([weight[1] - weight[0], weight[0] - weight[1]])[labels].view_as(images)
    expected = (images + 0.2 * rival_minus_own.sign()).clamp(0, 1)
    torch.testing.assert_close(fgsm(Linear(), images, labels, Attack(eps=0.2)), expected)
    torch.testing.assert_close(pgd(Linear(), images, labels, Attack(eps=0.2, step=0.1)), expected)


def test_attacks_restore_model_and_random_state(site):
    model, images, labels = site
    check = restored_check(model)
    fgsm(model, images, labels, SHORT)
    pgd(model, images, labels, SHORT)
    is_correct(model, images, labels)
    autoattack(model, images, labels, SHORT)
    check()


def test_random_start_depends_only_on_the_number_of_the_image(site):
    model, images, labels = site
    settings = Attack(eps=0.1, steps=1, step=0.01)
    whole = pgd(model, images, labels, settings)
    alone = pgd(model, images[[4, 20]], labels[[4, 20]], replace(settings, batch=1), [4, 20])
    torch.testing.assert_close(alone, whole[[4, 20]], rtol=0, atol=1e-6)
    other = pgd(model, images, labels, replace(settings, seed=1))
    assert (other - whole).abs().max() > 0.05


def test_same_images_for_every_network_and_all_of_them_for_0():
    part = Images(torch.zeros(50, 1, 2, 2), torch.zeros(50), torch.arange(50))
    rows = choose_images(part, Attack(images=20))
    assert len(set(rows.tolist())) == 20
    assert rows.tolist() == sorted(rows.tolist()) == choose_images(part, Attack(images=20, eps=0.5)).tolist()
    assert rows.tolist() != choose_images(part, Attack(images=20, seed=1)).tolist()
    assert (
        choose_images(part, Attack(images=0)).tolist()
        == choose_images(part, Attack(images=999)).tolist()
        == list(range(50))
    )


def direct(model, images, labels, settings):
    """pyautoattack in one call, as documented."""
    from pyautoattack import AutoAttack

    attacker = AutoAttack(model, eps=settings.eps, norm="Linf", seed=settings.seed, device="cpu")
    attacker = configure(attacker, settings, CLASSES)
    model.eval()
    model.requires_grad_(False)
    moved, answers = attacker.run_standard_evaluation(images, labels, batch_size=settings.batch)
    model.requires_grad_(True)
    assert (moved - images).abs().max() <= settings.eps + 1e-6  # the adversarial images are valid
    assert moved.min() >= 0
    assert moved.max() <= 1
    return answers == labels


@pytest.mark.parametrize("eps", [0.02, 0.1])
def test_autoattack_equals_a_direct_call_of_pyautoattack(site, eps):
    model, images, labels = site
    settings = replace(SHORT, eps=eps)
    ours = autoattack(model, images, labels, settings)
    theirs = direct(model, images, labels, settings)
    assert torch.equal(ours.robust, theirs)
    assert 0 < theirs.sum() < len(labels) - 3  # some images are robust and some are broken
    assert (ours.broken[:3] < ROBUST).all()
    assert (ours.attack, ours.batches) == (len(ATTACKS), 0)


def test_autoattack_resumed_after_any_batch_gives_the_same_outcome(site):
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


def test_trace_function_of_a_debugger_is_restored(site):
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


def test_invalid_inputs_of_autoattack_raise(site):
    model, images, labels = site
    with pytest.raises(OptionError, match="at least 4 classes"):
        autoattack(Net(3), images, labels % 3, SHORT)
    with pytest.raises(OptionError, match=r"\[0, 1\]"):
        autoattack(model, images - 0.5, labels, SHORT)


def test_sound_results_raise_no_suspicion():
    result = {"clean": 80.0, "fgsm": 40.0, "pgd": 30.0, "autoattack": 25.0}
    curve = {0.01: 50.0, 0.03: 30.0, 0.06: 30.5, 0.5: 0.0}
    assert suspicions(result, curve, 0.2, 500, 0.5) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accuracies": {"fgsm": 20.0, "pgd": 30.0}}, "30.0 % under PGD but 20.0 % under FGSM"),
        ({"accuracies": {"pgd": 20.0, "autoattack": 30.0}}, "30.0 % under AutoAttack but 20.0 % under PGD"),
        ({"curve": {0.1: 20.0, 0.2: 30.0}}, "fall with the radius"),
        ({"curve": {0.1: 20.0, 0.5: 15.0}}, "15.0 % at 0.5, where it should be nearly 0"),
        ({"square": 3.0}, "Square"),
    ],
)
def test_each_sign_of_masked_gradients_is_reported(change, message):
    given = {"accuracies": {}, "curve": {}, "square": 0.0, "images": 500, "large": 0.5, **change}
    [sentence] = suspicions(**given)
    assert message in sentence


def test_masked_gradients_are_detected(site):
    model, images, labels = site

    class Masked(nn.Module):
        """A staircase function: no gradient anywhere."""

        def forward(self, pixels):
            return model((pixels * 20).round() / 20)

    settings = Attack(eps=0.3, steps=5)
    moved = pgd(Masked(), images, labels, settings)
    masked = is_correct(Masked(), moved, labels).float().mean()
    honest = is_correct(model, pgd(model, images, labels, settings), labels).float().mean()
    state = autoattack(Masked(), images, labels, replace(SHORT, eps=0.3, queries=150))
    square = 100 * (state.broken == ATTACKS.index("square")).float().mean().item()
    assert masked > honest + 0.2
    assert any("Square" in sentence for sentence in suspicions({}, {}, square, len(images), 0.5))


ADVERSARIAL = replace(
    paper.recipe("digits-ce", "small"),
    method=AdversarialTraining(steps=1),
    normalize="model",
    epochs=2,
    name="attacked",
)
FLAGS = ["--images", "40", "--iterations", "4", "--queries", "20", "--batch", "15", "--steps", "3"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    run(ADVERSARIAL, out)
    run(replace(ADVERSARIAL, name="plain", method=paper.recipe("digits-ce", "small").method, normalize="data"), out)
    return {name: RunFolder.of(out, name, 0) for name in ("attacked", "plain")}


def test_command_attacks_a_finished_run_and_writes_each_outcome(folders, capsys):
    argv = ["evaluate", str(folders["attacked"].path), "attack", "--eps", "8/255", *FLAGS, "--no-sanity"]
    assert cli.main(argv) == 0
    result = json.loads(capsys.readouterr().out)
    name = "short-autoattack-4-20-linf-8-255"
    assert result[f"attack/{name}/images"] == 40
    arrays = folders["attacked"].outputs(f"measures/attack-{name}")
    assert set(np.unique(arrays["each"])) <= {0.0, 100.0}
    assert arrays["each"].mean() == pytest.approx(result[f"attack/{name}"])
    expected = stats.binomtest(round(arrays["each"].sum() / 100), 40).proportion_ci(method="wilson")
    assert result[f"attack/{name}/low"] == pytest.approx(100 * expected.low)
    assert result["attack/clean"] >= result["attack/fgsm-linf-8-255"] >= result["attack/pgd-3-linf-8-255"]
    assert folders["attacked"].result()[f"attack/{name}"] == result[f"attack/{name}"]
    assert not list((folders["attacked"].path / "measures").glob("*.part.npz"))
    model, data = finished_model(folders["attacked"]), ADVERSARIAL.data.load(0).test
    pixels, labels = data.take(torch.from_numpy(arrays["places"]))
    right = model.eval()(pixels.float() / 255).logits.argmax(1) == labels
    clean = folders["attacked"].outputs("measures/attack-clean")
    np.testing.assert_array_equal(clean["each"], 100 * right.float().numpy())


def test_network_with_external_normalization_is_attacked_on_pixels(folders, capsys):
    argv = ["evaluate", str(folders["plain"].path), "attack", "--eps", "0.5", "--kinds", "clean", "pgd", *FLAGS]
    assert cli.main(argv) == 0
    result = json.loads(capsys.readouterr().out)
    top1 = folders["plain"].result()["test/top1"]
    assert abs(result["attack/clean"] - top1) < 25  # 40 of 898 images
    assert result["attack/pgd-3-linf-0.5"] <= 10


def test_existing_measure_is_read_and_other_settings_are_measured_again(folders, monkeypatch):
    settings = Attack(images=10, kinds=("pgd",), steps=2, sanity=False)
    first = evaluate_attacks(folders["plain"], [settings])
    with monkeypatch.context() as patch:
        patch.setattr("opl.experiments.evaluation.attack.pgd", lambda *_: pytest.fail("measured again"))
        assert evaluate_attacks(folders["plain"], [settings]) == first
    other = evaluate_attacks(folders["plain"], [replace(settings, images=12)])
    assert other["attack/pgd-2-linf-8-255/images"] == 12


def test_interrupted_autoattack_of_a_run_is_resumed(folders, tmp_path, monkeypatch):
    settings = Attack(images=30, kinds=("autoattack",), iterations=3, queries=12, batch=8, sanity=False)
    whole = evaluate_attacks(folders["attacked"], [settings])
    name = f"attack-{settings.name('autoattack')}"
    shutil.copytree(folders["attacked"].path, tmp_path / "seed-0", ignore=shutil.ignore_patterns("measures"))
    vouch(tmp_path / "seed-0")  # for a run without measures
    other, real, calls = RunFolder(tmp_path / "seed-0"), RunFolder.write_part, []

    def stop(self, *arguments):
        real(self, *arguments)
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_part", stop)
        with pytest.raises(KeyboardInterrupt):
            evaluate_attacks(other, [settings])
    assert other.part(name)["broken"].shape == (30,)
    assert not other.has_measure(name)
    assert evaluate_attacks(other, [settings]) == whole
    ours, theirs = (folder.outputs(f"measures/{name}")["each"] for folder in (other, folders["attacked"]))
    np.testing.assert_array_equal(ours, theirs)
    assert other.part(name) is None


def test_suspicions_are_written_and_issue_warnings(folders, monkeypatch):
    monkeypatch.setattr(attack, "suspicions", lambda *_: ["something is odd"])
    settings = Attack(images=5, kinds=("pgd",), steps=1)
    with pytest.warns(OplWarning, match="something is odd"):
        evaluate_attacks(folders["plain"], [settings])
    kept = folders["plain"].measure("attack-sanity-pgd-1-linf-8-255")
    assert kept["suspicions"] == ["something is odd"]
    assert [point["eps"] for point in kept["curve"]] == list(sanity_radii(8 / 255))


ODD = """
import sys
from opl.experiments import cli
from opl.experiments.evaluation import attack
attack.suspicions = lambda *_: ["something is odd"]
sys.exit(cli.main(sys.argv[1:]))
"""


def test_command_line_prints_suspicions_as_one_sentence(folders):
    argv = ["evaluate", str(folders["plain"].path), "attack", "--images", "5", "--kinds", "pgd", "--steps", "1"]
    done = subprocess.run([sys.executable, "-c", ODD, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == f"opl: warning: {folders['plain'].path}: something is odd."


def test_invalid_radius_is_one_sentence(folders, capfd):
    assert cli.main(["evaluate", str(folders["plain"].path), "attack", "--eps", "eight"]) == 2
    assert "8/255" in capfd.readouterr().err
