"""The images of a user: listed in any layout, cleaned, split, decoded into the cache, and read back."""

import io
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from _image_files import encoded, parquet
from _shapes import draw, shape_folder
from opl.errors import DataError
from opl.experiments.data import UserImages, user_images
from opl.experiments.data.read import find
from opl.experiments.data.read.listing import Unreadable, list_files
from opl.experiments.data.user_images import (
    divide,
    list_target,
    measure_sample,
    remove_small_classes,
    sample,
    short_name,
)

pytestmark = pytest.mark.usefixtures("apart")


def listed(target, *columns):
    return list_target(str(target), *columns)


def rows(listing):
    names = map(listing.row_name, range(len(listing)))
    return list(zip(listing.parts, listing.labels["label"], names, strict=True))


def decoded(target, **settings):
    """Settings with the key of the images, what is known about them, and their arrays."""
    user_images._open.cache_clear()  # as in another process
    data = UserImages(root=str(target), **{"size": 16, **settings})
    facts = data.facts()
    folder, _ = user_images._open(replace(data, images=0, padding=0, flip=0.0))
    arrays = {name: np.load(folder / f"{name}.npy") for name in ("pixels", "labels", "parts")}
    return replace(data, key=facts.key), facts, arrays


# Listing


def test_class_folders_with_subfolders_hidden_and_other_files(tmp_path):
    shape_folder(tmp_path, {"circle": 2, "square": 2})
    shape_folder(tmp_path / "circle", {"square": 1})  # a nested folder is part of its class
    for name in ("circle/.hidden.png", "circle/notes.txt", "loose.png", "README.md"):
        (tmp_path / name).write_bytes(encoded(draw("circle", 99)))
    (tmp_path / "nothing").mkdir()
    (tmp_path / ".git").mkdir()
    listing = listed(tmp_path)
    assert rows(listing) == [
        ("", "circle", "circle/000.png"),
        ("", "circle", "circle/001.png"),
        ("", "circle", "circle/square/000.png"),
        ("", "square", "square/000.png"),
        ("", "square", "square/001.png"),
    ]
    assert listing.notes == (
        "Left out: 2 files that are not images (README.md, circle/notes.txt).",
        "Left out: 1 image outside of the class folders (loose.png).",
        "Left out: 1 class folder without images (nothing).",
    )
    assert list(listing.read([4])) == [tmp_path / "square/001.png"]


def test_folders_name_the_parts_in_any_spelling(tmp_path):
    for part, count in (("Train", 3), ("val", 2), ("testing", 1)):
        shape_folder(tmp_path / part, {"circle": count, "square": count})
    parts = listed(tmp_path).parts
    assert {part: parts.count(part) for part in set(parts)} == {"train": 6, "validation": 4, "test": 2}


def test_a_folder_that_only_wraps_the_class_folders_is_skipped(tmp_path):
    shape_folder(tmp_path / "archive/data", {"circle": 1, "square": 1})
    listing = listed(tmp_path)
    assert set(listing.labels["label"]) == {"circle", "square"}
    assert listing.notes == ("The classes are the folders in archive/data.",)


def test_a_linked_folder_is_left_out_and_a_linked_image_is_listed(tmp_path):
    shape_folder(tmp_path / "data", {"circle": 1, "square": 1})
    shape_folder(tmp_path, {"elsewhere": 1})
    (tmp_path / "data/circle/more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data/circle/link.png").symlink_to(tmp_path / "elsewhere/000.png")
    listing = listed(tmp_path / "data")
    assert [name for _, _, name in rows(listing)] == ["circle/000.png", "circle/link.png", "square/000.png"]
    assert "1 linked folder or special file (circle/more)" in listing.notes[0]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_csv_file_names_images_beside_it(tmp_path, delimiter):
    shape_folder(tmp_path / "files", {"circle": 2, "square": 1})
    lines = [
        ("Image", "Label", "split"),
        ("files/circle/000.png", "round", "train"),
        ("files/circle/001.png", "round", "TEST"),
        ("files/square/000.png", "angular", "val"),
        ("files/square/000.png", "", "val"),
        ("../secret.png", "angular", "train"),
        ("missing.png", "round", "train"),
    ]
    (tmp_path / "table.csv").write_text("\ufeff" + "\n".join(delimiter.join(line) for line in lines) + "\n")
    listing = listed(tmp_path / "table.csv")
    assert [row[:2] for row in rows(listing)[:3]] == [("train", "round"), ("test", "round"), ("validation", "angular")]
    assert "1 row of table.csv without a path or a label (line 5)" in listing.notes[0]
    sources = list(listing.read(range(5)))
    assert sources[0] == (tmp_path / "files/circle/000.png").resolve()
    for source, path in zip(sources[3:], ("../secret.png", "missing.png"), strict=True):
        assert source == Unreadable(f"'{path}' is not a regular file in the folder of the data set")


