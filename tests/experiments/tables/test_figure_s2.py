"""Figures s2 and s4, until table 2 has runs to show."""

import pytest

from opl.experiments import cli


@pytest.mark.parametrize("name", ["figure-s2", "figure-s4"])
@pytest.mark.parametrize("scale", ["paper", "small", "tiny"])
def test_pictures_of_imagenet_say_what_they_lack(tmp_path, capfd, name, scale):
    assert cli.main(["reproduce", name, "--scale", scale, "--out", str(tmp_path / "runs")]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert f"{name} cannot be drawn yet" in err
    assert "table 2's ImageNet runs, which are not built yet; figure-5 draws the same gallery from CIFAR-100" in err
    assert not (tmp_path / "runs").exists()
