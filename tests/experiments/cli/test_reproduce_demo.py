"""`opl reproduce` keeps what is finished, and one failure stops nobody."""

import json

from opl.experiments import cli
from opl.experiments.run_folder import RunFolder


def test_reproduce_keeps_what_is_finished_and_one_failure_stops_nobody(tmp_path, capfd):
    broken = RunFolder.of(tmp_path / "tiny" / "demo", "digits-ce", 1)
    broken.start({"name": "digits-ce", "seed": 1, "scale": "tiny", "epochs": 99}, {})
    assert (
        cli.main(["reproduce", "demo", "--scale", "tiny", "--seeds", "2", "--jobs", "2", "--out", str(tmp_path)]) == 1
    )
    out = capfd.readouterr()
    assert "digits-ce seed 1: failed" in out.err
    assert "numbers mean nothing" in " ".join(out.out.split())
    table = json.loads((tmp_path / "tiny" / "demo" / "table.json").read_text())
    assert [row["seeds"] for row in table["rows"]] == [[0], [0, 1]]
    assert table["rows"][0]["numbers"]["test/top1"]["half"] is None
    page = (tmp_path / "tiny" / "demo" / "report.html").read_text()
    assert "unfinished" in page
    (broken.path / "recipe.json").unlink()
    assert cli.main(["reproduce", "demo", "--scale", "tiny", "--seeds", "2", "--out", str(tmp_path), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["rows"][0]["seeds"] == [0, 1]
