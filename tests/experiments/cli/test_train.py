"""The flags of `opl train`."""

import pytest

from opl.experiments import cli, paper
from opl.experiments.cli.flags import change_settings
from opl.experiments.recipe import Recipe
from opl.experiments.run_folder import RunFolder
from opl.experiments.settings import to_json


def parts(recipe):
    return tuple(type(part) for part in (recipe.data, recipe.model, recipe.method, recipe.noise))


@pytest.mark.slow
def test_flags_change_the_named_settings_of_every_kind_of_recipe_and_no_others():
    known = [recipe for scales in paper.recipes().values() for recipe in scales.values()]
    for recipe in {parts(recipe): recipe for recipe in known}.values():
        changed = change_settings(recipe, ["--seed", "3"])
        assert type(changed) is Recipe
        assert to_json(changed) == {**to_json(recipe), "seed": 3}
    noisy = change_settings(paper.recipe("cifar100-noisy-class-tl", "tiny"), ["--noise.rate", "0.5", "--data.val", "7"])
    assert (noisy.noise.rate, noisy.data.val) == (0.5, 7)


def test_dry_run_shows_the_settings_and_the_cost(capfd):
    assert cli.main(["train", "digits-opl", "--scale", "small", "--method.weight", "0.3", "--dry-run"]) == 0
    out = capfd.readouterr().out
    assert '"weight": 0.3' in out
    assert "cost:" in out


def test_a_paused_run_stays_paused_until_it_is_trained_without_the_flag(tmp_path, capsys):
    argv = ["train", "digits-ce", "--scale", "tiny", "--out", str(tmp_path)]
    folder = RunFolder.of(tmp_path, "digits-ce", 0)
    for _ in range(2):
        assert cli.main([*argv, "--until", "2"]) == 0
        assert "paused: epoch 2 is done; the same command without --until finishes the run" in capsys.readouterr().out
        assert [record["epoch"] for record in folder.metrics()] == [0, 1]
    assert cli.main(argv) == 0
    assert "test/top1" in folder.result()


def test_a_run_finished_without_a_test_says_so(tmp_path, capsys):
    argv = ["train", "digits-ce", "--scale", "tiny", "--epochs", "1", "--out", str(tmp_path)]
    assert cli.main([*argv, "--no-test"]) == 0
    assert "test:" not in capsys.readouterr().out
    assert cli.main(argv) == 0
    assert "test: none; the run was finished with --no-test" in capsys.readouterr().out