def test_csv_files_of_a_folder_name_the_parts(tmp_path):
    shape_folder(tmp_path, {"circle": 3})  # one folder of images is not a set of classes
    (tmp_path / "train.csv").write_text("path,class\ncircle/000.png,a\ncircle/001.png,b\n")
    (tmp_path / "test.csv").write_text("path,class\ncircle/002.png,a\n")
    (tmp_path / "sample.csv").write_text("id\n1\n")
    listing = listed(tmp_path)
    assert sorted(row[:2] for row in rows(listing)) == [("test", "a"), ("train", "a"), ("train", "b")]
    assert "sample.csv has no column" in listing.notes[0]


def test_a_csv_file_without_the_columns_or_with_two_of_them_is_refused(tmp_path):
    (tmp_path / "table.csv").write_text("picture,kind\na.png,b\n")
    with pytest.raises(DataError, match=r"no column 'image' or .*columns: 'picture' and 'kind'.*--image-column"):
        listed(tmp_path / "table.csv")
    assert rows(listed(tmp_path / "table.csv", "picture", "kind")) == [("", "b", "a.png")]
    (tmp_path / "table.csv").write_text("image,label,Label\na.png,b,c\n")
    with pytest.raises(DataError, match="2 columns 'label': rename or remove all but one"):
        listed(tmp_path / "table.csv")


def test_parquet_files_of_a_folder_or_one_of_them(tmp_path):
    images = [encoded(draw("circle", number)) for number in range(5)]
    parquet(tmp_path / "train-00000-of-00001.parquet", images[:3], [1, 0, 1], ["zebra", "ape"])
    parquet(tmp_path / "test-00000-of-00001.parquet", images[3:], [0, -1], ["zebra", "ape"])
    listing = listed(tmp_path)
    expected = [("train", "ape"), ("train", "zebra"), ("train", "ape"), ("test", "zebra")]
    assert [row[:2] for row in rows(listing)] == expected
    assert listing.names == {"label": ("zebra", "ape")}
    assert listing.notes == ("Left out: 1 row without a label (row 1 of 'test').",)
    assert list(listing.read([0, 2, 3])) == [images[0], images[2], images[3]]
    assert set(listed(tmp_path / "train-00000-of-00001.parquet").parts) == {""}


def test_class_names_are_used_where_parts_number_their_classes_differently(tmp_path):
    images = [encoded(draw("circle", number)) for number in range(4)]
    parquet(tmp_path / "train-00000-of-00001.parquet", images[:2], [0, 1], ["ape", "zebra"])
    parquet(tmp_path / "test-00000-of-00001.parquet", images[2:], [0, 1], ["zebra", "ape"])
    assert listed(tmp_path).labels["label"] == ["ape", "zebra", "zebra", "ape"]


def test_rows_of_a_parquet_file_may_lack_an_image_or_name_a_file(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    shape_folder(tmp_path, {"circle": 1})
    image = [None, {"bytes": None, "path": "circle/000.png"}, {"bytes": b"", "path": "../x.png"}]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pq.write_table(pa.table({"img": pa.array(image, kind), "class": ["a", "b", "c"]}), tmp_path / "a.parquet")
    none, named, outside = listed(tmp_path / "a.parquet").read([0, 1, 2])
    assert named == (tmp_path / "circle/000.png").read_bytes()
    assert "neither an image" in none.reason
    assert "not a regular file in the folder" in outside.reason


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("missing/folder/here", "there is no folder or file"),
        ("notes.txt", "neither a folder nor a CSV or Parquet file"),
        ("empty", "it is empty"),
        ("texts", "contains 'a.txt'"),
    ],
)
def test_targets_without_images_are_refused_with_the_layouts(tmp_path, name, expected):
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.txt").touch()
    with pytest.raises(DataError, match=expected) as caught:
        listed(tmp_path / name)
    assert "a folder of class folders" in str(caught.value)


