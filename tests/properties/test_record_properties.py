"""Tables, records and RESULTS.md: the order of runs does not matter, and what is written is what is read."""

import json
import math
import re
import tempfile
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opl.errors import FolderError, OptionError
from opl.experiments.paper import item
from opl.experiments.results.conformity import screen
from opl.experiments.results.document import LIKE_A_MARKER, describe_origin, describe_seconds, render_blocks
from opl.experiments.results.records import read_record, record_file, run_of, with_sum, write_record
from opl.experiments.results.runs import list_seeds
from opl.experiments.results.tables import as_json, build_table
from opl.experiments.results.text import document

DEMO = item("demo")
NUMBERS = st.floats(0, 100).map(lambda value: round(value, 4))
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def record(name: str, seed: int, numbers: dict, **more) -> dict:
    """The record of a run of the demo."""
    recipe = {"kind": "Recipe", "name": name, "seed": seed, "scale": "small", "epochs": 30}
    return with_sum({"recipe": recipe, "result": numbers, "measures": {}, "weights": f"{name} {seed}", **more})


def as_run(content: dict):
    file = record_file(Path("results"), content)
    return run_of(content, file, file.as_posix())


@st.composite
def tables(draw):
    """Runs of the demo with any numbers, for any seeds of any row."""
    runs = []
    for row in DEMO.rows:
        for seed in draw(st.lists(st.integers(0, 9), max_size=4, unique=True)):
            numbers = {name: draw(NUMBERS) for name in DEMO.metrics}
            runs.append(as_run(record(row.recipe, seed, numbers)))
    return runs


@given(tables(), st.randoms())
def test_a_table_does_not_depend_on_the_order_of_its_runs(runs, chance):
    moved = chance.sample(runs, len(runs))
    one, other = (build_table(DEMO, screen(each, [DEMO]), "small") for each in (runs, moved))
    assert document(other) == document(one)
    assert json.dumps(as_json(other), allow_nan=False) == json.dumps(as_json(one), allow_nan=False)
    if runs:
        assert describe_origin(moved).split(";")[0] == describe_origin(runs).split(";")[0]


@given(tables())
def test_the_numbers_of_a_written_table_are_the_means_of_its_runs(runs):
    heading, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in document(build_table(DEMO, runs, "small")).split("\n\n")[0].split("\n")
    ]
    for row, cells in zip(DEMO.rows, rows, strict=False):
        own = [run for run in runs if run.name == row.recipe]
        assert len(cells) == len(heading)
        assert cells[:2] == [row.label, str(len(own))]
        for name, title in DEMO.metrics.items():
            cell = cells[heading.index(title)]
            mean = fmean(run.result[name] for run in own) if own else math.nan
            digits = 2 if abs(mean) >= 2 else 3
            assert cell.split(" ")[0] == (f"{mean:.{digits}f}" if own else "-")
            assert (" ± " in cell or " [" in cell) == (len(own) > 1)  # both ends, where nothing more is possible


@given(
    st.dictionaries(NAMES.filter(lambda name: "/" not in name), JSON, max_size=4)  # "test/x" must be a number
    | st.dictionaries(NAMES.map("test/{}".format), NUMBERS, max_size=4),
    st.dictionaries(NAMES, JSON, max_size=3),
)
def test_a_record_that_was_written_is_read_as_it_was(numbers, more):
    content = record("digits-ce", 3, {"test/top1": 97.0, **numbers}, extra=more)
    with tempfile.TemporaryDirectory() as place:
        file = record_file(Path(place), content)
        write_record(file, content)
        first = file.read_bytes()
        found = read_record(file)
        write_record(file, found)
        assert file.read_bytes() == first
        assert found == content
        assert run_of(found, file, "here").state == "done"


@given(st.data())
def test_a_record_with_any_byte_changed_is_noticed(data):
    content = record("digits-ce", 3, {"test/top1": 97.25, "test/s": 0.5}, about={"commit": "06f8644cf3"})
    with tempfile.TemporaryDirectory() as place:
        file = record_file(Path(place), content)
        write_record(file, content)
        before = bytearray(file.read_bytes())
        where = data.draw(st.integers(0, len(before) - 1))
        before[where] ^= 1 << data.draw(st.integers(0, 7))
        file.write_bytes(before)
        try:
            found = read_record(file)
        except FolderError:
            return
        assert found == content or run_of(found, file, "here").state == "damaged"


LINES = st.sampled_from(
    ["", "words", "| a | b |", "<!-- opl results: demo small -->", "<!-- end -->", " <!-- end -->", "\r", "text <!--"]
)
TEXTS = st.lists(LINES | st.text(max_size=12), max_size=12).map("\n".join)


@given(TEXTS)
def test_rendering_twice_equals_rendering_once_and_keeps_text_outside_blocks(text):
    def render(words, place):
        return f"made of {' '.join(words)}\n| x |"

    try:
        once = render_blocks(text, render)
    except OptionError:
        assert LIKE_A_MARKER.search(text)
        return
    assert render_blocks(once, render) == once
    block = re.compile(r"(?ms)^([^\n]*<!-- opl results: [^<>]* -->[^\n]*\n).*?(^[^\n]*<!-- end -->)")
    assert block.sub(r"\1\2", once) == block.sub(r"\1\2", text)
    if not LIKE_A_MARKER.search(text):
        assert once == text


@given(st.integers(0, 10**7))
def test_a_time_in_words_adds_up_to_its_seconds(seconds):
    units = {"h": 3600, "min": 60, "s": 1}
    words = describe_seconds(seconds).split()
    assert sum(int(number) * units[unit] for number, unit in zip(words[::2], words[1::2], strict=True)) == seconds


@given(st.sets(st.integers(0, 40), min_size=1))
def test_listed_seeds_are_complete(seeds):
    found = set()
    for part in list_seeds(seeds).split(" ", 1)[1].split(", "):
        low, _, high = part.partition(" to ")
        found |= set(range(int(low), int(high or low) + 1))
    assert found == seeds


@pytest.mark.parametrize("row", DEMO.rows)
@given(NUMBERS)
def test_one_run_has_a_number_and_no_interval(row, top1):
    table = build_table(DEMO, [as_run(record(row.recipe, 0, dict.fromkeys(DEMO.metrics, top1)))], "small")
    (line,) = [line for line in table.lines if line.recipe == row.recipe]
    assert all(number.mean == top1 and math.isnan(number.half) for number in line.numbers.values())
