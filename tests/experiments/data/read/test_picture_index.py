"""The index of pictures: class folders and Parquet files give the same, made once, and again when they change."""

import os

import numpy as np
import pytest

from _pictures import class_folders, encoded, flat, parquet
from opl.errors import DataError, OplWarning
from opl.experiments.data.pictures import unknown
from opl.experiments.data.read import picture_index
from opl.experiments.data.read.cache import cache_folder
from opl.experiments.data.read.picture_index import open_index
from opl.experiments.data.read.picture_source import locate_pictures

pytestmark = pytest.mark.usefixtures("apart")


def index(folder):
    return open_index(locate_pictures(unknown("mine"), str(folder)))


def content(folder, split):
    found = index(folder)
    files = found.files(split)
    return found.class_names, found.labels(split).tolist(), [files.read(row) for row in range(len(files))]


@pytest.fixture
def both(tmp_path):
    """The same pictures in class folders and in Parquet shards."""
    train = class_folders(tmp_path / "folders" / "train", {"cat": 3, "dog": 2})
    test = class_folders(tmp_path / "folders" / "test", {"cat": 1, "dog": 1}, start=5)
    for split, base in (("train", train), ("test", test)):
        files = sorted(base.rglob("*.png"))
        labels = [int(file.parent.name == "dog") for file in files]
        half = len(files) // 2
        for number, part in enumerate((slice(0, half), slice(half, None))):
            pictures = [file.read_bytes() for file in files[part]]
            parquet(
                tmp_path / f"tables/data/{split}-0000{number}-of-00002.parquet", pictures, labels[part], ["cat", "dog"]
            )
    return tmp_path / "folders", tmp_path / "tables"


@pytest.mark.parametrize("split", ["train", "test"])
def test_folders_and_parquet_files_give_the_same(both, split):
    assert content(both[0], split) == content(both[1], split)
    assert {*index(both[0]).splits} == {*index(both[1]).splits} == {"train", "test"}
    assert index(both[0]).mean == index(both[1]).mean


def test_mean_and_std_are_those_of_the_pixels(tmp_path):
    class_folders(tmp_path / "x", {"a": 7, "b": 4})
    found = index(tmp_path / "x")
    colors = np.array([[number % 256, 0, 128] for number in range(11)]) / 255
    np.testing.assert_allclose(found.mean, colors.mean(0), atol=2e-5)
    np.testing.assert_allclose(found.std, np.maximum(colors.std(0), 1e-3), atol=2e-5)
    assert found.channels == 3


def test_it_is_made_once_and_again_when_a_picture_is_added(tmp_path, monkeypatch):
    folder = class_folders(tmp_path / "x", {"a": 2, "b": 2})
    index(folder)
    with monkeypatch.context() as patch:
        patch.setattr(picture_index, "_build", lambda *_: pytest.fail("it is there already"))
        assert len(index(folder).files("train")) == 4
    (folder / "b" / "more.png").write_bytes(encoded(flat(9)))
    os.utime(folder / "b", ns=(1, 1))
    assert len(index(folder).files("train")) == 5


def test_an_interrupted_build_leaves_nothing(tmp_path, monkeypatch):
    folder = class_folders(tmp_path / "x", {"a": 2, "b": 2})
    with monkeypatch.context() as patch:
        patch.setattr(picture_index, "describe_pictures", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            index(folder)
    assert [path.name for path in cache_folder().iterdir() if path.suffix != ".lock"] == []
    assert len(index(folder).files("train")) == 4


def test_a_test_set_without_labels_is_left_out(tmp_path):
    pictures = [encoded(flat(number)) for number in range(4)]
    parquet(tmp_path / "x/train.parquet", pictures, [0, 1, 0, 1])
    parquet(tmp_path / "x/test.parquet", pictures, [-1] * 4)
    assert index(tmp_path / "x").splits == ("train",)
    assert index(tmp_path / "x").class_names == ("0", "1")


def test_labels_may_be_words(tmp_path):
    parquet(tmp_path / "x/train.parquet", [encoded(flat(number)) for number in range(3)], ["red", "blue", "red"])
    assert index(tmp_path / "x").class_names == ("blue", "red")
    assert index(tmp_path / "x").labels("train").tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("layout", "says"),
    [
        ({"train": {"a": 1, "b": 1}, "test": {"c": 1}}, "a class 'c' in the split 'test' that is not in 'train'"),
        ({"train": {"a": 1}}, "has 1 classes: give a folder with at least two"),
        ({"train": {"a": 1, "b": 0}}, "no picture of the class 'b' to train on"),
    ],
)
def test_folders_that_make_no_sense_are_one_sentence(tmp_path, layout, says):
    for split, counts in layout.items():
        class_folders(tmp_path / "x" / split, counts)
    with pytest.raises(DataError, match=says):
        index(tmp_path / "x")


def test_a_folder_without_pictures_says_which_layouts_there_are(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "notes.txt").write_text("nothing")
    with pytest.raises(DataError, match="neither Parquet files nor pictures as '<class>/<picture>'"):
        index(tmp_path / "x")


@pytest.mark.parametrize(
    ("put", "kind"),
    [
        (lambda file: file.symlink_to(file.with_name("00000.png")), "a link"),
        (lambda file: file.symlink_to("nothing.png"), "a link"),
        (lambda file: file.symlink_to("/dev/zero"), "a link"),
        (lambda file: file.symlink_to(file.parent), "a link"),
        (os.mkfifo, "no file"),
        (lambda file: file.mkdir(), "an empty folder"),
    ],
)
def test_what_is_no_picture_of_its_own_is_not_left_out_silently(tmp_path, put, kind):
    folder = class_folders(tmp_path / "x", {"a": 2, "b": 2})
    put(folder / "a" / "odd.png")
    with pytest.raises(DataError, match=f"odd.png' is {kind}: put a picture"):
        index(folder)
    (folder / "a" / "odd.png").rmdir() if kind == "an empty folder" else (folder / "a" / "odd.png").unlink()
    (folder / "b" / "more").symlink_to(folder / "a")
    with pytest.raises(DataError, match="more' is a link"):
        index(folder)


@pytest.mark.parametrize("name", ["index.json", "train.labels.npy", "train.offsets.npy", "train.bin"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(bytes([file.read_bytes()[-1] ^ 1])),
        lambda file: file.write_bytes(file.read_bytes()[:-1] + bytes([file.read_bytes()[-1] ^ 1])),
        lambda file: file.unlink(),
        lambda file: (file.unlink(), os.mkfifo(file)),
        lambda file: (file.unlink(), file.symlink_to("/dev/zero")),
    ],
    ids=["short", "flipped", "gone", "a pipe", "endless"],
)
def test_a_damaged_index_is_said_and_built_again(tmp_path, name, damage):
    folder = class_folders(tmp_path / "x", {"a": 2, "b": 2})
    made = index(folder)
    labels, files = made.labels("train").tolist(), [made.files("train").name(row) for row in range(4)]
    damage(made.folder / name)
    with pytest.warns(OplWarning, match=f"{name} in the cache .* is damaged; it is built again"):
        again = index(folder)
    assert again.labels("train").tolist() == labels
    assert [again.files("train").name(row) for row in range(4)] == files
    assert index(folder).folder == made.folder