def test_a_hub_id_is_downloaded_from_its_files_or_their_conversion(tmp_path, monkeypatch):
    import huggingface_hub

    requested = []

    def download(name, *, repo_type, revision, allow_patterns):
        requested.append((name, repo_type, revision))
        folder = tmp_path / ("converted" if revision else "plain")
        folder.mkdir(exist_ok=True)
        if revision:
            parquet(folder / "default/train/0000.parquet", [encoded(draw("circle", 0))], [0], ["round"])
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(find, "is_reachable", lambda: True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    listing = listed("someone/shapes")
    assert (listing.where, listing.labels["label"]) == ("Hub someone/shapes", ["round"])
    assert requested[:2] == [
        ("someone/shapes", "dataset", None),
        ("someone/shapes", "dataset", "refs/convert/parquet"),
    ]


def test_a_hub_id_without_network_library_or_data_is_refused_in_one_sentence(monkeypatch):
    import huggingface_hub

    with pytest.raises(DataError, match=r"no folder 'someone/shapes', and the Hub.*network"):
        listed("someone/shapes")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(find, "is_reachable", lambda: True)

    def refuse(*_, **__):
        raise OSError("404: Repository Not Found")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(DataError, match=r"'someone/shapes' cannot be used \(404: Repository Not Found\)"):
        listed("someone/shapes")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(DataError, match=r"huggingface_hub"):
        listed("someone/shapes")


def test_the_short_name_is_that_of_the_folder_file_or_hub_id(tmp_path):
    (tmp_path / "v1.2 final").mkdir()
    assert short_name(str(tmp_path / "v1.2 final")) == "v1-2-final"
    assert short_name("photos.csv") == "photos"
    assert short_name("someone/shapes") == "someone-shapes"
    assert short_name("/") == "images"


# Samples and splits


@given(st.lists(st.integers(0, 4), min_size=1, max_size=200), st.integers(0, 3))
def test_a_random_split_has_every_class_in_every_part_and_near_its_share(labels, seed):
    labels = np.repeat(np.array(labels, np.int64), 3)  # at least three images per class
    parts, sentence = divide([""] * len(labels), labels, seed)
    for label in np.unique(labels):
        counts = np.bincount(parts[labels == label], minlength=3)
        whole = counts.sum()
        assert counts.min() >= 1
        assert abs(counts[2] - 0.2 * whole) <= 1
        assert abs(counts[1] - 0.1 * whole) <= 1
    assert (divide([""] * len(labels), labels, seed)[0] == parts).all()
    assert f"seed {seed}" in sentence


@pytest.mark.parametrize(
    ("given_parts", "tested", "moved"),
    [
        (("train", "validation", "test"), "test", 0),
        (("train", "test"), "test", 2),
        (("train", "validation"), "validation", 2),
    ],
)
def test_given_parts_are_kept_and_a_missing_validation_part_is_taken_from_training(given_parts, tested, moved):
    given_rows = [part for part in given_parts for _ in range(20)]
    labels = np.array([0, 1] * (len(given_rows) // 2), np.int64)
    parts, _ = divide(given_rows, labels, 0)
    assert {given_rows[row] for row in np.flatnonzero(parts == 2)} == {tested}
    assert np.count_nonzero(parts == 2) == 20
    assert np.count_nonzero(parts == 0) == 20 - moved


def test_a_training_part_alone_is_split_like_data_without_parts():
    labels = np.repeat(np.arange(2, dtype=np.int64), 10)
    assert np.bincount(divide(["train"] * 20, labels, 0)[0]).tolist() == [14, 2, 4]


def test_a_class_without_training_images_is_left_out():
    rows = [("train", "a")] * 4 + [("test", "b")] * 3 + [("test", "a")]
    listing = list_files("", [(part, label, b"") for part, label in rows])
    kept, notes = remove_small_classes(listing, range(8))
    assert kept == [0, 1, 2, 3, 7]
    assert notes == ["Left out: 1 class without training images (b)."]


def test_a_sample_keeps_at_least_three_images_of_a_small_class():
    groups = [("", "large")] * 1000 + [("", "small")] * 4
    chosen = sample(groups, 100, 0)
    assert sum(groups[row][1] == "small" for row in chosen) == 3
    assert chosen == sorted(chosen)
    assert sample(groups, 0, 0) == list(range(1004)) == sample(groups, 5000, 0)


# Decoding


def test_pixels_labels_and_statistics_equal_the_files(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 10, "square": 10})
    data, facts, arrays = decoded(tmp_path / "a")
    files = [*sorted((tmp_path / "a/circle").iterdir()), *sorted((tmp_path / "a/square").iterdir())]
    expected = np.stack([np.asarray(Image.open(io.BytesIO(file.read_bytes()), formats=["PNG"])) for file in files])
    np.testing.assert_array_equal(arrays["pixels"], expected.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(arrays["labels"], [0] * 10 + [1] * 10)
    train = expected[arrays["parts"] == 0] / 255
    np.testing.assert_allclose(data.mean, train.mean((0, 1, 2)), atol=1e-4)
    np.testing.assert_allclose(data.std, train.std((0, 1, 2)), atol=1e-4)
    assert facts.counts == ((7, 7), (1, 1), (2, 2))
    assert "no test part: 20% of every class" in facts.notes[0]
    splits = data.load(3)
    assert [part.rows.tolist() for part in splits[:3]] == [
        np.flatnonzero(arrays["parts"] == part).tolist() for part in range(3)
    ]
    assert splits.class_names == ("circle", "square")
    pixels, labels = splits.test.take(torch.arange(4))
    assert (pixels.numpy() == arrays["pixels"][arrays["parts"] == 2]).all()
    assert labels.tolist() == [0, 0, 1, 1]


def test_fewer_training_images_keep_the_fractions_of_the_classes_for_all_seeds(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 20, "square": 10})
    data = replace(decoded(tmp_path / "a")[0], images=6)
    first, second = data.load(0), data.load(1)
    assert first.train.labels[first.train.rows].bincount().tolist() == [4, 2]
    assert len(first.val) == 1
    assert first.train.rows.tolist() == second.train.rows.tolist()
    assert (len(data.augment), replace(data, padding=0, flip=0.0).augment) == (2, ())


def test_unreadable_and_truncated_images_are_listed_and_left_out(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 6, "square": 6})
    whole = encoded(draw("circle", 50))
    (tmp_path / "a/circle/cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "a/circle/end.png").write_bytes(whole[:-12])  # all pixels are there, but not the end of the file
    (tmp_path / "a/circle/text.jpg").write_text("not an image")
    (tmp_path / "a/square/zero.png").write_bytes(b"")
    _, facts, _ = decoded(tmp_path / "a")
    assert sum(facts.sizes) == 12
    names = ["circle/cut.png", "circle/end.png", "circle/text.jpg", "square/zero.png"]
    assert [line.partition(":")[0] for line in facts.left_out] == names
    assert any("4 unreadable images (circle/cut.png, circle/end.png" in note for note in facts.notes)


def test_a_folder_without_a_single_image_is_refused(tmp_path):
    for name in ("circle", "square"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.png").write_text("not an image")
    with pytest.raises(DataError, match=r"none of the 2 files .*circle/a.png: an image of 12 bytes is none of PNG"):
        measure_sample(listed(tmp_path))
    with pytest.raises(DataError, match="none of the 2 files"):
        decoded(tmp_path)


def test_copies_are_never_in_two_parts_and_contradictory_copies_are_left_out(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 20, "square": 20})
    for number in range(10):
        original = (tmp_path / f"a/circle/{number:03d}.png").read_bytes()
        (tmp_path / f"a/circle/copy-{number}.png").write_bytes(original)
    (tmp_path / "a/circle/resaved.bmp").write_bytes(encoded(draw("circle", 12), "BMP"))
    (tmp_path / "a/square/wrong.png").write_bytes((tmp_path / "a/circle/015.png").read_bytes())
    _, facts, arrays = decoded(tmp_path / "a")
    assert "Left out: 11 duplicate images, so that no image is in two parts." in facts.notes
    assert "Left out: 2 images with duplicates that have another label." in facts.notes
    assert facts.per_class == (19, 20)
    pixels = [row.tobytes() for row in arrays["pixels"]]
    assert len(set(pixels)) == len(pixels)


def test_the_copy_in_the_test_part_is_kept(tmp_path):
    shape_folder(tmp_path / "a/train", {"circle": 8, "square": 8})
    shape_folder(tmp_path / "a/test", {"circle": 2, "square": 0})  # the first two circles again
    (tmp_path / "a/test/square/new.png").write_bytes(encoded(draw("square", 77)))
    _, facts, _ = decoded(tmp_path / "a")
    assert facts.counts[2] == (2, 1)
    assert facts.per_class == (8, 9)


def test_small_classes_are_left_out_by_name_and_a_single_class_is_refused(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 4, "square": 3, "stripe": 2})
    _, facts, _ = decoded(tmp_path / "a")
    assert facts.class_names == ("circle", "square")
    assert facts.counts == ((2, 1), (1, 1), (1, 1))
    assert "Left out: 1 class with fewer than 3 images ('stripe' (2))." in facts.notes
    shape_folder(tmp_path / "b", {"circle": 9, "square": 2})
    with pytest.raises(DataError, match=r"has only one class, 'circle'.*two are needed.*'square' \(2\)"):
        decoded(tmp_path / "b")


def test_gray_images_have_one_channel_unless_color_is_needed_or_one_image_has_color(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 4, "square": 4}, mode="L")
    data, facts, arrays = decoded(tmp_path / "a")
    assert (data.channels, arrays["pixels"].shape[1]) == (1, 1)
    assert any("gray" in note for note in facts.notes)
    assert decoded(tmp_path / "a", color=True)[1].channels == 3
    (tmp_path / "a/circle/color.png").write_bytes(encoded(draw("circle", 9)))
    assert decoded(tmp_path / "a")[1].channels == 3


