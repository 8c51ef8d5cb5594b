"""Usage errors are one sentence and exit code 2, and suggest only flags that the command has."""

import dataclasses
from importlib import import_module

import pytest
import tyro

from opl.experiments import cli


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["train"], "opl recipes"),
        (["train", "digits-ce", "--optimizer.lrr", "1"], "--optimizer.lr"),
        (["train", "digits-ce", "--epochs", "many"], "--epochs"),
        (["train", "digits-ce", "--epochs", "0"], "epochs is 0"),
        (["train", "cifar100-resnet56-ce", "--data.root", "/nowhere/at/all"], "/nowhere/at/all"),
        (["train", "digits-ce", "--scale", "tiny", "--out", "/dev/null/x"], "--out"),
        (["reproduce", "demo", "--jobs", "0"], "--jobs"),
        (["reproduce", "demo", "--scale", "tiny", "--out", "/dev/null/x"], "--out"),
        (["report", "/nowhere/at/all"], "no folder"),
        (["recipes", "--"], "the argument '--'"),
        (["report"], "opl report --help"),
        (["results"], "needs one of add, write, draw"),
        (["results", "wite"], "did you mean 'write', 'draw' or 'add'?"),
        (["results", "ad", "--to", "x"], "did you mean 'add'"),
        (["results", "add", "--too", "x"], "did you mean '--to'"),
        (["bench", "lss"], "did you mean 'loss'"),
        (["report", "."], "there are no runs in ."),
        (["check", "."], "there are no runs in ."),
        (["train", "digits-ce", "--scale", "smal"], "--scale 'smal' does not exist: did you mean 'small', "),
        (["train", "digits-ce", "--wait", "x"], "--wait is 'x' but must be a number."),
        (["train", "digits-ce", "--until", "-3"], "--until is -3 but must be a number of at least 0."),
        (["train", "digits-opl", "--method.gama", "1"], "opl train digits-opl --help-all lists them."),
        (["train", "digits-opl", "--method.gamma", "-1"], "method.gamma is -1.0 but must be a number of at least 0."),
        (["try", ".", "--gamma", "-1"], "--gamma is -1.0 but must be a number of at least 0."),
        (["try", ".", "--batch-size", "-3"], "--batch-size is -3 but must be"),
        (["train", "digits-ce", "--name"], "--name needs a value"),
        (["train", "digits-ce", "--model.width", "1.5"], "--model.width is '1.5' but must be an integer."),
        (["train", "mnist-opl", "--model.widths", "1", "2", "x", "4"], "is '1 2 x 4' but must be four integers."),
        (["reproduce", "demo", "--jobs", "two"], "--jobs is 'two' but must be an integer."),
        (["reproduce", "demo", "--memory", "much"], "--memory is 'much' but must be a number."),
        (
            ["search", "digits-ce", "--prune-at", "2", "x"],
            "is '2 x' but must be integers separated by spaces.",
        ),
        (["try", ".", "--flip", "x"], "--flip is 'x' but must be a number or None."),
        (["train", "digits-ce", "--ou", "x"], "did you mean '--out'"),
        (["train", "digits-ce", "--dry"], "--dry-run"),
        (["search", "digits-ce", "--data.val", "200", "--sedes", "2"], "did you mean '--seeds'"),
        (["train", "mnist-opl", "--model.widths", "3", "4"], "--model.widths needs 4 values"),
        (["train", "digits-ce", "--optimizer.no-nesterov", "--epochs", "x"], "--epochs is 'x'"),
        (["train", "digits-ce", "--name", "a/b"], "name is 'a/b'"),
        (["train", "digits-ce", "--until", "soon"], "'soon'"),
        (["reproduce", "demo", "--scale", "smal"], "--scale 'smal' does not exist: did you mean 'small', "),
        (["reproduce", "demo", "--seeds"], "--seeds needs a value"),
        (["search", "digits-ce", "--data.val", "200", "--epochs", "many"], "'many'"),
        (["search", "digits-ce", "--data.val", "200", "--over", "optimizer.lr=high,low"], "'high'"),
        (["evaluate", "nowhere", "geometry", "--flag"], "--flag"),
        (["evaluate", "nowhere", "attack", "--eps", "much"], "8/255"),
        (["evaluate", "nowhere", "attack", "--eps", "-1"], "above 0"),
        (["evaluate", "nowhere", "episodes", "--way", "two"], "'two'"),
        (["demo", "long " * 50], "opl demo --help"),
    ],
)
def test_usage_errors_are_one_sentence_and_exit_with_2(argv, expected, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(argv) == 2
    out = capfd.readouterr()
    assert expected in out.err
    assert out.err.startswith("opl: ")
    assert out.err.count("\n") == 1
    assert not set("│╭╰") & set(out.err)
    assert out.out == ""


def test_train_has_help_without_a_recipe(capsys):
    assert cli.main(["train", "--help"]) == 0
    assert "opl train RECIPE --help" in " ".join(capsys.readouterr().out.split())


def test_a_missing_teacher_is_one_sentence_on_the_command_line(tmp_path, capfd):
    argv = ["train", "cifar-fs-rfs-distilled", "--scale", "tiny", "--out", str(tmp_path)]
    assert cli.main(argv) == 2
    assert "cifar-fs-rfs/seed-0 is not a finished run" in capfd.readouterr().err


def test_tyro_has_the_private_names_that_sentences_are_made_of():
    errors = import_module("tyro._errors")
    used = {
        "UnrecognizedArgs": {"tokens"},
        "InvalidChoice": {"argument", "value", "choices"},
        "MissingArgs": {"missing_arguments"},
        "BadValue": {"argument", "reason"},
        "InstantiationFailure": {"argument", "message"},
    }
    for name, needed in used.items():
        assert needed | {"prog"} <= {field.name for field in dataclasses.fields(vars(errors)[name])}, name

    def note(event):
        events.append(event)
        raise KeyError

    events = []
    with pytest.raises(KeyError), errors.on_parse_error(note):
        tyro.cli(int, args=["two"])
    (event,) = events
    assert (event.argument.display_name(), event.argument.lowered.metavar) == ("value", "INT")
