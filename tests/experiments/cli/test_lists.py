"""`opl recipes` and `opl data` list one item or data set per line."""

import json
import subprocess
import sys

import pytest

from opl.experiments import cli
from opl.experiments.cli import data
from opl.experiments.data import CATALOG
from opl.experiments.paper import ITEMS, item

WITHOUT_TORCH = """
import contextlib, io, json, sys
from opl.experiments.cli import COMMANDS, main
expected = {}
more = [["recipes"], ["recipes", "table-1"], ["train", "digits-op"]]
for argv in [*([command, "--help"] for command in COMMANDS), *more]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        try:
            code = main(argv)
        except SystemExit as end:
            code = end.code or 0
    heavy = sorted({"torch", "numpy", "matplotlib", "datasets"} & set(sys.modules))
    expected[" ".join(argv)] = [code, heavy, len(out.getvalue())]
print(json.dumps(expected))
"""


def test_help_of_every_command_and_lists_of_recipes_need_no_torch():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    expected = json.loads(done.stdout)
    assert {f"{command} --help" for command in cli.COMMANDS} <= set(expected)
    for argv, (code, heavy, length) in expected.items():
        assert code == (2 if argv == "train digits-op" else 0), argv
        assert heavy == [], argv
        assert length > 50, argv


def listed(argv, capfd):
    assert cli.main(argv) == 0
    return capfd.readouterr().out.splitlines()


def test_recipes_lists_items_first_one_line_per_item(capfd):
    lines = listed(["recipes"], capfd)
    assert [line.split()[0] for line in lines[: len(ITEMS)]] == list(ITEMS)
    for line, each in zip(lines, ITEMS.values(), strict=False):
        assert each.title in line
        assert [scale in line.rpartition("  ")[2] for scale in ("paper", "small", "tiny")] == [
            bool(each.at(scale)) for scale in ("paper", "small", "tiny")
        ]
    assert "45 h" in lines[list(ITEMS).index("table-1")]


def test_recipes_of_an_item_are_listed_and_filtered_by_terms(capfd):
    lines = listed(["recipes", "table-2"], capfd)
    assert {line.split()[0] for line in lines if line} >= set(item("table-2").recipes)
    lines = listed(["recipes", "table-2", "ViT", "released"], capfd)
    names = [line.split()[0] for line in lines if line and line.split()[0] in item("table-2").recipes]
    assert names == ["imagenet-vit-s16-opl-released", "cifar100-jpegs-vit-opl-released"]


def test_terms_match_items_and_recipes_with_or_without_hyphens(capfd):
    lines = listed(["recipes", "noise", "40"], capfd)
    assert lines[0].split()[0] == "table-3"
    (line,) = listed(["recipes", "resnet56", "CENTER"], capfd)
    assert line.split() == ["cifar100-resnet56-center", "table-1", "Center"]


def test_data_has_one_line_per_data_set_and_details_of_one(capfd, apart):
    lines = listed(["data"], capfd)
    assert [line.split()[0] for line in lines[: len(CATALOG) + 1]] == ["digits", *CATALOG]
    assert lines[0].split()[1:4] == ["here", "10", "classes"]
    (cifar,) = [line for line in lines if line.startswith("cifar100 ")]
    assert cifar.split()[1:6] == ["absent", "100", "classes", "60,000", "images"]
    assert cifar.endswith("Hub uoft-cs/cifar100")
    more = " ".join(listed(["data", "cifar100"], capfd))
    assert all(argv in more for argv in ("not here", "train 50,000, test 10,000", "$OPL_DATA", "Krizhevsky 2009"))


def test_a_data_set_of_which_images_are_missing_is_partial():
    row = {"name": "omniglot", "here": True, "where": "here", "classes": 1623, "parts": {"train": 32_460}}
    assert data._line({**row, "images": 4_840})[1:4] == ("partial", "1,623 classes", "4,840 of 32,460 images")
    assert data._line({**row, "images": 32_460})[1:4] == ("here", "1,623 classes", "32,460 images")
    assert data._line({**row, "here": False, "images": 32_460})[1] == "damaged"


@pytest.mark.parametrize(
    ("argv", "wrong", "nearest"),
    [
        (["tarin"], "command 'tarin'", ["train", "data", "try"]),
        (["reproduce", "tabel-3"], "table or figure 'tabel-3'", ["table-3", "table-s3", "table-8"]),
        (["train", "digits-oopl"], "recipe 'digits-oopl'", ["digits-opl", "digits-ce", "mnist-opl"]),
        (["search", "digits-oopl"], "recipe 'digits-oopl'", ["digits-opl", "digits-ce", "mnist-opl"]),
        (["data", "cifr10"], "data set 'cifr10'", ["cifar10", "cifar100", "cifar-fs"]),
        (["recipes", "tabel-s1"], "'tabel-s1'", ["table-s1", "table-1", "table-s3"]),
        (["reproduce", "demo", "--sedes", "3"], "flag '--sedes'", ["--seeds"]),
        (["train", "digits-opl", "--optimzer.lr=3"], "flag '--optimzer.lr'", ["--optimizer.lr"]),
        (["evaluate", "x", "geomtry"], "protocol 'geomtry'", ["geometry"]),
    ],
)
def test_mistyped_name_gets_three_suggestions(argv, wrong, nearest, capfd):
    assert cli.main(argv) == 2
    captured = capfd.readouterr()
    (line,) = captured.err.splitlines()
    assert captured.out == ""
    assert f"{wrong} does not exist: did you mean {nearest[0]!r}" in line
    suggested = line.partition("did you mean ")[2].partition("?")[0]
    assert suggested.count("'") == 6
    assert {f"'{name}'" for name in nearest} <= set(suggested.replace(" or ", ", ").split(", "))
