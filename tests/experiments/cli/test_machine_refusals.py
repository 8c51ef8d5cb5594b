"""A full disk, a limit, missing permissions, too little memory, a deleted folder: one sentence, and no data is lost."""

import json
import os
import resource
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from _child import obey_permissions, opl_in_child
from opl.experiments import cli
from opl.experiments.training.progress import Progress

ARGV = ["train", "digits-ce", "--scale", "tiny", "--epochs", "3"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and permissions are tested as Linux has them")


def after_the_first_epoch(action):
    """Have something happen once the first epoch is saved."""
    usual = Progress.epoch

    def epoch(bar, record):
        usual(bar, record)
        if record["epoch"] == 0:
            action()

    return lambda: setattr(Progress, "epoch", epoch)


def refused(code, output, sentence):
    assert code == 1, output
    assert "Traceback" not in output
    assert sentence in output
    last = output.strip().splitlines()[-1]
    assert last.startswith("opl: ")
    assert last.endswith(".")


@pytest.fixture
def expected(tmp_path):
    """The weights of a run that nothing disturbed."""
    assert opl_in_child([*ARGV, "--out", str(tmp_path / "quiet")], tmp_path / "quiet.log")[0] == 0
    return (tmp_path / "quiet" / "digits-ce" / "seed-0" / "model.safetensors").read_bytes()


def test_a_limit_of_file_sizes_is_a_sentence_and_the_run_resumes(tmp_path, expected):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, resource.RLIM_INFINITY))

    argv = [*ARGV, "--out", str(tmp_path / "runs")]
    run = tmp_path / "runs" / "digits-ce" / "seed-0"
    refused(*opl_in_child(argv, tmp_path / "log", after_the_first_epoch(limit)), "exceeds the size limit")
    assert "exceeds the size limit" in json.loads((run / "error.json").read_text())["error"]
    assert not (run / "done").exists()
    assert opl_in_child(argv, tmp_path / "log")[0] == 0
    assert (run / "model.safetensors").read_bytes() == expected
    assert [json.loads(line)["epoch"] for line in (run / "metrics.jsonl").read_text().splitlines()] == [0, 1, 2]


def test_a_full_disk_is_a_sentence_and_the_run_resumes_when_there_is_room(tmp_path, expected):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        argv = [*ARGV, "--out", str(disk)]

        def fill():
            with suppress(OSError), (disk / "other").open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass

        refused(*opl_in_child(argv, tmp_path / "log", after_the_first_epoch(fill)), "the disk is full")
        (disk / "other").unlink()
        assert opl_in_child(argv, tmp_path / "log")[0] == 0
        assert (disk / "digits-ce" / "seed-0" / "model.safetensors").read_bytes() == expected
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_folder_that_is_deleted_under_the_run_is_a_sentence(tmp_path):
    run = tmp_path / "runs" / "digits-ce" / "seed-0"
    argv = [*ARGV, "--out", str(tmp_path / "runs")]
    refused(*opl_in_child(argv, tmp_path / "log", after_the_first_epoch(lambda: shutil.rmtree(run))), "was deleted")


def test_a_folder_without_the_right_to_write_is_a_sentence(tmp_path):
    (tmp_path / "runs").mkdir(mode=0o555)
    code, output = opl_in_child([*ARGV, "--out", str(tmp_path / "runs")], tmp_path / "log", obey_permissions)
    assert code == 2
    assert "Permission denied" in output
    assert "Traceback" not in output


def test_too_little_memory_is_a_sentence(tmp_path):
    def limit():
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, resource.RLIM_INFINITY))

    argv = ["train", "cifar100-resnet56-ce", "--scale", "tiny", "--data.rows", "1000000", "--out", str(tmp_path)]
    refused(*opl_in_child(argv, tmp_path / "log", limit), "not enough memory")
    assert "memory" in json.loads((tmp_path / "cifar100-resnet56-ce" / "seed-0" / "error.json").read_text())["error"]


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    def close():
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, 1)

    code, output = opl_in_child(["recipes"], tmp_path / "log", close)
    assert (code, output) == (1, "")


def test_a_full_standard_output_is_a_sentence(tmp_path):
    def full():
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)

    refused(*opl_in_child(["recipes"], tmp_path / "log", full), "the disk is full")


def test_a_path_that_is_not_text_is_trained_in_and_shown(tmp_path):
    out = tmp_path / os.fsdecode(b"runs-\xff")
    assert opl_in_child([*ARGV, "--epochs=1", "--out", str(out)], tmp_path / "log")[0] == 2  # epochs twice
    assert opl_in_child([*ARGV, "--out", str(out)], tmp_path / "log")[0] == 0
    code, output = opl_in_child(["report", str(out)], tmp_path / "log")
    assert code == 0, output
    assert "report.html" in output


def test_a_defect_is_a_sentence_and_debug_shows_where(monkeypatch, capfd):
    monkeypatch.setattr(cli, "_dispatch", lambda argv: {}["nothing"])
    assert cli.main(["recipes"]) == 1
    output = capfd.readouterr().err
    assert "this is a bug in opl (KeyError: 'nothing'): run it with --debug" in output
    assert "Traceback" not in output
    with pytest.raises(KeyError):
        cli.main(["recipes", "--debug"])


@pytest.mark.parametrize("argv", [["export", "loop", "out"], ["evaluate", "loop", "geometry"], ["report", "loop"]])
def test_links_in_a_circle_are_a_sentence(tmp_path, monkeypatch, capsys, argv):
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    assert cli.main(argv) in (1, 2)
    output = capsys.readouterr().err
    assert "loop" in output
    assert "bug in opl" not in output
