"""The section of RESULTS.md on what OPL buys and what it costs: each number stands in a table of a linked page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"^## What OPL buys and what it costs$(.*?)^## ", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)[^)]*\)")
NUMBER = re.compile(r"[-+]?\d+\.\d+")


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
