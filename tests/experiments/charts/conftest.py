"""Charts are drawn by matplotlib, which is optional."""

import pytest


@pytest.fixture(autouse=True)
def needs_matplotlib():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
