"""Pickles of strangers: plain values and arrays are loaded, and no program runs."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from _few_shot_files import labeled, parts, write
from opl.errors import DataError
from opl.experiments.data import MiniImageNet
from opl.experiments.data.read import unpickle
from opl.experiments.data.read.few_shot_classes import MINI_IMAGENET

pytestmark = pytest.mark.usefixtures("apart")


class _Evil:
    def __init__(self, call: Callable, *given: object) -> None:
        self.reduced = call, given

    def __reduce__(self) -> tuple:
        return self.reduced


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_that_is_a_program_does_not_run(tmp_path, few, protocol):
    labeled(tmp_path / "mini", parts(MINI_IMAGENET))
    file = tmp_path / "mini/miniImageNet_category_split_test.pickle"
    evil = _Evil(os.system, f"touch {tmp_path / 'ran'}")
    write(file, {"data": evil, "labels": []}, protocol)
    with pytest.raises(DataError, match=r"was not loaded, because it asks for (posix|nt)\.system") as caught:
        MiniImageNet(root=str(tmp_path / "mini")).load(0)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()
    pickle.loads(file.read_bytes())
    assert (tmp_path / "ran").exists()  # it would have run


@pytest.mark.parametrize(
    ("content", "asks"),
    [
        (_Evil(eval, "1"), r"\w+\.eval"),
        (_Evil(getattr, 1, "real"), r"\w+\.getattr"),
        (np.array([len], dtype=object), "an array of 'O"),
        (np.zeros(2, dtype=[("a", "u1")]), "an array of 'V"),
        (np.load, r"numpy\.load"),
        (Path("somewhere"), "pathlib"),
    ],
)
def test_only_plain_values_and_arrays_of_numbers_are_unpickled(tmp_path, content, asks):
    for protocol in (2, 4, 5):
        write(tmp_path / "file.pkl", {"data": [content]}, protocol)
        with pytest.raises(DataError, match=f"asks for {asks}"):
            unpickle.load(tmp_path / "file.pkl")


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_and_arrays_are_unpickled_as_they_were(tmp_path, protocol):
    arrays = [
        np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(3, dtype=">i4"),
        np.array(["ab", "c"]),
        np.zeros((0, 3), dtype=np.int16),
    ]
    plain = {"labels": [1, np.int64(5), 2.5, True, None], "bytes": b"\xff\x00", "set": {1, 2}, "word": "Straße"}
    write(tmp_path / "file.pkl", {"arrays": arrays, "plain": plain, b"key": (1, 2)}, protocol)
    found = unpickle.load(tmp_path / "file.pkl")
    for one, other in zip(found["arrays"], arrays, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    assert found["plain"] == plain
    assert found["key"] == [1, 2]


def test_a_pickle_of_python_2_is_read(tmp_path):
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    (tmp_path / "old.pkl").write_bytes(
        b"\x80\x02}(U\x04data" + array + b"(K\x01K\x02\x85" + kind + b"\x89U\x02\xfe\x01tbu."
    )
    np.testing.assert_array_equal(
        unpickle.load(tmp_path / "old.pkl")["data"], np.array([254, 1], np.uint8), strict=True
    )


def test_an_array_that_is_shorter_than_it_says_is_refused(tmp_path):
    content = pickle.dumps(np.zeros(5, np.uint8), 2)
    (tmp_path / "file.pkl").write_bytes(content.replace(b"K\x05\x85", b"K\x63\x85"))
    with pytest.raises(DataError, match=r"5 bytes for an array of \(99,\)"):
        unpickle.load(tmp_path / "file.pkl")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"cnumpy.core.multiarray\n_reconstruct\n}(S'__module__'\nS'x'\nub.", "attributes of a _Name"),
        (b"]}(S'x'\nS'y'\nub.", "attributes of a list"),
        (b"(S'true'\nios\nsystem\n.", "the instruction INST"),
        (b"c__builtin__\nbytearray\n(I1000000000000\ntR.", "bytes of a int"),
        (b"\x80\x02}(K\x00\x85" + b"2\x86" * 64 + b"K\x01u.", "a tuple as a key"),
        (b"cnumpy\ndtype\n.", "a type as a value"),
        (b"\x80\x02U\x01xQ.", "the instruction BINPERSID"),
    ],
)
def test_nothing_is_set_called_or_reserved_that_plain_data_does_not_need(tmp_path, content, says):
    (tmp_path / "file.pkl").write_bytes(content)
    with pytest.raises(DataError, match=f"asks for {says}"):
        unpickle.load(tmp_path / "file.pkl")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b"x.",  # bytes that are not there
        b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",  # lists in lists
        b"\x80\x02]q\x00h\x00a.",  # a list in itself
        b"\x80\x02K\x01h\x07.",  # a place of the memo that is empty
        b"\x80\x02a.",
    ],
)
def test_a_pickle_that_cannot_be_is_one_sentence(tmp_path, content):
    (tmp_path / "file.pkl").write_bytes(content)
    with pytest.raises(DataError, match="cannot be read") as caught:
        unpickle.load(tmp_path / "file.pkl")
    assert "\n" not in str(caught.value)


def test_lists_that_are_shared_stay_shared(tmp_path):
    value = [0]
    for _ in range(60):
        value = [value, value]  # 2^60 zeros, if they were copied
    write(tmp_path / "file.pkl", {"labels": value})
    found = unpickle.load(tmp_path / "file.pkl")["labels"]
    assert found[0] is found[1]


def test_a_place_in_the_memo_costs_nothing(tmp_path):
    (tmp_path / "file.pkl").write_bytes(b"\x80\x02K\x01r\xf0\xff\xff\xff.")
    assert unpickle.load(tmp_path / "file.pkl") == 1
