"""The notebooks of the site run, and show the numbers that they printed when they were stored."""

import re
import sys
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed: pip install 'orthogonal-projection-loss[docs]'")

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
sys.path.append(str(DOCS))


def printed(notebook):
    """The text that each code cell printed."""
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(output.text for output in cell if output.output_type == "stream") for cell in outputs]


def pictures(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def compare(old, new):
    """Assert that two texts have the same words and numbers that differ by at most a tenth, 0.05 or three points.

    Numbers with at most two decimals are percentages and points, which differ by an image or two between machines.
    """
    assert NUMBER.sub("#", old).split() == NUMBER.sub("#", new).split()
    for before, after in zip(NUMBER.findall(old), NUMBER.findall(new), strict=True):
        points = len(before.partition(".")[2]) <= 2
        assert float(after) == pytest.approx(float(before), rel=0.1, abs=3.0 if points else 0.05)


def test_there_are_four_notebooks_on_the_site():
    listed = re.findall(r"^notebooks/(.+)$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == [path.stem for path in NOTEBOOKS]
    assert len(NOTEBOOKS) == 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_complete_and_name_no_machine(path):
    notebook = nbformat.read(path, as_version=4)
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    assert pictures(notebook) >= 1
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(?:tmp|home|root|work|Users)/|\\u001b|Traceback", text)
    assert path.stat().st_size < 300_000


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs_and_prints_what_is_stored(path):
    from _notebooks import execute

    stored, done = nbformat.read(path, as_version=4), execute(path)
    assert pictures(done) == pictures(stored)
    for old, new in zip(printed(stored), printed(done), strict=True):
        compare(old, new)
