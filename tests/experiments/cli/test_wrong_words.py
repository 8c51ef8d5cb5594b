"""Wrong words on the command line get one sentence and the right code."""

import pytest

from opl.experiments import cli


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["train", "no-such"], 2, "did you mean"),
        (["train"], 2, "opl recipes"),
        (["train", "digits-ce", "--optimizer.lrr", "1"], 2, "--optimizer.lr"),
        (["train", "digits-ce", "--epochs", "many"], 2, "--epochs"),
        (["train", "digits-ce", "--epochs", "0"], 2, "epochs is 0"),
        (["train", "cifar100-resnet56-ce", "--data.root", "/nowhere/at/all"], 2, "/nowhere/at/all"),
        (["train", "digits-ce", "--scale", "tiny", "--out", "/dev/null/x"], 2, "--out"),
        (["reproduce", "table-99"], 2, "did you mean"),
        (["reproduce", "demo", "--jobs", "0"], 2, "--jobs"),
        (["reproduce", "demo", "--scale", "tiny", "--out", "/dev/null/x"], 2, "--out"),
        (["report", "/nowhere/at/all"], 2, "no folder"),
        (["recipes", "--"], 2, "'--' stands alone"),
        (["report"], 2, "opl report --help"),
        (["results"], 2, "{add, write, draw}"),
        (["results", "wite"], 2, "did you mean 'write', 'draw' or 'add'?"),
        (["results", "ad", "--to", "x"], 2, "did you mean 'add'"),
        (["results", "add", "--too", "x"], 2, "did you mean '--to'"),
        (["bench", "lss"], 2, "did you mean 'loss'"),
        (["train", "digits-ce", "--scale", "big"], 2, "'paper', 'small', 'tiny'"),
        (["train", "digits-ce", "--name"], 2, "'--name': expected 1"),
        (["train", "digits-ce", "--name", "a/b"], 2, "name is 'a/b'"),
        (["train", "digits-ce", "--until", "soon"], 2, "'soon'"),
        (["reproduce", "demo", "--scale", "smal"], 2, "--scale 'smal' does not exist: did you mean 'small', "),
        (["reproduce", "demo", "--seeds"], 2, "'--seeds'"),
        (["search", "digits-ce", "--data.val", "200", "--epochs", "many"], 2, "'many'"),
        (["search", "digits-ce", "--data.val", "200", "--over", "optimizer.lr=high,low"], 2, "'high'"),
        (["evaluate", "nowhere", "geometry", "--flag"], 2, "--flag"),
        (["evaluate", "nowhere", "attack", "--eps", "much"], 2, "8/255"),
        (["evaluate", "nowhere", "attack", "--eps", "-1"], 2, "above 0"),
        (["evaluate", "nowhere", "episodes", "--way", "two"], 2, "'two'"),
        (["demo", "--sedes", "2"], 2, "--seeds"),
        (["demo", "words " * 50], 2, "opl demo --help"),
    ],
)
def test_wrong_words_are_one_sentence_with_the_right_code(words, code, said, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == code
    out = capfd.readouterr()
    assert said in out.err
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
    words = ["train", "cifar-fs-rfs-distilled", "--scale", "tiny", "--out", str(tmp_path)]
    assert cli.main(words) == 2
    assert "cifar-fs-rfs/seed-0 is no finished run" in capfd.readouterr().err
