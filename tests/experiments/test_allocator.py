"""Freed memory: the number of blocks that glibc maps separately and returns when freed."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator than glibc's")

COUNT_BLOCKS = """
import ctypes
import sys
import torch
from opl.experiments.allocator import keep_freed_memory, return_large_blocks

class Facts(ctypes.Structure):  # glibc's mallinfo2: the fourth number counts the mapped blocks
    _fields_ = tuple((name, ctypes.c_size_t) for name in "abcdefghij")

def mapped(megabytes):
    before = facts().d
    block = torch.empty(megabytes << 20, dtype=torch.uint8)
    return facts().d - before

facts = ctypes.CDLL(None).mallinfo2
facts.restype = Facts
torch.empty(31 << 20, dtype=torch.uint8)  # freed at once: from then on glibc keeps smaller blocks
"""

TRAIN = """
from opl.experiments.paper import recipe
from opl.experiments.training.run import run
print(mapped(64))
run(recipe("digits-ce", "tiny"), sys.argv[1])
"""


def printed(code, *arguments):
    """The numbers that a new process prints."""
    argv = [sys.executable, "-c", COUNT_BLOCKS + code, *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def test_large_freed_blocks_are_returned_to_the_system():
    assert printed("print(mapped(9)); return_large_blocks(8 << 20); print(mapped(20), mapped(28))") == ["0", "1", "1"]


def test_all_freed_memory_is_kept():
    assert printed("print(mapped(64)); keep_freed_memory(); print(mapped(64), mapped(500))") == ["1", "0", "0"]


def test_decoded_images_go_back_even_where_freed_memory_is_kept():
    assert printed("keep_freed_memory(); return_large_blocks(8 << 20); print(mapped(20))") == ["1"]


def test_training_on_a_processor_keeps_freed_memory(tmp_path):
    result = printed(TRAIN + "print(mapped(64))", tmp_path)
    assert (result[0], result[-1]) == ("1", "0")
