"""The reference has every public name, with an example that runs."""

import doctest
import importlib
import inspect
import re
import sys
import tomllib
from ast import Import, ImportFrom, parse, walk
from pathlib import Path
from pkgutil import walk_packages

import pytest
import torch
from torch import nn

import opl

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
MODULES = ("errors", "functional", "geometry", "heads", "losses", "optim", "plugin")
PAGES = sorted(REFERENCE.glob("*.md"))
DOCUMENTED = re.compile(r"^\.\. auto\w+:: (?P<name>opl[\w.]*)$", re.MULTILINE)


def public_names(module):
    """The names of `__all__`; without it, the functions and classes that the module defines."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]
    values = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return [
        name
        for name, value in values.items()
        if (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == module.__name__
    ]


PUBLIC = {
    f"{path}.{name}": getattr(module, name)
    for path in ("opl", *(f"opl.{name}" for name in MODULES))
    for module in [importlib.import_module(path)]
    for name in public_names(module)
}


@pytest.fixture(scope="module")
def documented():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    return {name: _resolve(name) for name in DOCUMENTED.findall(text)}


def _resolve(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_every_submodule_of_the_package_is_in_the_reference():
    listed = {name for name in opl.__all__ if inspect.ismodule(getattr(opl, name))}
    assert listed <= set(MODULES)
    assert set(MODULES) <= {page.stem for page in PAGES}


def test_the_extra_docs_installs_every_package_that_the_reference_imports():
    """Otherwise autodoc fails on a fresh clone, although it works where the extra `dev` is installed."""
    library = [path for path in (ROOT / "src" / "opl").rglob("*.py") if "experiments" not in path.parts]
    nodes = [node for path in library if path.name != "callbacks.py" for node in walk(parse(path.read_text("utf-8")))]
    names = [alias.name for node in nodes if isinstance(node, Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ImportFrom) and not node.level]
    others = {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"torch", "opl"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    installed = {re.split("[<>=]", need)[0].replace("-", "_") for need in extras["docs"] + extras["experiments"]}
    assert {"torchmetrics", "pytorch_metric_learning"} <= others
    assert others <= installed


def test_every_public_name_is_in_the_reference(documented):
    values = [id(value) for value in documented.values()]
    assert [name for name, value in PUBLIC.items() if id(value) not in values and name != "opl.__version__"] == []


def test_every_name_of_the_reference_has_an_example(documented):
    examples = "".join(line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines(keepends=True))
    written = "\n".join(re.findall(r"^(?:>>>|\.\.\.) .*$", examples, re.MULTILINE))
    without = [
        name
        for name, value in documented.items()
        if ">>>" not in (inspect.getdoc(value) or "")
        and not re.search(rf"\b{name.rpartition('.')[2]}\b", written)
        and f"'{name.rpartition('.')[2]}'" not in examples
    ]
    assert without == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_the_page_are_true(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {"opl": opl, "torch": torch, "nn": nn}
    assert doctest.testfile(str(page), module_relative=False, globs=names, encoding="utf-8").failed == 0


LIBRARY = [module.name for module in walk_packages(opl.__path__, "opl.") if ".experiments" not in module.name]


@pytest.mark.parametrize("name", [name for name in LIBRARY if name != "opl.__main__"])
def test_the_examples_of_the_docstrings_are_true(name):
    if name == "opl.losses.metric_learning":
        pytest.importorskip("pytorch_metric_learning", reason="pytorch-metric-learning is not installed")
    module = importlib.import_module(name)
    names = {"opl": opl, "torch": torch, "nn": nn, "F": nn.functional}
    names |= {name: getattr(opl, name) for name in opl.__all__}
    unknown = {name: value for name, value in names.items() if not hasattr(module, name)}
    torch.manual_seed(0)
    assert doctest.testmod(module, extraglobs=unknown).failed == 0
