"""`opl report`: the same page with torch and without."""

import re
import subprocess
import sys
from dataclasses import replace

from opl.experiments.paper import recipe
from opl.experiments.training.run import run

WITHOUT_TORCH = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Absent())
"""
MAIN = "import sys; from opl.experiments.cli import main; code = main(['report', {folder!r}])\n"
TIME = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d")  # when the page was written
LOADED = "sys.exit(code or 'torch' in sys.modules)"


def report(folder, before: str = "", after: str = "sys.exit(code)") -> bytes:
    code = before + MAIN.format(folder=str(folder)) + after
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return TIME.sub(b"", (folder / "report.html").read_bytes())


def test_the_page_has_the_same_bytes_with_torch_and_without(tmp_path):
    for name in ("digits-ce", "digits-opl"):
        run(replace(recipe(name, "tiny"), epochs=1), tmp_path)  # other settings than the recipe's, by hand
    assert report(tmp_path, before="import torch\n") == report(tmp_path, before=WITHOUT_TORCH) == report(tmp_path)


def test_the_page_loads_neither_torch_nor_the_tables_of_other_runs(tmp_path):
    run(recipe("digits-ce", "tiny"), tmp_path)
    loaded = "\nassert not [name for name in sys.modules if name.startswith('opl.experiments.paper.table_')]\n"
    report(tmp_path, after=loaded + LOADED)
