"""The command that makes a table or figure again."""

from dataclasses import replace

from opl.experiments import cli, paper


def test_reproduce_draws_features_in_the_plane(tmp_path, capfd):
    words = ["reproduce", "figure-2", "--scale", "tiny", "--out", str(tmp_path), "--jobs", "2"]
    assert cli.main(words) == 0
    out = capfd.readouterr().out
    assert "mean angle between class directions" in out
    assert (tmp_path / "tiny" / "figure-2" / "figure-2.pdf").stat().st_size > 0


def test_a_scale_without_runs_is_refused(tmp_path, capfd, monkeypatch):
    rows = tuple(replace(row, scales=("paper",)) for row in paper.ITEMS["demo"].rows)
    monkeypatch.setattr("opl.experiments.paper.demo.ITEMS", (replace(paper.ITEMS["demo"], rows=rows),))
    assert cli.main(["reproduce", "demo", "--scale", "tiny", "--out", str(tmp_path)]) == 2
    assert "no runs at scale tiny" in capfd.readouterr().err
