"""The command line and what importing costs."""

import json
import subprocess
import sys

import pytest

import opl
from opl import errors
from opl.experiments import cli
from opl.experiments.bench import loss as bench
from opl.experiments.cli import bench as bench_parts

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
        "sys.modules['torch'] = None\n"  # importing torch raises from here on
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
    book = bench.textbook()(features, labels)
    torch.testing.assert_close(opl.orthogonal_projection(features, labels).loss, book)


def test_bench_without_the_source_tree_says_where_to_get_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bench_parts, "__file__", str(tmp_path / "a" / "b" / "c" / "d" / "bench.py"))
    assert cli.main(["bench"]) == 2
    assert "clone the repository" in capsys.readouterr().err
    with pytest.raises(errors.OptionError):
        cli.main(["bench", "--debug"])
