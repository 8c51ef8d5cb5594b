"""`opl recipes` and `opl data` print their lists."""

from opl.experiments import cli


def test_lists_are_printed(capfd):
    assert cli.main(["recipes"]) == 0
    assert "table-s1" in capfd.readouterr().out
    assert cli.main(["data"]) == 0
    assert "cifar100" in capfd.readouterr().out
