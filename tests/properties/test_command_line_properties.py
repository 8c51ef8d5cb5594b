"""Any command line: exit code 0, 1 or 2, a message if it is not 0, and no traceback.

Nothing is trained: `train` is stopped where training would start, and commands that train others are only parsed.
"""

import io
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _finished_runs import write_finished
from _vouched import vouch
from opl.experiments import cli
from opl.experiments.paper import ITEMS, recipe, recipes
from opl.experiments.settings import to_json

costly = settings(max_examples=max(8, settings.default.max_examples // 5))  # a recipe's flags take tyro 50 ms
REALLY_RUN = ("recipes", "report", "results", "data", "evaluate", "export", "train")
SOME_RECIPES = ("digits-opl", "cifar100-resnet56-opl", "cifar-fs-rfs", "pacs-cartoon-rsc-opl", "mnist-noisy-pair-tl")
FOLDERS = ("runs", "runs/digits-ce/seed-0", "runs/digits-ce/seed-1", "runs/odd/seed-0", "empty", "file", "file/x", ".")
NUMBERS = ("0", "-1", "3", "1.5", "nan", "-inf", "1e400", "10000000000000000000", "0x10", "1_0", "٣", "True", "None")
FLAGS = (
    "--help", "-h", "--scale", "--out", "--seeds", "--jobs", "--json", "--dry-run", "--epochs", "--seed", "--order",
    "--optimizer.lr", "--data.val", "--data.root", "--method.weight", "--to", "--replace", "--file", "--records",
    "--check", "--hub", "--private", "--license", "--shot", "--way", "--version", "--completion", "--name", "--devices",
)  # fmt: skip
NAMES = ("geometry", "episodes", "attack", "noise", "novel", "paper", "small", "tiny", "bash", "zsh", "add", "write")
LIKE_FLAGS = ("", "-", "--", "--=", "-x", "--no-such", "--out=", "--epochs=2", "a\nb", "*", "$HOME", "\udcff", "é" * 99)
# No NUL, which no command line can hold; a byte that is not UTF-8 arrives as a surrogate. All paths are relative.
ODD = st.text(st.characters(exclude_characters="\0/"), max_size=8) | st.sampled_from(LIKE_FLAGS)
WORDS = st.one_of(
    st.sampled_from(FLAGS),
    st.sampled_from([*NAMES, *NUMBERS]),
    st.sampled_from([*FOLDERS, *SOME_RECIPES, *list(ITEMS)[:5]]),
    ODD,
)


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory):
    """A folder with finished, damaged and odd runs, and commands that cannot train."""
    root = tmp_path_factory.mktemp("place")
    write_finished(root / "runs", "digits-ce", 0)
    damaged = write_finished(root / "runs", "digits-ce", 1)
    (damaged / "result.json").write_text("{")
    odd = write_finished(root / "runs", "odd", 0)
    (odd / "recipe.json").write_text('{"recipe": {"name": 3, "seed": "x", "method": [], "scale": null}}')
    (root / "empty").mkdir()
    (root / "file").write_text("argv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for name in ("OPL_DATA", "HF_HUB_CACHE"):
            patch.delenv(name, raising=False)
        for name, value in (("OPL_CACHE", "cache"), ("HF_HOME", "hf"), ("HOME", ".")):
            patch.setenv(name, str(root / value))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr(import_module("opl.experiments.training.run"), "run", lambda *_, **__: {"test/top1": 1.0})
        for word, command in cli.COMMANDS.items():
            if word not in REALLY_RUN:
                module = import_module(f"opl.experiments.cli.{command.module}")
                patch.setattr(vars(module)[command.name], "run", lambda _: 0)
        yield


def execute(argv: list[str]) -> tuple[int, str]:
    """The exit code and all that was expected, with streams as strict as those of a terminal."""
    expected, mistakes = io.BytesIO(), io.BytesIO()
    out = io.TextIOWrapper(expected, "utf-8", errors=sys.__stdout__.errors if sys.__stdout__ else "strict")
    err = io.TextIOWrapper(mistakes, "utf-8", errors="backslashreplace")
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("default")
        try:
            code = cli.main(argv)
        except SystemExit as end:
            code = end.code or 0
        out.flush()
        err.flush()
    return code, (expected.getvalue() + mistakes.getvalue()).decode(errors="replace")


def assert_answered(argv: list[str]) -> None:
    code, expected = execute(argv)
    assert code in (0, 1, 2), argv
    assert code == 0 or expected.strip(), argv
    assert "Traceback" not in expected, argv


@given(st.lists(WORDS, max_size=6))
def test_any_arguments_get_an_answer(argv):
    assert_answered(argv)


@given(st.sampled_from([*cli.COMMANDS, "--completion"]), st.lists(WORDS, max_size=6))
def test_any_arguments_after_a_command_get_an_answer(command, argv):
    assert_answered([command, *argv])


def flags_of(settings: dict, before: str = "") -> list[str]:
    """The flags of all settings of a recipe, with dots."""
    found = []
    for name, value in settings.items():
        flag = f"{before}{name}".replace("_", "-")
        found += flags_of(value, f"{flag}.") if isinstance(value, dict) else [f"--{flag}"] * (name != "kind")
    return found


@costly
@given(st.sampled_from(SOME_RECIPES), st.data())
def test_any_value_of_any_setting_gets_an_answer(name, data):
    scale = data.draw(st.sampled_from(sorted(recipes()[name])))
    known = flags_of(to_json(recipe(name, scale)))
    flags = data.draw(st.lists(st.tuples(st.sampled_from(known), st.sampled_from(NUMBERS) | ODD), max_size=3))
    assert_answered(["train", name, "--scale", scale, *(word for pair in flags for word in pair)])


FILES = ("recipe.json", "result.json", "splits.json", "sums.json", "metrics.jsonl", "noise.json", "done", "error.json")
READERS = (["report", "runs"], ["results", "add", "runs"], ["evaluate", "runs/digits-ce/seed-0", "geometry"])
CONTENTS = st.binary(max_size=30) | st.sampled_from(
    [b"null", b"[]", b"3", b'"x"', b"{}", b'{"recipe": null}', b'{"recipe": {}}', b'{"error": []}', b'{"matrix": 0}',
     b'{"epoch": 0}\n', b'{"epoch": "x", "s": null}\n{"epoch": [1]}\n', b"[" * 100_000, b'{"test/top1": {}}',
     b'{"class_names": 3, "groups": "x"}', b"\xff\xfe", b"9" * 5000, b'{"test/top1": 1e999, "seconds": "long"}']
)  # fmt: skip


@given(
    st.dictionaries(st.sampled_from(FILES), CONTENTS, min_size=1, max_size=2), st.sampled_from(READERS), st.booleans()
)
def test_a_run_folder_with_anything_in_its_files_gets_an_answer(tmp_path_factory, files, argv, vouched):
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("odd")
        patch.chdir(root)
        path = write_finished(root / "runs", "digits-ce", 0)
        for name, content in files.items():
            (path / name).write_bytes(content)
        if vouched:
            vouch(path)
        assert_answered(argv)
