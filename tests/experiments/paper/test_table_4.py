"""Table 4: what it asks for at every scale, its recipes against their sources, and the whole of it at tiny scale."""

import json

import pytest

from opl.experiments import cli, paper
from opl.experiments.models import MadryResNet, ResNet, WideResNet
from opl.experiments.paper import item
from opl.experiments.paper.table_4 import ATTACKS, BENCHMARKS
from opl.experiments.scales import SCALES


def flags_of(measure):
    """The settings that `opl evaluate` makes of the words of a measure."""
    from opl.experiments.cli.evaluate import Evaluate

    return Evaluate.parse(["somewhere", *measure.argv]).settings


@pytest.mark.parametrize("scale", SCALES)
def test_table_4_asks_for_what_it_shows(scale):
    asked = item("table-4").for_scale(scale)
    [measure] = [each for each in asked.measures if scale in each.scales]
    written = {name.replace("-", "/", 1) for name in measure.names}
    assert set(asked.metrics) - written == {"test/top1"}
    assert set(asked.compared) <= set(asked.metrics)
    attacks = flags_of(measure)
    assert [attack.eps for attack in attacks] == [attack.eps for attack in ATTACKS[scale]]
    kept = {f"attack-{each.name(kind)}": each.alone(kind) for each in attacks for kind in each.kinds}
    wanted = {f"attack-{each.name(kind)}": each.alone(kind) for each in ATTACKS[scale] for kind in each.kinds}
    assert kept == wanted
    assert set(kept) == set(measure.names)


def test_only_the_tiny_scale_shortens_autoattack_and_its_columns_say_so():
    shown = {scale: item("table-4").for_scale(scale).metrics for scale in SCALES}
    assert list(shown["paper"].values()) == ["clean %", "PGD-20 %", "AutoAttack %", "AutoAttack at 0.031 %"]
    assert list(shown["small"].values()) == ["clean %", "PGD-20 %", "AutoAttack %"]
    for name, title in shown["tiny"].items():
        assert ("short-autoattack" in name) == ("shortened" in title)
        assert "attack/autoattack" not in name
    papers = {number for row in item("table-4").rows for number in row.paper}
    assert papers == {"test/top1", "attack/autoattack-linf-8-255"}
    assert ATTACKS["small"][0].images == 500


def test_every_method_is_attacked_at_the_radius_that_it_is_trained_with():
    for row in item("table-4").rows:
        for scale in row.scales:
            method = paper.recipe(row.recipe, scale).method
            trained = {method.eps} if method.takes_pixels else set()
            assert trained | {8 / 255} <= {attack.eps for attack in ATTACKS[scale]}
    assert paper.recipe("cifar100-robust-mart", "paper").method.eps == 0.031


def test_recipes_are_those_of_their_sources():
    """From the sources' code: network, padding of crops, weight decay, epochs, normalization by the data."""
    published = {
        "madry": (MadryResNet(units=5, width=10), 2, 2e-4, 205, False),
        "hendrycks": (WideResNet(depth=28, width=10), 4, 5e-4, 5, True),
        "mart": (ResNet(depth=18, stem="cifar"), 4, 3.5e-3, 120, False),
        "trades": (WideResNet(depth=34, width=10), 4, 2e-4, 76, False),
    }
    for dataset in BENCHMARKS:
        for key, (model, padding, decay, epochs, normalized) in published.items():
            for name in (key, f"{key}-opl"):
                recipe = paper.recipe(f"{dataset}-robust-{name}", "paper")
                assert (recipe.model, recipe.data.padding) == (model, padding)
                assert (recipe.optimizer.weight_decay, recipe.epochs) == (decay, epochs)
                assert recipe.normalize == ("model" if normalized else "none")
    madry = paper.recipe("cifar10-robust-madry", "paper")
    steps = -(-50_000 // madry.batch_size)
    rates = [0.1 * madry.schedule(step, steps, madry.epochs) for step in (39_000, 41_000, 59_000, 61_000)]
    assert rates == pytest.approx([0.1, 0.01, 0.01, 0.001])
    assert madry.epochs * steps == pytest.approx(80_000, rel=0.003)


@pytest.mark.parametrize("dataset", BENCHMARKS)
def test_fine_tuning_comes_after_pre_training_on_other_data(dataset):
    for scale in SCALES:
        tuned = paper.recipe(f"{dataset}-robust-hendrycks-opl", scale)
        before = paper.recipe(tuned.after, scale)
        assert tuned.inherit
        assert tuned.new_head
        assert before.data != tuned.data
        assert before.model == tuned.model
        assert before.normalize == tuned.normalize == "model"
        assert before.method.takes_pixels
    assert tuned.after == f"{dataset}-robust-pretrained"
    other = {"cifar10": "cifar100", "cifar100": "cifar10"}[dataset]
    assert paper.recipe(f"{dataset}-robust-hendrycks", "small").after == f"{other}-robust-madry"


def test_both_data_sets_have_all_classes_at_small_scale_and_the_same_training():
    ten, hundred = (paper.recipe(f"{dataset}-robust-mart-opl", "small") for dataset in BENCHMARKS)
    assert (ten.data.num_classes, hundred.data.num_classes) == (10, 100)
    assert ten.data.augment == hundred.data.augment
    for name in ("model", "method", "optimizer", "schedule", "epochs", "batch_size", "normalize"):
        assert ten.__dict__[name] == hundred.__dict__[name]
    assert (ten.method.steps, ten.method.eps) == (7, 8 / 255)
    needs = {row.recipe: row.needs for row in item("table-4").rows}
    assert {needs[name] for name in needs if name.startswith("cifar10-")} == {"cifar10"}
    hundred = {name: need for name, need in needs.items() if name.startswith("cifar100-")}
    assert {name.removeprefix("cifar100-robust-") for name, need in hundred.items() if need} == {
        "hendrycks",
        "hendrycks-opl",  # start from the network trained on CIFAR-10
    }


@pytest.mark.slow
def test_the_whole_of_table_4_at_tiny_scale(tmp_path, capsys):
    words = ["reproduce", "table-4", "--scale", "tiny", "--seeds", "1", "--jobs", "2", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    folder = tmp_path / "tiny" / "table-4"
    text = (folder / "table.md").read_text()
    assert text.count("of 20 images (95 % by Wilson)") == 18
    assert "not measured" not in text
    assert "over the same 20 images" in text
    rows = json.loads((folder / "table.json").read_text())["rows"]
    short = [row["numbers"]["attack/short-autoattack-2-3-linf-8-255"]["mean"] for row in rows]
    assert len(rows) == 18
    assert len(set(short)) > 4
