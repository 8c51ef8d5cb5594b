"""Data sets of large images: your folder, the Hub's files, ImageNet, and small data sets as JPEG files."""

import os

import pytest
import torch

from _image_files import class_folders, encoded, flat, number_of, parquet
from opl.errors import DataError, OptionError
from opl.experiments.data import ImageFolder, ImageNet, JpegCopies

pytestmark = pytest.mark.usefixtures("apart")


def counts(part, classes=2) -> list[int]:
    return part.labels[part.rows].bincount(minlength=classes).tolist()


def test_images_without_splits_are_split_class_by_class(tmp_path):
    root = class_folders(tmp_path / "x", {"a": 20, "b": 40})
    splits = ImageFolder(root=str(root), test=0.25, val=0.2, size=8).load(0)
    assert (counts(splits.train), counts(splits.val), counts(splits.test)) == ([12, 24], [3, 6], [5, 10])
    rows = torch.cat([part.rows for part in splits[:3]])
    assert rows.sort().values.tolist() == list(range(60))
    again, other = (ImageFolder(root=str(root), split_seed=-1).load(seed).test.rows for seed in (0, 1))
    assert not again.equal(other)


def test_given_splits_are_kept(tmp_path):
    for split, count in (("train", 10), ("val", 4), ("test", 6)):
        class_folders(tmp_path / "x" / split, {"a": count, "b": count})
    splits = ImageFolder(root=str(tmp_path / "x"), size=8, workers=0).load(0)
    assert [len(part) for part in splits[:3]] == [20, 8, 12]
    pixels, labels = splits.test.take(torch.tensor([0, 7]))
    assert number_of(pixels) == [0, 7]
    assert labels.tolist() == [0, 1]


def test_a_single_further_split_is_the_test_set(tmp_path):
    class_folders(tmp_path / "x" / "train", {"a": 10, "b": 10})
    class_folders(tmp_path / "x" / "validation", {"a": 3, "b": 3})
    splits = ImageFolder(root=str(tmp_path / "x"), size=8, val=0.2).load(0)
    assert [len(part) for part in splits[:3]] == [16, 4, 6]


def test_classes_channels_mean_and_std_are_computed_from_the_files(tmp_path):
    data = ImageFolder(root=str(class_folders(tmp_path / "x", {"a": 4, "b": 4, "c": 4})))
    assert (data.num_classes, data.channels) == (3, 3)
    assert data.mean == pytest.approx((5.5 / 255, 0.0, 128 / 255), abs=1e-4)
    fewer = ImageFolder(root=data.root, classes=2, per_class=2, test=0.0, val=0.0)
    assert fewer.num_classes == 2
    assert counts(fewer.load(0).train) == [2, 2]
    assert fewer.load(0).class_names == ("a", "b")


def test_a_folder_in_opl_data_is_located_by_name(shelf):
    class_folders(shelf / "birds", {"a": 4, "b": 4})
    assert ImageFolder(name="birds").num_classes == 2


def test_files_of_the_hub_are_read_from_a_folder_or_by_their_id(tmp_path):
    images = [encoded(flat(number), "JPEG") for number in range(12)]
    parquet(tmp_path / "x/data/train-00000-of-00001.parquet", images, [0, 1, 2] * 4, ["red", "green", "blue"])
    splits = ImageFolder(root=str(tmp_path / "x"), size=8, test=0.25, val=0.0).load(0)
    assert splits.class_names == ("red", "green", "blue")
    assert counts(splits.test, 3) == [1, 1, 1]
    snapshot = tmp_path / "hf/hub/datasets--owner--colors/snapshots/0a1b"
    parquet(snapshot / "train-00000-of-00001.parquet", images, [0, 1, 2] * 4, ["red", "green", "blue"])
    assert ImageFolder(hub="owner/colors", size=8).load(0).source == "Hub owner/colors"
    with pytest.raises(DataError, match="no column 'picture'"):
        ImageFolder(hub="owner/colors", image_column="picture").load(0)


def test_imagenet_is_tested_on_its_validation_images(tmp_path):
    class_folders(tmp_path / "x" / "train", {"n01": 4, "n02": 4})
    class_folders(tmp_path / "x" / "val", {"n01": 2, "n02": 2})
    data = ImageNet(root=str(tmp_path / "x"), classes=2)
    splits = data.load(0)
    assert [len(part) for part in splits[:3]] == [8, 0, 4]
    assert (data.mean, data.num_classes, ImageNet().num_classes) == ((0.485, 0.456, 0.406), 2, 1000)


@pytest.mark.parametrize(
    ("data", "kind", "expected"),
    [
        (ImageFolder(), DataError, "images needs a folder of images: pass the folder with --data.root, or the id"),
        (ImageFolder(root="nowhere"), DataError, "there is no folder 'nowhere'"),
        (ImageNet(), DataError, "there is no imagenet on this machine"),
        (ImageFolder(root="x", crop=0.0), OptionError, "data.crop is 0.0 but must be a number above 0 and at most 1"),
        (ImageFolder(root="x", size=0), OptionError, "data.size is 0 but must be a whole number between 1"),
        (ImageFolder(root="x", val=1.0), OptionError, "data.val is 1.0 but must be a number of at least 0 and below 1"),
        (ImageFolder(root="x", classes=7), OptionError, "classes=7 of images is invalid"),
        (JpegCopies(of="pac"), OptionError, "data.of 'pac' does not exist: did you mean 'pacs'"),
        (JpegCopies(side=4), OptionError, "data.side is 4 but must be a whole number between 8"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unusable_data_and_settings_are_refused_with_the_cure(tmp_path, monkeypatch, data, kind, expected):
    class_folders(tmp_path / "x", {"a": 4, "b": 4})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=expected):
        data.load(0)


def test_synthetic_jpegs_differ_in_size_and_are_written_once(tmp_path):
    data = JpegCopies(classes=3, size=16, workers=0)
    splits = data.load(0)
    assert [counts(part, 3) for part in splits[:3]] == [[18] * 3, [2] * 3, [8] * 3]
    files = sorted((tmp_path / "cache").rglob("*.jpg"))
    assert len(files) == 3 * 28
    before = [os.stat(file).st_mtime_ns for file in files]
    from PIL import Image

    assert len({Image.open(file, formats=["JPEG"]).size for file in files}) == 12
    JpegCopies(classes=3, size=16, workers=0).load(0)
    assert [os.stat(file).st_mtime_ns for file in sorted((tmp_path / "cache").rglob("*.jpg"))] == before
