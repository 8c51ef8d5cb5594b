"""The page is written without torch."""

import subprocess
import sys
from dataclasses import replace

import pytest

from opl.experiments import paper
from opl.experiments.recipe import Recipe
from opl.experiments.training.run import run


def tiny(name: str = "digits-opl", **changes) -> Recipe:
    return replace(paper.recipe(name, "tiny"), **changes)


@pytest.mark.slow
def test_the_report_needs_no_torch(tmp_path):
    run(tiny(), tmp_path)
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from opl.experiments.report.page import write_report; from opl.experiments.item import Item, Row\n"
        "items = {'demo': Item('demo', '<b>t</b>', 'd', {'test/top1': 'top'}, (Row('CE', 'digits-opl', {}),))}\n"
        f"print(write_report({str(tmp_path)!r}, items).read_text())"
    )
    page = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "&lt;b&gt;t&lt;/b&gt;" in page
    assert "digits-opl/seed-0" in page
