"""The examples in the docstrings of training, methods, evaluation, run folders and the modules above them are true."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest
import torch

from opl import experiments

ROOT = Path(experiments.__file__).parent
PACKAGES = (".", "training", "methods", "evaluation", "run_folder", "models")
FILES = [file for package in PACKAGES for file in (ROOT / package).glob("*.py") if ">>>" in file.read_text()]
MODULES = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in FILES]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_are_true(name):
    result = doctest.testmod(import_module(f"opl.experiments.{name}"), extraglobs={"torch": torch})
    assert (result.failed, result.attempted > 0) == (0, True)
