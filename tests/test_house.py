"""The house itself: who may import whom, no cycles, nothing torch-ful where pages are made, and sizes of files."""

import ast
import subprocess
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import opl

SOURCE = Path(opl.__file__).parent
LIBRARY = {"functional", "plugin", "geometry", "optim", "errors", "losses", "heads", "_kernels", "_ranges", "schedules"}
PLAIN = {
    "allocator",
    "types",
    "recipe",
    "run_folder",
    "seeds",
    "scales",
    "item",
    "radius",
    "statistics",
    "files",
    "differences",
    "failures",
    "settings",
    "widths",
}
ORDER = (  # each room may import those before it, and itself; rooms of one line know nothing of each other
    {"library"}, {"plain"}, {"data", "models"}, {"methods"}, {"training"}, {"evaluation"}, {"results"}, {"paper"},
    {"charts"}, {"report", "export"}, {"runner"}, {"search", "tryout"}, {"bench"}, {"cli"},
)  # fmt: skip
TORCH_FREE = (
    "results",
    "paper",
    "charts",
    "report",
    "scales",
    "statistics",
    "item",
    "files",
    "failures",
    "radius",
    "widths",
    "allocator",
)


def modules() -> dict[str, Path]:
    """By dotted name, packages without their `__init__`."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("opl", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def imports(name: str) -> set[str]:
    """The modules of the package that a module imports, wherever in it the import stands."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in MODULES}
        if isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            target = ".".join([*base, *([node.module] if node.module else [])])
            inside = {f"{target}.{alias.name}" for alias in node.names}
            found |= {each if each in MODULES else target for each in inside if target in MODULES or each in MODULES}
    return found - {name}


def room(name: str) -> str:
    parts = name.split(".")
    if name == "opl.__main__":  # `python -m opl` is the command line
        return "cli"
    if len(parts) == 1 or (len(parts) > 1 and parts[1] in LIBRARY):
        return "library"
    if parts[1] != "experiments":
        raise AssertionError(f"{name} is on no floor: put it into the library or into experiments, and say so here.")
    if len(parts) == 2:
        return "plain"
    return "plain" if parts[2] in PLAIN else parts[2]


def level(name: str) -> int:
    return next(place for place, rooms in enumerate(ORDER) if room(name) in rooms)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_from_rooms_below(name):
    for other in imports(name):
        assert room(other) == room(name) or level(other) < level(name), f"{name} imports {other}"


def test_the_library_never_imports_the_experiments():
    below = [name for name in MODULES if room(name) == "library"]
    assert not [(name, other) for name in below for other in imports(name) if "experiments" in other]


def test_there_is_no_cycle_lazy_imports_included():
    graph = {name: {other for other in imports(name) if not name.startswith(f"{other}.")} for name in MODULES}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a cycle: {error.args[1]}")


def test_the_top_has_at_most_twelve_doors():
    doors = [path.name for path in SOURCE.iterdir() if path.name not in ("__pycache__", "py.typed")]  # a mark, no door
    assert len(doors) <= 12, doors


@pytest.mark.parametrize("name", MODULES)
def test_files_and_functions_are_short(name):
    assert len(MODULES[name].read_text().splitlines()) <= 300
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.FunctionDef):
            words = ast.get_docstring(node, clean=False)
            lines = node.end_lineno - node.lineno + 1 - (len(words.splitlines()) if words else 0)
            assert lines <= 50, f"{node.name} has {lines} lines"


def test_no_two_functions_are_the_same():
    bodies = Counter()
    places: dict[str, list[str]] = {}
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and len(node.body) > 1:
                body = node.body[1:] if ast.get_docstring(node) else node.body
                if len(body) < 2:
                    continue
                text = "\n".join(ast.dump(part) for part in body)
                bodies[text] += 1
                places.setdefault(text, []).append(f"{name}.{node.name}")
    assert not [places[text] for text, count in bodies.items() if count > 1]


def test_no_two_test_files_have_the_same_name():
    """They are imported by their names alone."""
    names = Counter(file.name for file in Path(__file__).parent.rglob("*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_nobody_sniffs_at_attributes():
    """`getattr(x, "name", default)` guesses; a protocol with a default says what may be there."""
    guesses = []
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id
            if (called == "getattr" and len(node.args) == 3) or called == "hasattr":
                guesses.append(f"{name}:{node.lineno} {ast.unparse(node)}")
    assert guesses == []


@pytest.mark.parametrize("room", TORCH_FREE)
def test_pages_and_tables_need_no_torch(room):
    there = [name for name in MODULES if name.split(".")[:3] == ["opl", "experiments", room]]
    script = f"import sys; sys.modules['torch'] = None; import {', '.join(there)}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]
