"""What no code of ours calls: whatever runs what a file says, or opens more than was meant."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PICKLES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
LOADS = {"load", "loads", "Unpickler", "open"}
RUNS = {"eval", "exec", "compile", "__import__"}
SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "pty.spawn"}
UNSAFE_YAML = {"yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.unsafe_load_all", "yaml.full_load"}
ALLOWED = {  # tests of what a pickle does to our own objects, and of pickles that must not be loaded
    "tests/test_contract.py": {"pickle.loads"},
    "tests/plugin/test_graph.py": {"pickle.loads", "torch.load"},
    "tests/plugin/test_clients.py": {"pickle.loads"},
    "tests/test_geometry_metric.py": {"pickle.loads"},
    "src/opl/experiments/data/read/array_files.py": {"pickle.Unpickler"},  # it knows no name that could run
    "tests/experiments/data/read/test_array_files.py": {"pickle.loads"},
    "tests/experiments/data/read/test_few_shot_files.py": {"pickle.loads"},
}


def names_of_imports(tree: ast.AST) -> dict[str, str]:
    """What each name of a module means: `from os import system as run` makes `run` mean `os.system`."""
    meant = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            meant |= {alias.asname: alias.name for alias in node.names if alias.asname}
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            meant |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return meant


def dotted(node: ast.AST, meant: dict[str, str]) -> str:
    """The full name of what is called; empty if it is no name."""
    if isinstance(node, ast.Attribute):
        above = dotted(node.value, meant)
        return f"{above}.{node.attr}" if above else ""
    return meant.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def is_constant(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def faults(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Line, name and reason of each forbidden call."""
    meant = names_of_imports(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = [dotted(base, meant) for base in node.bases]
            yield from ((node.lineno, base, "unpickles") for base in bases if base.endswith(".Unpickler"))
        if not isinstance(node, ast.Call):
            continue
        name, given = dotted(node.func, meant), {keyword.arg: keyword.value for keyword in node.keywords}
        module, _, last = name.rpartition(".")
        reasons = {
            "unpickles": (module in PICKLES and last in LOADS) or last == "read_pickle",
            "runs text as code": name in RUNS,
            "starts a shell": name in SHELLS or not is_constant(given.get("shell", ast.Constant(False)), False),
            "may unpickle": name == "torch.load" and not is_constant(given.get("weights_only"), True),
            "allows pickles": not is_constant(given.get("allow_pickle", ast.Constant(False)), False),
            "opens every format": name in ("Image.open", "PIL.Image.open") and "formats" not in given,
            "builds objects": name in UNSAFE_YAML,
            "makes a name that others can take": name in ("tempfile.mktemp", "os.tempnam", "os.tmpnam"),
        }
        yield from ((node.lineno, name, reason) for reason, found in reasons.items() if found)


@pytest.mark.parametrize("folder", ["src", "benchmarks", "examples", "tests"])
def test_nothing_that_runs_what_a_file_says_is_called(folder):
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        allowed = ALLOWED.get(place, set())
        for line, name, reason in faults(ast.parse(path.read_text())):
            if name not in allowed:
                found.append(f"{place}:{line} {name} {reason}")
    assert found == []


def test_every_exception_is_still_needed():
    for place, names in ALLOWED.items():
        assert names <= {name for _, name, _ in faults(ast.parse((ROOT / place).read_text()))}, place


WRITES = {"write_text", "write_bytes", "savefig", "touch", "tofile", "dump", "savetxt", "savez", "savez_compressed"}
WRITERS = {  # what writes outside of `files.write_whole` and `files.open_to_append`, and why it may
    "src/opl/experiments/files.py": {"open", "torch.save"},
    "src/opl/experiments/bench/measurement.py": {"write_text"},  # resets the peak memory in /proc
    "src/opl/experiments/run_folder/folder.py": {"np.savez_compressed"},  # into memory
    "src/opl/experiments/charts/figure.py": {"figure.savefig"},  # into memory
    "src/opl/experiments/data/read/cache.py": {"write_text"},  # into a new folder with a name that is not guessable
    "src/opl/experiments/data/read/serve.py": {"file.open", "np.save", "open"},  # the same folder
    "src/opl/experiments/data/user_images.py": {"np.save"},  # the same folder
}


def writes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each call that writes a file by its name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        last = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        name = dotted(node.func, {}) or last
        modes = [a.value for a in (*node.args, *(k.value for k in node.keywords)) if isinstance(a, ast.Constant)]
        opens = last in ("open", "fdopen") and any(re.fullmatch("[rwaxbt+]*[wax+][bt+]*", str(m)) for m in modes)
        if opens or last in WRITES or name in ("np.save", "torch.save", "json.dump"):
            yield node.lineno, name


def test_files_are_written_by_one_function():
    other = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        calls = list(writes(ast.parse(path.read_text())))
        other += [f"{module}:{line} {name}" for line, name in calls if name not in WRITERS.get(module, set())]
        assert WRITERS.get(module, set()) <= {name for _, name in calls}, module
    assert other == []


@pytest.mark.parametrize(
    "code",
    [
        "open(file, 'w')", "file.open('ab')", "open(file, mode='x')", "file.write_text('')", "file.write_bytes(b'')",
        "figure.savefig(file)", "np.save(file, a)", "json.dump({}, open(file, 'w'))", "Path(file).touch()",
    ],
)  # fmt: skip
def test_the_rule_about_writing_catches(code):
    assert list(writes(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "import torch\ntorch.load('x')",
        "import torch\ntorch.load('x', weights_only=False)",
        "import torch as t\nt.load('x', weights_only=flag)",
        "from torch import load\nload('x')",
        "import pickle\npickle.load(f)",
        "import pickle\npickle.loads(b)",
        "from pickle import loads as read\nread(b)",
        "import pickle\npickle.Unpickler(f).load()",
        "import pickle\nclass Mine(pickle.Unpickler): pass",
        "import dill\ndill.loads(b)",
        "import cloudpickle\ncloudpickle.load(f)",
        "import joblib\njoblib.load(f)",
        "import marshal\nmarshal.loads(b)",
        "import pandas\npandas.read_pickle('x')",
        "eval('1')",
        "exec('1')",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "import subprocess\nsubprocess.Popen('ls', shell=flag)",
        "import os\nos.system('ls')",
        "from os import system\nsystem('ls')",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "from PIL import Image\nImage.open('x')",
        "import PIL.Image\nPIL.Image.open('x')",
        "from PIL import Image as I\nI.open('x')",
        "import yaml\nyaml.load(text)",
        "import tempfile\ntempfile.mktemp()",
    ],
)
def test_the_rule_catches(code):
    assert list(faults(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "import torch\ntorch.load('x', weights_only=True)",
        "import pickle\npickle.dumps(1)",
        "import json\njson.loads('1')",
        "model.eval()",
        "import subprocess\nsubprocess.run(['ls'], shell=False)",
        "import numpy as np\nnp.load('x', allow_pickle=False)",
        "from PIL import Image\nImage.open('x', formats=('PNG',))",
        "import yaml\nyaml.safe_load(text)",
        "tmp_path_factory.mktemp('runs')",
        "import re\nre.compile('x')",
    ],
)
def test_the_rule_lets_pass(code):
    assert not list(faults(ast.parse(code)))
