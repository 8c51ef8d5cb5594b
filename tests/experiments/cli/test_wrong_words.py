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
    ],
)
def test_wrong_words_are_one_sentence_with_the_right_code(words, code, said, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        got = cli.main(words)
    except SystemExit as ended:
        got = ended.code
    out = capfd.readouterr()
    assert got == code
    assert said in out.err + out.out
    assert "Traceback" not in out.err + out.out


def test_a_missing_teacher_is_one_sentence_on_the_command_line(tmp_path, capfd):
    words = ["train", "cifar-fs-rfs-distilled", "--scale", "tiny", "--out", str(tmp_path)]
    assert cli.main(words) == 2
    assert "cifar-fs-rfs/seed-0 is no finished run" in capfd.readouterr().err
