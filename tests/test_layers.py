"""The layers of the package: imports go one way, without cycles, and pages need no torch."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import opl

SOURCE = Path(opl.__file__).parent
EXPERIMENTS = "opl.experiments"
LAYERS = (  # a package may import itself and the packages of earlier lines
    {"library"},
    {"values"},  # the modules at the top of experiments, and run_folder
    {"data", "models"},
    {"methods"},
    {"training"},
    {"evaluation"},
    {"results"},
    {"paper"},
    {"charts"},
    {"report", "export"},
    {"runner"},
    {"tryout", "search"},
    {"bench"},
    {"cli"},
)
TORCH_FREE = ("results", "paper", "charts", "report")


def read_modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    modules = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("opl", *path.relative_to(SOURCE).with_suffix("").parts)
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


MODULES = read_modules()
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def imports_of(name: str) -> set[str]:
    """The modules of the package that a module imports, inside functions too."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    imported = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names if alias.name in MODULES}
        if isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            target = ".".join([*base, *([node.module] if node.module else [])])
            for candidate in (f"{target}.{alias.name}" for alias in node.names):
                imported |= {candidate} & MODULES.keys() or {target} & MODULES.keys()
    return imported - {name}


def package_of(name: str) -> str:
    if name == "opl.__main__":
        return "cli"
    parts = name.split(".")
    if parts[:2] != EXPERIMENTS.split("."):
        return "library"
    packages = set().union(*LAYERS)
    return parts[2] if len(parts) > 2 and parts[2] in packages else "values"


def layer_of(name: str) -> int:
    return next(index for index, packages in enumerate(LAYERS) if package_of(name) in packages)


def test_modules_import_only_from_lower_layers():
    wrong = [
        f"{name} imports {target}"
        for name in MODULES
        for target in imports_of(name)
        if package_of(target) != package_of(name) and layer_of(target) >= layer_of(name)
    ]
    assert wrong == []


def test_import_graph_has_no_cycle():
    graph = {name: {target for target in imports_of(name) if not name.startswith(f"{target}.")} for name in MODULES}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"import cycle: {error.args[1]}")


def test_tables_charts_and_pages_need_no_torch():
    names = [name for name in MODULES if package_of(name) in TORCH_FREE]
    script = f"import sys; sys.modules['torch'] = None; import {', '.join(names)}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]
