"""A finished run under attack: what is kept, read again, gone on with and warned of."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from _vouched import vouch
from opl.errors import OplWarning
from opl.experiments import cli, paper
from opl.experiments.evaluation.attack import sanity
from opl.experiments.evaluation.attack.evaluate import evaluate_attacks
from opl.experiments.evaluation.attack.settings import Attack
from opl.experiments.methods import AdversarialTraining
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import finished_model
from opl.experiments.training.run import run

MADE_UP = replace(
    paper.recipe("digits-ce", "small"),
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
    run(replace(MADE_UP, name="plain", method=paper.recipe("digits-ce", "small").method, normalize="data"), out)
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
    vouch(tmp_path / "seed-0")  # for a run of which nothing was measured
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
from opl.experiments.evaluation.attack import sanity
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
