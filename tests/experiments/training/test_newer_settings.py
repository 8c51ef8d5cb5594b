"""A run that is older than a setting means its default: it is resumed, evaluated, reported and inherited from."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from opl.errors import FolderError
from opl.experiments import cli
from opl.experiments.paper import ITEMS, recipe
from opl.experiments.recipe import Recipe
from opl.experiments.results.conformity import screen
from opl.experiments.results.runs import read_runs
from opl.experiments.settings import to_json
from opl.experiments.training import run as running
from opl.experiments.training.progress import Progress

TINY = recipe("digits-ce", "tiny")
NEWER = ("oracle", "data.pixels", "method.label_smoothing", "optimizer.nesterov")


def older(settings):
    """The settings as they were written before some of them existed."""
    content = to_json(settings)
    if isinstance(settings, Recipe):
        for name in NEWER:
            *path, last = name.split(".")
            inside = content
            for part in path:
                inside = inside[part]
            del inside[last]
    return content


@pytest.fixture
def before(monkeypatch):
    """A context in which runs are written without the newer settings."""

    @contextmanager
    def context():
        with monkeypatch.context() as patch:
            patch.setattr(running, "to_json", older)
            yield

    return context


def test_an_older_run_is_resumed_to_the_same_weights(tmp_path, before, monkeypatch):
    long = replace(TINY, epochs=2)
    running.run(long, tmp_path / "new")

    def stop(bar, record):
        raise KeyboardInterrupt

    with before(), monkeypatch.context() as patch:
        patch.setattr(Progress, "epoch", stop)
        with pytest.raises(KeyboardInterrupt):
            running.run(long, tmp_path / "old")
    running.run(long, tmp_path / "old")
    new, old = ((tmp_path / name / "digits-ce" / "seed-0" / "model.safetensors") for name in ("new", "old"))
    assert old.read_bytes() == new.read_bytes()


def test_an_older_run_is_kept_evaluated_reported_and_inherited_from(tmp_path, before, capfd):
    with before():
        result = running.run(TINY, tmp_path)
    folder = tmp_path / "digits-ce" / "seed-0"
    assert "oracle" not in (folder / "recipe.json").read_text()
    assert running.run(TINY, tmp_path) == result
    assert cli.main(["evaluate", str(folder), "geometry"]) == 0
    assert cli.main(["report", str(tmp_path)]) == 0
    assert [run.state for run in screen(read_runs(tmp_path), ITEMS.values())] == ["done"]
    later = replace(TINY, name="later", after="digits-ce", inherit=True)
    assert running.run(later, tmp_path)["start"] == "the run of digits-ce"
    assert "Traceback" not in capfd.readouterr().err


def test_a_newer_setting_that_is_not_at_its_default_is_another_run(tmp_path, before):
    with before():
        running.run(TINY, tmp_path)
    with pytest.raises(FolderError, match="oracle"):
        running.run(replace(TINY, oracle=True), tmp_path)
