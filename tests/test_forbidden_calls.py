"""What no code of ours calls: whatever runs what a file says, or opens more than was meant."""

import ast
import functools
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


@functools.cache
def calls_of(folder: str) -> dict[str, list[list[tuple]]]:
    """For every module in a folder, what each rule reports; the rules about files are for `src` alone."""
    rules = (faults, writes, without_encoding) if folder == "src" else (faults,)
    calls = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))  # not kept: so many objects slow the garbage collector
        calls[path.relative_to(ROOT).as_posix()] = [list(rule(tree)) for rule in rules]
    return calls


@pytest.mark.parametrize("folder", ["src", "benchmarks", "examples", "tests"])
def test_nothing_that_runs_what_a_file_says_is_called(folder):
    assert [
        f"{path}:{line} {name} {reason}"
        for path, (forbidden, *_) in calls_of(folder).items()
        for line, name, reason in forbidden
        if name not in ALLOWED.get(path, ())
    ] == []


def test_every_exception_is_still_needed():
    for path, names in ALLOWED.items():
        assert names <= {name for _, name, _ in calls_of(path.partition("/")[0])[path][0]}, path


OPENERS = {"open", "fdopen", "ZipFile", "TarFile", "GzipFile", "File", "memmap", "open_memmap"}  # write in some modes
WRITES = {
    "write_text", "write_bytes", "touch", "tofile", "dump", "symlink_to", "hardlink_to", "extract", "extractall",
    "save", "savefig", "savetxt", "savez", "savez_compressed", "save_file", "save_to_disk", "imsave", "imwrite",
    "to_parquet", "to_csv", "to_feather", "to_hdf", "to_excel", "write_table", "write_dataset", "write_to_dataset",
    "urlretrieve", "mkstemp", "NamedTemporaryFile", "TemporaryFile", "mkfifo", "mknod",
}  # fmt: skip
MODULES = ("shutil.", "os.open", "os.link", "os.symlink", "os.sendfile", "os.copy_file_range")
READS = {"which", "get_terminal_size", "disk_usage"}
WRITERS = {  # what writes outside of `files.write_whole` and `files.open_to_append`, and why it may
    "src/opl/experiments/files.py": {"os.open", "open", "os.fdopen", "torch.save"},
    "src/opl/experiments/terminal.py": {"os.open", "open"},  # the null device
    "src/opl/experiments/cli/__init__.py": {"os.open"},  # the null device
    "src/opl/experiments/bench/measurement.py": {"write_text"},  # resets the peak memory in /proc
    "src/opl/experiments/run_folder/folder.py": {
        "numpy.savez_compressed",
        "checkpoints.save",
        "safetensors.torch.save",
    },
    "src/opl/experiments/export/bundle.py": {"safetensors.torch.save"},  # into memory
    "src/opl/experiments/charts/animation.py": {"first.save"},  # into memory
    "src/opl/experiments/charts/data_uris.py": {"image.save"},  # into memory
    "src/opl/experiments/charts/figure.py": {"figure.savefig"},  # into memory
    "src/opl/experiments/data/read/cache.py": {"write_text", "shutil.rmtree"},  # a new folder with an unguessable name
    "src/opl/experiments/data/read/serve.py": {"numpy.save", "open"},  # the same folder
    "src/opl/experiments/data/large_images.py": {"resized.save"},  # the same folder
    "src/opl/experiments/data/user_images.py": {"numpy.save", "numpy.memmap", "tempfile.TemporaryFile"},  # the same
    "src/opl/experiments/tryout/trial.py": {"shutil.rmtree"},  # the measurement of speed of this command
}


