"""Usage errors are one sentence and exit code 2."""

import pytest

from opl.experiments import cli


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["train", "no-such"], "did you mean"),
        (["train"], "opl recipes"),
        (["train", "digits-ce", "--optimizer.lrr", "1"], "--optimizer.lr"),
        (["train", "digits-ce", "--epochs", "many"], "--epochs"),
        (["train", "digits-ce", "--epochs", "0"], "epochs is 0"),
        (["train", "cifar100-resnet56-ce", "--data.root", "/nowhere/at/all"], "/nowhere/at/all"),
        (["train", "digits-ce", "--scale", "tiny", "--out", "/dev/null/x"], "--out"),
        (["reproduce", "table-99"], "did you mean"),
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
        (["train", "digits-ce", "--scale", "big"], "'paper', 'small', 'tiny'"),
        (["train", "digits-ce", "--name"], "--name needs a value"),
        (["train", "digits-ce", "--model.width", "1.5"], "--model.width is '1.5': must be a whole number."),
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
        (["demo", "--sedes", "2"], "--seeds"),
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
    with pytest.raises(SystemExit) as ended:
        cli.main(["train", "--help"])
    assert ended.value.code == 0
    assert "opl train RECIPE --help" in " ".join(capsys.readouterr().out.split())


def test_a_missing_teacher_is_one_sentence_on_the_command_line(tmp_path, capfd):
    argv = ["train", "cifar-fs-rfs-distilled", "--scale", "tiny", "--out", str(tmp_path)]
    assert cli.main(argv) == 2
    assert "cifar-fs-rfs/seed-0 is not a finished run" in capfd.readouterr().err
