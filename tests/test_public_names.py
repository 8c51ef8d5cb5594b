"""The public names of the library, and what importing it costs."""

from pathlib import Path

import opl
from _python import python

HEAVY = (
    "lightning",
    "matplotlib",
    "pytorch_lightning",
    "pytorch_metric_learning",
    "rich",
    "scipy",
    "sklearn",
    "torch._dynamo",
    "torch._inductor",
    "torchmetrics",
    "transformers",
    "tyro",
)


def test_public_names_need_neither_other_packages_nor_the_compiler_which_takes_seconds_to_import():
    code = (
        "import sys, opl, opl.geometry, opl.heads, opl.losses, opl.optim\n"
        "print([name for name in opl.__all__ if name not in dir(opl) or getattr(opl, name) is None])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], 'torch' in sys.modules)"
    )
    assert python(code).split() == ["[]", "[]", "True"]


def test_the_citation_names_this_version():
    citation = Path(__file__).parents[1] / "CITATION.cff"
    assert f"version: {opl.__version__}" in citation.read_text().splitlines()