def writes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each call that writes, copies or deletes files by their names."""
    meant = names_of_imports(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        last = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        name = dotted(node.func, meant) or last
        module, _, last = name.rpartition(".")
        if last == "save" and module.partition(".")[0] in ("", "self"):  # a function or method of ours
            continue
        if (last in OPENERS and may_write(node)) or last in WRITES or (name.startswith(MODULES) and last not in READS):
            yield node.lineno, name


def may_write(node: ast.Call) -> bool:
    """Whether the mode of a call may be one that writes; a mode that is not a constant may be."""
    named = [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
    modes = [*node.args[:2], *named]
    constants = [str(mode.value) for mode in modes if isinstance(mode, ast.Constant)]
    unknown = [mode for mode in (*node.args[1:2], *named) if not isinstance(mode, ast.Constant)]
    return bool(unknown) or any(re.fullmatch("[rwaxbt+]*[wax+][bt+]*", mode) for mode in constants)


def without_encoding(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each call that reads or writes text in the encoding of the locale."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(keyword.arg == "encoding" for keyword in node.keywords):
            continue
        last = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if last in ("read_text", "write_text"):
            yield node.lineno, last
        constants = [part.value for part in (*node.args, *(k.value for k in node.keywords)) if is_text(part)]
        is_path = isinstance(node.func, ast.Attribute) and dotted(node.func.value, {}) not in (
            "gzip",
            "os",
            "archive",
            "Image",
        )
        if last == "open" and (is_path or isinstance(node.func, ast.Name)) and not any("b" in c for c in constants):
            yield node.lineno, last


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_files_are_written_by_one_function():
    other = []
    for module, (_, calls, _) in calls_of("src").items():
        other += [f"{module}:{line} {name}" for line, name in calls if name not in WRITERS.get(module, set())]
        assert WRITERS.get(module, set()) <= {name for _, name in calls}, module
    assert other == []


def test_text_is_read_and_written_as_utf_8_whatever_the_locale():
    assert {path: names for path, (*_, names) in calls_of("src").items() if names} == {}


FORBIDDEN = [
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
]
HARMLESS = [
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
]
WRITING = [
    "open(file, 'w')", "file.open('ab')", "open(file, mode='x')", "file.write_text('')", "file.write_bytes(b'')",
    "open(file, mode)", "file.open('r+')", "os.fdopen(1, mode)",
    "figure.savefig(file)", "plt.savefig(file)", "np.save(file, a)", "json.dump({}, open(file, 'w'))",
    "from numpy import save as keep\nkeep(file, a)", "import numpy\nnumpy.savez(file, a=a)", "a.tofile(file)",
    "Path(file).touch()", "import os\nos.open(file, os.O_WRONLY)", "from os import open as o\no(file, 1)",
    "import shutil\nshutil.copy(a, b)", "from shutil import move\nmove(a, b)", "import shutil as s\ns.rmtree(a)",
    "frame.to_parquet(file)", "frame.to_csv(file)", "import pyarrow.parquet as pq\npq.write_table(t, file)",
    "image.save(file)", "from safetensors.torch import save_file\nsave_file({}, file)", "torch.save(a, file)",
    "zipfile.ZipFile(file, 'w')", "h5py.File(file, 'a')", "np.memmap(file, mode='w+')", "archive.extractall(file)",
    "os.symlink(a, b)", "file.symlink_to(other)", "os.link(a, b)", "os.mkfifo(file)",
    "tempfile.NamedTemporaryFile()", "urllib.request.urlretrieve(url, file)",
]  # fmt: skip
NOT_WRITING = ["open(file)", "open(file, 'rb')", "file.open()", "zipfile.ZipFile(file)", "write_whole(file, b'')"]
NO_ENCODING = ["open(file)", "open(file, 'w')", "file.open(newline='')", "file.read_text()"]
ENCODED = ["open(file, 'rb')", "file.open('wb')", "file.read_text(encoding='utf-8')"]


@pytest.mark.parametrize(
    ("rule", "caught", "allowed"),
    [(faults, FORBIDDEN, HARMLESS), (writes, WRITING, NOT_WRITING), (without_encoding, NO_ENCODING, ENCODED)],
)
def test_rules_catch_what_is_forbidden_and_nothing_else(rule, caught, allowed):
    assert [code for code in caught if not list(rule(ast.parse(code)))] == []
    assert [code for code in allowed if list(rule(ast.parse(code)))] == []
