"""Table 4: what it asks for at every scale, and the whole of it at tiny scale."""

import pytest

from opl.experiments import cli, tables
from opl.experiments.tables import item
from opl.experiments.tables.table_4 import IMAGES


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


@pytest.mark.slow
def test_the_whole_of_table_4_at_tiny_scale(tmp_path, capsys):
    words = ["reproduce", "table-4", "--scale", "tiny", "--seeds", "1", "--jobs", "2", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    text = (tmp_path / "tiny" / "table-4" / "table.md").read_text()
    assert text.count("of 2 images (95 % by Wilson)") == 9
    assert "not measured" not in text
    assert "over the same 2 images" in text
