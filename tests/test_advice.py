"""One table says which weight and gamma to take; docs, warnings and `opl try` agree with it."""

import re
from pathlib import Path

import pytest

from opl._advice import ADVICE, LOWER_D, START, markdown
from opl.functional import GAMMA, WEIGHT
from opl.plugin.criterion import CURES

DOCS = Path(__file__).parent.parent / "docs"


def test_the_documentation_has_the_same_table():
    assert (DOCS / "variants.md").read_text().count(markdown()) == 1


def test_the_first_recommendation_is_the_default():
    assert (START.weight, START.gamma) == (WEIGHT, GAMMA)


@pytest.mark.parametrize("advice", [advice for advice in ADVICE if advice.gamma == advice.gamma])
def test_the_text_of_a_recommendation_has_its_numbers(advice):
    numbers = re.findall(r"(weight|gamma) ([\d.]+)", advice.take)
    assert dict(numbers).items() <= {"weight": f"{advice.weight:g}", "gamma": f"{advice.gamma:g}"}.items()


def test_the_warning_about_a_small_gamma_gives_the_same_advice():
    assert LOWER_D.take in CURES["constant"]


def test_opl_trys_page_recommends_the_same_and_no_other_setting():
    text = (DOCS / "try.md").read_text()
    recommended = re.findall(r"--weight ([\d.]+) --gamma ([\d.]+)", text)
    assert set(recommended) == {(f"{LOWER_D.weight:g}", f"{LOWER_D.gamma:g}")}
    assert not re.search(r"try `--gamma", text)
