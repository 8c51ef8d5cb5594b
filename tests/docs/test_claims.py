"""What OPL buys and costs (RESULTS.md) and the recommendations: each number stands on a page linked or named there."""

import re
from pathlib import Path

import pytest

from opl._advice import ADVICE

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"^## What OPL buys and what it costs$(.*?)^## ", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)[^)]*\)")
NUMBER = re.compile(r"[-+]?\d+\.\d+")
DECIMAL = re.compile(r"(?<![\d.])[-+]?\d*\.\d+")
ITEM = re.compile(r"\b(?:table|figure) \w+|study-[a-z-]+\w|the confirmation|the screen|demo\b")
PAGES = {"the confirmation": "study", "the screen": "study-screen"}


def claims():
    """The entries of the numbered list, each on one line."""
    section = SECTION.search((ROOT / "RESULTS.md").read_text(encoding="utf-8"))
    return [" ".join(entry.split()) for entry in re.split(r"^\d+\. ", section[1], flags=re.MULTILINE)[1:]]


@pytest.mark.parametrize("claim", claims())
def test_the_numbers_of_a_claim_stand_in_a_table_of_a_linked_page(claim):
    pages = [(ROOT / target).read_text(encoding="utf-8") for _, target in LINK.findall(claim)]
    rows = [row for page in pages for row in re.findall(r"^\|.*$", page, re.MULTILINE)]
    cells = {number for row in rows for number in NUMBER.findall(row)}
    numbers = NUMBER.findall(LINK.sub("", claim))
    assert numbers
    assert set(numbers) <= cells


def test_there_are_ten_claims_about_gains_costs_and_no_change():
    assert len(claims()) == 10


@pytest.mark.parametrize("advice", ADVICE, ids=lambda advice: advice.situation)
def test_the_numbers_of_a_recommendation_stand_on_a_page_that_it_names(advice):
    names = [PAGES.get(name, name.replace(" ", "-")) for name in ITEM.findall(advice.evidence)]
    assert names
    files = [ROOT / "docs" / "study.md", *(ROOT / "docs" / "results" / f"{name}.md" for name in names)]
    stated = [float(number) for file in files for number in DECIMAL.findall(file.read_text(encoding="utf-8"))]
    for number in DECIMAL.findall(advice.evidence):
        half = 0.5001 * 10 ** -len(number.partition(".")[2])
        values = stated if number[0] in "+-" else map(abs, stated)
        assert any(abs(value - float(number)) <= half for value in values), number