def test_the_central_square_of_images_of_several_sizes_is_resized(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 4, "square": 4})
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = 200
    (tmp_path / "a/circle/wide.png").write_bytes(encoded(Image.fromarray(wide)))
    _, facts, arrays = decoded(tmp_path / "a")
    assert (arrays["pixels"][4][:, :, 1:-1] == 200).all()  # the filter blends the border with the outside
    assert any("different sizes, from 16 x 16 to 60 x 20" in note for note in facts.notes)


def test_a_sample_takes_the_same_fraction_of_every_class_and_depends_only_on_the_seed(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 30, "square": 60})
    _, facts, arrays = decoded(tmp_path / "a", most=30, name="first")
    assert facts.per_class == (10, 20)
    assert any("30 of 90 images are used" in note for note in facts.notes)
    again = decoded(tmp_path / "a", most=30, name="again")[2]
    other = decoded(tmp_path / "a", most=30, split_seed=1)[2]
    assert (again["pixels"] == arrays["pixels"]).all()
    assert (again["parts"] == arrays["parts"]).all()
    assert not (other["pixels"] == arrays["pixels"]).all()


def test_replaced_images_are_noticed_even_with_the_same_size_and_time(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 3, "square": 3})
    file = tmp_path / "a/circle/000.png"
    file.write_bytes(encoded(draw("circle", 70), "BMP"))
    data, facts, arrays = decoded(tmp_path / "a")
    stat = file.stat()
    file.write_bytes(encoded(draw("circle", 71), "BMP"))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    user_images._open.cache_clear()
    with pytest.raises(DataError, match="differ from the images of this run"):
        data.load(0)
    _, new_facts, new_arrays = decoded(tmp_path / "a")
    assert new_facts.key != facts.key
    assert not (new_arrays["pixels"] == arrays["pixels"]).all()
    assert decoded(tmp_path / "a", size=8)[1].key != new_facts.key
