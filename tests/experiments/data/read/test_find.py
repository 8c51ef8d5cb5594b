"""Where data is found: in a named folder, below OPL_DATA or on the Hub, in this order."""

import socket
import time

import pytest

from _image_files import write_mnist
from opl.errors import DataError
from opl.experiments.data import CATALOG, Mnist, describe, find
from opl.experiments.data.read import find as finder
from opl.experiments.data.read.catalog import CatalogEntry
from opl.experiments.data.read.find import find_tables
from opl.experiments.data.read.parquet import count_rows

pytestmark = pytest.mark.usefixtures("apart")


def test_a_named_folder_comes_before_opl_data_and_that_before_the_hub(tmp_path, shelf):
    write_mnist(tmp_path / "hf/hub/datasets--ylecun--mnist/snapshots/0a1b/mnist")
    assert find("mnist").where == "Hub ylecun/mnist"
    write_mnist(shelf / "mnist")
    assert find("mnist").where == str(shelf / "mnist")
    write_mnist(tmp_path / "mine")
    assert find("mnist", str(tmp_path / "mine")).where == str(tmp_path / "mine")


def test_a_named_folder_without_the_data_is_refused_and_nothing_else_is_searched(tmp_path, shelf):
    write_mnist(shelf / "mnist")
    with pytest.raises(DataError, match=r"no mnist in --data\.root"):
        find("mnist", str(tmp_path / "elsewhere"))


@pytest.mark.parametrize("deeper", ["", "mnist", "data", "whatever"])
def test_files_may_be_one_folder_deeper_as_on_the_hub(tmp_path, deeper):
    write_mnist(tmp_path / "here" / deeper)
    assert count_rows(find("mnist", str(tmp_path / "here"))) == 60


def test_files_may_be_in_one_folder_per_split(tmp_path):
    write_mnist(tmp_path)
    for name in ("train", "test"):
        (tmp_path / "here/mnist" / name).mkdir(parents=True)
        (tmp_path / f"{name}-00000-of-00001.parquet").rename(tmp_path / "here/mnist" / name / "0000.parquet")
    assert len(Mnist(root=str(tmp_path / "here"), val=0).load(0).test) == 20


def test_a_missing_split_and_a_missing_shard_are_refused(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "train-00000-of-00001.parquet").rename(tmp_path / "train-00000-of-00002.parquet")
    with pytest.raises(DataError, match="1 of the 2 files"):
        find("mnist", str(tmp_path))
    (tmp_path / "train-00000-of-00002.parquet").unlink()
    with pytest.raises(DataError, match="no single set of Parquet files"):
        find("mnist", str(tmp_path))


def test_without_known_parts_all_that_exist_are_used_if_they_are_complete(tmp_path):
    write_mnist(tmp_path)
    assert [*find_tables(CatalogEntry("mine"), str(tmp_path)).files] == ["train", "test"]
    (tmp_path / "test-00000-of-00001.parquet").rename(tmp_path / "test-00000-of-00002.parquet")
    with pytest.raises(DataError, match="1 of the 2 files of its split 'test'"):
        find_tables(CatalogEntry("mine"), str(tmp_path))
    (tmp_path / "test-00000-of-00002.parquet").unlink()
    assert [*find_tables(CatalogEntry("mine"), str(tmp_path)).files] == ["train"]


def test_the_description_lists_available_and_missing_data_sets(shelf):
    write_mnist(shelf / "mnist")
    rows = {row["name"]: row for row in describe()}
    assert set(rows) == {"digits", *CATALOG}
    assert (rows["mnist"]["here"], rows["mnist"]["images"]) == (True, 60)
    assert rows["mnist"]["where"] == str(shelf / "mnist")
    assert (rows["cifar100"]["here"], rows["cifar100"]["images"]) == (False, 60_000)
    assert "uoft-cs/cifar100" in rows["cifar100"]["get"]
    assert rows["digits"]["here"]


def test_a_network_that_never_replies_times_out_in_seconds(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(finder, "PATIENCE", 0.5)
        start = time.monotonic()
        with pytest.raises(DataError, match="FOLDER"):
            find("mnist")
        assert time.monotonic() - start < 3


def test_a_download_of_the_hub_is_read_like_any_folder(tmp_path, monkeypatch):
    import huggingface_hub

    def download(name, **_):
        assert name == "ylecun/mnist"
        write_mnist(tmp_path / "sent/mnist")
        return str(tmp_path / "sent")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(finder, "is_reachable", lambda: True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    splits = Mnist(val=0).load(0)
    assert (len(splits.train), splits.source) == (40, "Hub ylecun/mnist")
