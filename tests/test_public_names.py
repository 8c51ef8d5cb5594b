"""The public names of the library, and what importing it costs."""

from pathlib import Path

import opl
from _python import python

GUESTS = (
    "lightning",
    "pytorch_lightning",
    "transformers",
    "torchmetrics",
    "sklearn",
    "scipy",
    "rich",
    "tyro",
    "matplotlib",
)


def test_importing_opl_and_using_every_name_brings_no_guest():
    code = (
        "import sys, opl\n"
        "for name in opl.__all__: getattr(opl, name)\n"
        f"print([guest for guest in {GUESTS!r} if guest in sys.modules], 'torch' in sys.modules)"
    )
    assert python(code).split() == ["[]", "True"]


def test_every_public_name_is_there_and_listed():
    for name in opl.__all__:
        assert getattr(opl, name) is not None
        assert name in dir(opl)


def test_every_public_name_is_there_without_the_compiler_which_takes_seconds_to_import():
    code = (
        "import sys, opl\n"
        "[getattr(opl, name) for name in opl.__all__]\n"
        "print('torch' in sys.modules, [name for name in ('torch._dynamo', 'torch._inductor') if name in sys.modules])"
    )
    assert python(code).split() == ["True", "[]"]


def test_the_citation_names_this_version():
    citation = Path(__file__).parents[1] / "CITATION.cff"
    assert f"version: {opl.__version__}" in citation.read_text().splitlines()
