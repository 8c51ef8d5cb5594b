"""`opl export`: flags, exit codes and output."""

import pytest

from _exported_runs import CUSTOM, write_untrained
from opl.experiments import cli
from opl.experiments.models import from_pretrained


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a finished run, as the working directory."""
    write_untrained(tmp_path / "runs", CUSTOM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


RUN = "runs/digits-ce/seed-0"


def test_a_run_is_exported_and_the_files_are_listed(home, capsys):
    assert cli.main(["export", RUN, "out", "--license", "mit"]) == 0
    files = ["model.safetensors", "training.json", "README.md", "config.json"]
    assert capsys.readouterr().out.splitlines() == [f"out/{name}" for name in files]
    assert "license: mit" in (home / "out" / "README.md").read_text()
    assert from_pretrained("out").feature_dim == 64


def test_with_hub_the_export_is_uploaded_and_nothing_is_left(home, capsys, monkeypatch):
    sent = {}

    def upload(folder, repository, *, private):
        sent.update({path.name: path.read_bytes() for path in folder.iterdir()}, to=repository, private=private)
        return "https://hub.example/me/digits"

    monkeypatch.setattr("opl.experiments.export.bundle.upload", upload)
    assert cli.main(["export", RUN, "--hub", "me/digits", "--private"]) == 0
    assert capsys.readouterr().out == "https://hub.example/me/digits\n"
    assert (sent["to"], sent["private"]) == ("me/digits", True)
    assert b'from_pretrained("me/digits")' in sent["README.md"]
    assert [path.name for path in home.iterdir()] == ["runs"]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ((RUN,), "has no destination"),
        ((RUN, "out", "--private"), "name it with --hub"),
        ((RUN, "--hub", "digits"), "must be a repository"),
        (("runs", "out"), "runs is not a run"),
        ((RUN, "runs"), "do not belong to an export"),
    ],
)
def test_usage_errors_are_one_sentence_and_nothing_is_written(home, capsys, argv, expected):
    assert cli.main(["export", *argv]) == 2
    printed = capsys.readouterr().err
    assert expected in printed
    assert printed.count("\n") == 1
    assert not (home / "out").exists()
