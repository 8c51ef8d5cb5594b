"""Settings to search over, as they are written on the command line."""

import numpy as np
import pytest

from _said import says
from opl.errors import OptionError
from opl.experiments.search.space import parse_setting, parse_space


def test_a_range_is_spaced_evenly_or_by_logarithms():
    assert np.allclose([float(word) for word in parse_setting("x=0.1:2:log:7").grid()], np.geomspace(0.1, 2, 7))
    assert np.allclose([float(word) for word in parse_setting("x=-1:2.0").grid()], np.linspace(-1, 2, 5))


def test_whole_numbers_stay_whole_and_come_once():
    assert parse_setting("epochs=1:4:7").grid() == ("1", "2", "3", "4")
    assert parse_setting("x=1:4.0").whole is False


def test_words_of_a_list_are_kept_as_they_are():
    assert parse_setting("method.form=mean_abs,mean").grid() == ("mean_abs", "mean")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("method.weight", "no setting"), ("=1,2", "no setting"), ("x=", "no setting"), ("x=1,,2", "empty value"),
        ("x=1,1", "twice"), ("x=2:1", "smaller"), ("x=1:1", "smaller"), ("x=a:b", "range"), ("x=0:1:log", "above 0"),
        ("x=0:inf", "smaller"), ("x=nan:1", "smaller"), ("x=0:1:0", "smaller"), ("x=0:1:3:4", "smaller"),
        ("seed=1,2", "cannot be searched"), ("x=1:2:lag", "range"),
    ],
)  # fmt: skip
def test_other_words_are_refused_with_a_sentence(text, word):
    says(lambda: parse_setting(text), OptionError, [text.split("=")[0], word])


def test_a_space_has_settings_and_each_once():
    says(lambda: parse_space(()), OptionError, ["--over"])
    says(lambda: parse_space(("x=1,2", "x=3:4")), OptionError, ["x twice"])
