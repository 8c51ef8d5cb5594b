"""The settings of episodes: their names, and what is refused."""

import pytest

from opl.errors import OptionError
from opl.experiments.evaluation.few_shot.settings import FewShot


def test_settings_have_names_for_what_differs():
    assert FewShot().name == FewShot(episodes=10).name == "5-way-1-shot"
    assert FewShot(way=20, shot=5, noise=0.05, unit=False).name == "20-way-5-shot-unit-off-noise-0.05"
    assert (FewShot().repeats, FewShot(shot=5).repeats, FewShot(shot=5, copies=5).repeats) == (5, 1, 5)
    for wrong in ({"noise": -0.1}, {"copies": -1}, {"views": -1}, {"seed": -1}):
        with pytest.raises(OptionError):
            FewShot(**wrong)
