"""idx files, the first format of MNIST: read zipped or not, and refused when they are not whole."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from opl.errors import DataError
from opl.experiments.data import CATALOG, FashionMnist, Mnist, describe

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


def test_idx_files_that_are_not_whole_are_told(tmp_path, shelf):
    write_idx(shelf / "fashion-mnist", ".gz")
    labels = shelf / "fashion-mnist/t10k-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx(np.arange(7))))
    with pytest.raises(DataError, match="20 images and 7 labels"):
        FashionMnist(val=0).load(0)
    labels.write_bytes(gzip.compress(idx(np.arange(20))[:-3]))
    with pytest.raises(DataError, match="17 bytes and says 20"):
        FashionMnist(val=0).load(0)
    labels.write_bytes(b"something else")
    with pytest.raises(DataError, match="no idx file"):
        FashionMnist(val=0).load(0)
    labels.unlink()
    with pytest.raises(DataError, match=r"but not 't10k-labels-idx1-ubyte\.gz'"):
        FashionMnist(val=0).load(0)
    assert "t10k-labels" in {row["name"]: row for row in describe()}["fashion-mnist"]["where"]
