"""Table 6: its rows, quotations and margins are those of the paper."""

from dataclasses import replace

from opl.experiments import paper
from opl.experiments.methods import CrossEntropy
from opl.experiments.scales import SCALES

DATA_SETS = ("cifar-fs", "mini-imagenet", "tiered-imagenet")


def test_every_data_set_has_the_rows_of_the_paper_at_every_scale():
    table = paper.item("table-6")
    for scale in ("paper", "small", "tiny"):
        rows = {row.recipe: row for row in table.at(scale)}
        for dataset in DATA_SETS:
            for key in ("rfs", "rfs-opl", "skd", "skd-opl"):
                assert rows[f"{dataset}-{key}"].needs == ("" if dataset == "cifar-fs" else dataset)


def test_rfs_script_recipes_differ_in_the_method_alone():
    for dataset in DATA_SETS:
        for scale in SCALES:
            made = [paper.recipe(f"{dataset}-{key}", scale) for key in ("rfs-script", "rfs-script-opl")]
            with_opl, without = (replace(recipe, name="x", method=CrossEntropy()) for recipe in made)
            assert with_opl == without


def test_quotations_are_those_of_the_paper():
    quoted = {each.label: tuple(each.paper.values()) for each in paper.item("table-6").quoted}
    assert len(quoted) == 5 * 3 + 2  # the last two are quoted on miniImageNet alone
    one_shot, five_shot = ({label: pair[place] for label, pair in quoted.items()} for place in (0, 1))
    # the paper's columns, added up: MAML to MetaOptNet, and on miniImageNet NAML and Neg-Cosine too
    for label, sums in {
        "CIFAR-FS ": (311.20, 381.80),
        "miniImageNet ": (270.24 + 129.27, 352.90 + 157.05),
        "tieredImageNet ": (288.97, 378.46),
    }.items():
        for column, expected in zip((one_shot, five_shot), sums, strict=True):
            assert round(sum(value for name, value in column.items() if name.startswith(label)), 2) == round(
                expected, 2
            )
    assert all(one < five for one, five in quoted.values())


def test_rfs_drops_the_last_incomplete_batch():
    for dataset in DATA_SETS:
        for key in ("rfs", "rfs-opl", "rfs-script", "rfs-distilled"):
            assert paper.recipe(f"{dataset}-{key}", "paper").drop_last


def test_the_margins_of_the_paper_stand_beside_its_numbers():
    rows = {row.recipe: row for row in paper.item("table-6").rows}
    margins = {name: tuple(rows[name].paper_margins.values()) for name in ("cifar-fs-rfs", "mini-imagenet-rfs-opl")}
    assert margins == {"cifar-fs-rfs": (0.8, 0.5), "mini-imagenet-rfs-opl": (0.36, 0.26)}
    for name in ("table-6", "table-s3"):
        for row in paper.item(name).rows:
            assert row.paper_margins.keys() == row.paper.keys()
