"""Errors of the machine become a sentence; other errors are unchanged."""

import errno
import json
import os

import pytest

from opl.errors import MachineError, OptionError
from opl.experiments.data.read.cache import cache_folder
from opl.experiments.failures import CURES, explain


def test_an_error_of_the_system_names_the_file_and_the_cure():
    for number, cure in CURES.items():
        sentence = str(explain(OSError(number, os.strerror(number), "runs/checkpoint.pt")))
        assert sentence.startswith(f"'runs/checkpoint.pt': {cure}"), number
        assert sentence.endswith(".")
        assert "\n" not in sentence


def test_an_unknown_error_of_the_system_keeps_its_message():
    assert "stale file handle" in str(explain(OSError(errno.ESTALE, os.strerror(errno.ESTALE), "runs")))
    assert "timed out" in str(explain(TimeoutError("timed out")))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you"),
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB."),
    ],
)
def test_too_little_memory_is_explained(error):
    assert "not enough memory" in str(explain(error))


def test_an_unknown_home_is_explained(monkeypatch):
    for name in ("HOME", "OPL_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does for a user without a home
    with pytest.raises(RuntimeError) as caught:
        cache_folder()
    assert "set HOME" in str(explain(caught.value))


def test_lists_nested_too_deeply_are_explained():
    with pytest.raises(RecursionError) as caught:
        json.loads("[" * 200_000 + "]" * 200_000)
    assert "nested too deeply" in str(explain(caught.value))


def test_known_errors_are_unchanged_and_unknown_errors_are_not_explained():
    ours = OptionError("epochs is 0: give more.")
    assert explain(ours) is ours
    assert explain(KeyError("x")) is None
    assert explain(RuntimeError("size mismatch")) is None
    assert isinstance(explain(OSError(errno.EIO, "x")), MachineError)
