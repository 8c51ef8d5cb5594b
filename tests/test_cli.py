"""The command line and what importing costs."""

import json
import os
import pkgutil
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import opl
from opl.experiments import bench as benches
from opl.experiments import cli, tables
from opl.experiments.bench import loss as bench
from opl.experiments.bench.textbook import textbook
from opl.experiments.cli.train import change_settings
from opl.experiments.recipe import Recipe, to_json

PACKAGE = Path(opl.__file__).parent
GUESTS = (
    "lightning",
    "pytorch_lightning",
    "transformers",
    "torchmetrics",
    "sklearn",
    "scipy",
    "rich",
    "tyro",
    "matplotlib",
)


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_opl_and_using_every_name_brings_no_guest():
    code = (
        "import sys, opl\n"
        "for name in opl.__all__: getattr(opl, name)\n"
        f"print([guest for guest in {GUESTS!r} if guest in sys.modules], 'torch' in sys.modules)"
    )
    assert python(code).split() == ["[]", "True"]


def test_the_command_line_can_be_imported_and_asked_for_help_without_torch():
    code = (
        "import sys\n"
        "sys.modules.update(torch=None, tyro=None, rich=None)\n"  # importing them raises from here on
        "import opl.experiments.cli\n"
        "print(opl.experiments.cli.main(['--help']))"
    )
    assert python(code).rstrip().endswith("0")


def test_every_public_name_is_there_and_listed():
    for name in opl.__all__:
        assert getattr(opl, name) is not None
        assert name in dir(opl)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--help"], 0, "usage"),
        (["--version"], 0, opl.__version__),
        ([], 2, "usage"),
        (["bnch"], 2, "did you mean 'bench'"),
    ],
)
def test_words_and_exit_codes(capsys, words, code, said):
    assert cli.main(words) == code
    captured = capsys.readouterr()
    assert said in captured.out + captured.err


def test_every_command_has_a_file_with_flags_and_a_job():
    for word, command in cli.COMMANDS.items():
        module = import_module(f"{cli.__name__}.{command.module}")
        assert Path(module.__file__).parent == Path(cli.__file__).parent, word
        assert {"parse", "run"} <= set(dir(vars(module)[command.name])), word


def test_without_tyro_the_command_line_says_what_to_install():
    code = (
        "import sys\n"
        "sys.modules['tyro'] = None\n"
        "from opl.experiments import cli\n"
        "sys.stderr = sys.stdout\n"
        "print(cli.main(['data']))"
    )
    sentence, ended = python(code).splitlines()
    assert "orthogonal-projection-loss[experiments]" in sentence
    assert ended == "1"


def parts(recipe):
    return tuple(type(part) for part in (recipe.data, recipe.model, recipe.method, recipe.noise))


def test_flags_of_train_give_the_recipe_back_as_it_was_and_change_what_they_name():
    known = [recipe for scales in tables.recipes().values() for recipe in scales.values()]
    for recipe in {parts(recipe): recipe for recipe in known}.values():
        changed = change_settings(recipe, ["--seed", "3"])
        assert type(changed) is Recipe
        assert to_json(changed) == {**to_json(recipe), "seed": 3}
    noisy = change_settings(
        tables.recipe("cifar100-noisy-class-tl", "tiny"), ["--noise.rate", "0.5", "--data.val", "7"]
    )
    assert (noisy.noise.rate, noisy.data.val) == (0.5, 7)


def test_a_wrong_flag_ends_with_two():
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", "--secondz", "1"])
    assert ended.value.code == 2


def test_bench_measures_all_versions_of_a_case(monkeypatch, capsys):
    monkeypatch.setattr(bench, "SPEED", [bench.Case(32, 8, 4, False), bench.Case(32, 8, 4, True)])
    monkeypatch.setattr(bench, "MEMORY", [bench.Case(2048, 16, 10, True)])
    assert cli.main(["bench", "--seconds", "0.01", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    for row in result["speed"]:
        assert set(row["ms"]) == {"textbook", "opl", "floor"}
        assert row["faster"] == pytest.approx(row["ms"]["textbook"] / row["ms"]["opl"])
    (row,) = result["memory"]
    assert row["textbook"] * row["matrix_bytes"] > 2048 * 2048 * 4  # at the very least its matrix of cosines
    assert 0 < row["opl"] < row["textbook"]


def test_the_textbook_version_is_the_loss():
    import torch

    features, labels = torch.randn(30, 7), torch.randint(0, 4, (30,))
    book = textbook(features, labels)
    torch.testing.assert_close(opl.orthogonal_projection(features, labels).loss, book)


def test_every_subject_of_bench_is_a_module_of_the_package():
    modules = [import_module(f"{benches.__name__}.{found.name}") for found in pkgutil.iter_modules(benches.__path__)]
    assert all(Path(module.__file__).is_relative_to(PACKAGE) for module in modules)
    assert set(benches.MODULES) == set(get_args(benches.Subject))
    for name in benches.MODULES.values():
        assert {"measure", "show"} <= vars(import_module(f"{benches.__name__}.{name}")).keys()


def test_bench_needs_nothing_but_the_package(tmp_path):
    """A copy of the package, far from the source tree, is all that a wheel installs."""
    shutil.copytree(PACKAGE, tmp_path / "site" / "opl", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}

    def run(*words: str) -> str:
        command = [sys.executable, "-P", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=True).stdout

    assert all(subject in run("-m", "opl.experiments.cli", "bench", "--help") for subject in benches.MODULES)
    code = (
        "from importlib import import_module\n"
        "from opl.experiments import bench, cli\n"
        "subjects = [import_module(f'opl.experiments.bench.{name}') for name in bench.MODULES.values()]\n"
        "subjects[0].SPEED = [subjects[0].Case(32, 8, 4, True)]\n"
        "code = cli.main(['bench', '--seconds', '0.01', '--no-memory', '--json'])\n"
        "print(code, *(module.__file__ for module in subjects))"
    )
    *_, last = run("-c", code).splitlines()
    ended, *files = last.split()
    assert ended == "0"
    assert len(files) == len(benches.MODULES)
    assert all(Path(file).is_relative_to(tmp_path / "site") for file in files)
