"""Arrays in files: idx and pickles are read as plain data, and nothing in them runs."""

import gzip
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from _few_shot_files import labeled, parts, write
from opl.errors import DataError
from opl.experiments.data import CATALOG, FashionMnist, MiniImageNet, Mnist, describe
from opl.experiments.data.read.array_files import load_pickle

MINI_IMAGENET = CATALOG["mini-imagenet"].lists

pytestmark = pytest.mark.usefixtures("apart")


def idx(values: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.astype(np.uint8).tobytes()


def write_idx(folder: Path, ending: str = "", joint: str = "-") -> dict[str, tuple[np.ndarray, np.ndarray]]:
    random, parts = np.random.default_rng(0), {}
    folder.mkdir(parents=True)
    for word, count in (("train", 30), ("t10k", 20)):
        parts[word] = random.integers(0, 256, (count, 28, 28), dtype=np.uint8), np.arange(count) % 10
        for values, what in zip(parts[word], (f"images{joint}idx3", f"labels{joint}idx1"), strict=True):
            content = idx(values)
            (folder / f"{word}-{what}-ubyte{ending}").write_bytes(gzip.compress(content) if ending else content)
    return parts


@pytest.mark.parametrize(("deeper", "ending", "joint"), [("", ".gz", "-"), ("", "", "."), ("raw", "", "-")])
@pytest.mark.parametrize("settings", [Mnist, FashionMnist])
def test_idx_files_are_read_zipped_or_not(tmp_path, settings, deeper, ending, joint):
    parts = write_idx(tmp_path / "here" / deeper, ending, joint)
    splits = settings(root=str(tmp_path / "here"), val=0).load(0)
    for part, word in ((splits.train, "train"), (splits.test, "t10k")):
        np.testing.assert_array_equal(part.pixels[:, 0], parts[word][0])
        np.testing.assert_array_equal(part.labels, parts[word][1])
    assert splits.class_names == CATALOG[settings.name].names
    assert splits.class_names[9] == {"mnist": "9", "fashion-mnist": "Ankle boot"}[settings.name]


def test_incomplete_idx_files_are_refused(tmp_path, shelf):
    write_idx(shelf / "fashion-mnist", ".gz")
    labels = shelf / "fashion-mnist/t10k-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx(np.arange(7))))
    with pytest.raises(DataError, match="20 images and 7 labels"):
        FashionMnist(val=0).load(0)
    labels.write_bytes(gzip.compress(idx(np.arange(20))[:-3]))
    with pytest.raises(DataError, match="17 bytes but declares 20"):
        FashionMnist(val=0).load(0)
    labels.write_bytes(b"something else")
    with pytest.raises(DataError, match="not an idx file"):
        FashionMnist(val=0).load(0)
    labels.unlink()
    with pytest.raises(DataError, match=r"has no 't10k-labels-idx1-ubyte\.gz'"):
        FashionMnist(val=0).load(0)
    assert "t10k-labels" in {row["name"]: row for row in describe()}["fashion-mnist"]["where"]


class _Evil:
    def __init__(self, call: Callable, *given: object) -> None:
        self.reduced = call, given

    def __reduce__(self) -> tuple:
        return self.reduced


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_with_code_does_not_run_it(tmp_path, few, protocol):
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
    ("content", "name"),
    [
        (_Evil(eval, "1"), r"\w+\.eval"),
        (_Evil(getattr, 1, "real"), r"\w+\.getattr"),
        (np.array([len], dtype=object), "an array of 'O"),
        (np.zeros(2, dtype=[("a", "u1")]), "an array of 'V"),
        (np.load, r"numpy\.load"),
        (Path("somewhere"), "pathlib"),
    ],
)
def test_only_plain_values_and_arrays_of_numbers_are_unpickled(tmp_path, content, name):
    for protocol in (2, 4, 5):
        write(tmp_path / "file.pkl", {"data": [content]}, protocol)
        with pytest.raises(DataError, match=f"asks for {name}"):
            load_pickle(tmp_path / "file.pkl")


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
    result = load_pickle(tmp_path / "file.pkl")
    for one, other in zip(result["arrays"], arrays, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    assert result["plain"] == plain
    assert result["key"] == [1, 2]


def test_a_pickle_of_python_2_is_read(tmp_path):
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    (tmp_path / "old.pkl").write_bytes(
        b"\x80\x02}(U\x04data" + array + b"(K\x01K\x02\x85" + kind + b"\x89U\x02\xfe\x01tbu."
    )
    np.testing.assert_array_equal(load_pickle(tmp_path / "old.pkl")["data"], np.array([254, 1], np.uint8), strict=True)


SHORT = pickle.dumps(np.zeros(5, np.uint8), 2).replace(b"K\x05\x85", b"K\x63\x85")  # an array of 99 bytes with 5


def tuples_of_tuples(alias: bool) -> bytes:
    """Tuples of which each is (previous, previous), 64 deep: hashing the last would take 2^64 steps."""
    nested = b"K\x00\x85q\x00"
    for depth in range(64):
        get, put = b"h" + bytes([2 * depth]), b"q" + bytes([2 * depth + 1])
        second = put + b"h" + bytes([2 * depth + 1]) if alias else get
        nested += b"0" + get + second + b"\x86q" + bytes([2 * depth + 2])
    return b"\x80\x02}(" + nested + b"K\x01u."


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"cnumpy.core.multiarray\n_reconstruct\n}(S'__module__'\nS'x'\nub.", "asks for attributes of a function"),
        (b"]}(S'x'\nS'y'\nub.", "cannot be read"),
        (b"(S'true'\nios\nsystem\n.", "asks for the instruction INST"),
        (b"c__builtin__\nbytearray\n(I1000000000000\ntR.", "asks for bytes of a int"),
        (b"\x80\x02}(K\x00\x85" + b"2\x86" * 64 + b"K\x01u.", "asks for the instruction DUP"),
        (b"cnumpy\ndtype\n.", "asks for a type as a value"),
        (b"\x80\x02U\x01xQ.", "asks for the instruction BINPERSID"),
        (tuples_of_tuples(alias=False), "asks for tuples that contain one another"),
        (tuples_of_tuples(alias=True), "asks for tuples that contain one another"),
        (b"\x80\x02K\x01r\xf0\xff\xff\xff.", "cannot be read .*memo index 4,294,967,280 after 2 instructions"),
        (SHORT, r"5 bytes for an array of \(99,\)"),
        (b"", "cannot be read"),
        (b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b"x.", "cannot be read"),  # bytes that are not there
        (b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", "cannot be read"),  # lists in lists
        (b"\x80\x02]q\x00h\x00a.", "cannot be read"),  # a list in itself
        (b"\x80\x02K\x01h\x07.", "cannot be read"),  # a place of the memo that is empty
        (b"\x80\x02a.", "cannot be read"),
    ],
)
def test_damaged_pickles_and_instructions_beyond_plain_data_are_refused_in_one_sentence(tmp_path, content, expected):
    (tmp_path / "file.pkl").write_bytes(content)
    with pytest.raises(DataError, match=expected) as caught:
        load_pickle(tmp_path / "file.pkl")
    assert "\n" not in str(caught.value)


def test_lists_that_are_shared_stay_shared(tmp_path):
    value = [0]
    for _ in range(60):
        value = [value, value]  # 2^60 zeros, if they were copied
    write(tmp_path / "file.pkl", {"labels": value})
    result = load_pickle(tmp_path / "file.pkl")["labels"]
    assert result[0] is result[1]


def test_many_arrays_and_tuples_that_writers_share_are_loaded(tmp_path):
    pair = (1, 2)
    content = {
        "images": [np.full((2, 2), number % 256, np.uint8) for number in range(300)],
        "pairs": [pair, pair, pair],
    }
    for protocol in range(6):
        write(tmp_path / "file.pkl", content, protocol)
        loaded = load_pickle(tmp_path / "file.pkl")
        assert [int(image[0, 0]) for image in loaded["images"]] == [number % 256 for number in range(300)]
        assert loaded["pairs"] == [[1, 2]] * 3
