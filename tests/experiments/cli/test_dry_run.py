"""`opl train --dry-run` shows the settings and the cost."""

from opl.experiments import cli


def test_dry_run_shows_the_settings_and_the_cost(capfd):
    assert cli.main(["train", "digits-opl", "--scale", "small", "--method.weight", "0.3", "--dry-run"]) == 0
    out = capfd.readouterr().out
    assert '"weight": 0.3' in out
    assert "cost:" in out
