"""Pictures of a user are found in any layout, and what was found instead is said."""

import sys

import pytest

from _pictures import encoded, parquet
from _shapes import draw, shape_folder
from opl.errors import DataError
from opl.experiments.data.read import hub
from opl.experiments.tryout.location import list_pictures, short_name

pytestmark = pytest.mark.usefixtures("apart")


def test_class_folders_with_folders_below_hidden_and_other_files(tmp_path):
    shape_folder(tmp_path, {"circle": 2, "square": 2})
    shape_folder(tmp_path / "circle", {"square": 1})  # a nested folder is part of its class
    for name in ("circle/.hidden.png", "circle/notes.txt", "loose.png", "README.md"):
        (tmp_path / name).write_bytes(encoded(draw("circle", 99)))
    (tmp_path / "nothing").mkdir()
    (tmp_path / ".git").mkdir()
    found = list_pictures(str(tmp_path))
    assert [entry[1:] for entry in found.entries] == [
        ("circle", "circle/000.png"),
        ("circle", "circle/001.png"),
        ("circle", "circle/square/000.png"),
        ("square", "square/000.png"),
        ("square", "square/001.png"),
    ]
    assert found.layout == "class folders"
    said = " ".join(found.notes)
    for word in (
        "2 files without",
        "README.md",
        "circle/notes.txt",
        "1 picture in no class",
        "loose.png",
        "1 class folder",
        "nothing",
    ):
        assert word in said
    assert "hidden" not in said
    assert list(found.read([4])) == [(tmp_path / "square/001.png").read_bytes()]


def test_parts_are_told_by_their_folders_whatever_they_are_called(tmp_path):
    for part, count in (("Train", 3), ("val", 2), ("testing", 1)):
        shape_folder(tmp_path / part, {"circle": count, "square": count})
    parts = [entry.part for entry in list_pictures(str(tmp_path)).entries]
    assert {part: parts.count(part) for part in set(parts)} == {"train": 6, "validation": 4, "test": 2}


def test_a_folder_that_only_wraps_the_class_folders_is_opened(tmp_path):
    shape_folder(tmp_path / "archive/data", {"circle": 1, "square": 1})
    found = list_pictures(str(tmp_path))
    assert {entry.label for entry in found.entries} == {"circle", "square"}
    assert found.notes == ("The classes are the folders in archive/data.",)


def test_a_linked_folder_is_not_followed_and_a_linked_picture_is_read(tmp_path):
    shape_folder(tmp_path / "data", {"circle": 1, "square": 1})
    shape_folder(tmp_path, {"elsewhere": 1})
    (tmp_path / "data/circle/more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data/circle/link.png").symlink_to(tmp_path / "elsewhere/000.png")
    found = list_pictures(str(tmp_path / "data"))
    assert [entry.name for entry in found.entries] == ["circle/000.png", "circle/link.png", "square/000.png"]
    assert "linked folder (circle/more)" in found.notes[0]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_csv_file_names_pictures_beside_it(tmp_path, delimiter):
    shape_folder(tmp_path / "pictures", {"circle": 2, "square": 1})
    rows = [
        ("Image", "Label", "split"),
        ("pictures/circle/000.png", "round", "train"),
        ("pictures/circle/001.png", "round", "TEST"),
        ("pictures/square/000.png", "angular", "val"),
        ("pictures/square/000.png", "", "val"),
        ("../secret.png", "angular", "train"),
        ("missing.png", "round", "train"),
    ]
    (tmp_path / "table.csv").write_text("\ufeff" + "\n".join(delimiter.join(row) for row in rows) + "\n")
    shape_folder(tmp_path.parent, {"elsewhere": 1})
    found = list_pictures(str(tmp_path / "table.csv"))
    assert [entry[:2] for entry in found.entries[:3]] == [
        ("train", "round"),
        ("test", "round"),
        ("validation", "angular"),
    ]
    assert "1 row of table.csv without a path or a label (line 5)" in found.notes[0]
    data = list(found.read(range(5)))
    assert data[0] == (tmp_path / "pictures/circle/000.png").read_bytes()
    assert data[3] == "it is outside of the folder of the CSV file"
    assert data[4] == "No such file or directory"


def test_a_folder_with_pictures_and_csv_files_takes_the_parts_from_their_names(tmp_path):
    shape_folder(tmp_path, {"circle": 3})  # one folder of pictures is no set of classes
    (tmp_path / "train.csv").write_text("path,class\ncircle/000.png,a\ncircle/001.png,b\n")
    (tmp_path / "test.csv").write_text("path,class\ncircle/002.png,a\n")
    (tmp_path / "sample.csv").write_text("id\n1\n")
    found = list_pictures(str(tmp_path))
    assert sorted(entry[:2] for entry in found.entries) == [("test", "a"), ("train", "a"), ("train", "b")]
    assert "sample.csv has no column" in found.notes[0]


def test_a_csv_file_without_the_columns_names_those_it_has(tmp_path):
    (tmp_path / "table.csv").write_text("picture,kind\na.png,b\n")
    with pytest.raises(DataError, match=r"no column 'image' or .*there are 'picture', 'kind'.*--image-column"):
        list_pictures(str(tmp_path / "table.csv"))
    found = list_pictures(str(tmp_path / "table.csv"), "picture", "kind")
    assert found.entries == (("", "b", "a.png"),)


def test_parquet_files_of_a_folder_or_one_of_them(tmp_path):
    pictures = [encoded(draw("circle", number)) for number in range(5)]
    parquet(tmp_path / "train-00000-of-00001.parquet", pictures[:3], [1, 0, 1], ["zebra", "ape"])
    parquet(tmp_path / "test-00000-of-00001.parquet", pictures[3:], [0, -1], ["zebra", "ape"])
    found = list_pictures(str(tmp_path))
    assert [entry[:2] for entry in found.entries] == [
        ("train", "ape"), ("train", "zebra"), ("train", "ape"), ("test", "zebra"),
    ]  # fmt: skip
    assert found.classes == ("zebra", "ape")
    assert "1 row without a label" in found.notes[0]
    assert list(found.read([0, 2, 3])) == [pictures[0], pictures[2], pictures[3]]
    single = list_pictures(str(tmp_path / "train-00000-of-00001.parquet"))
    assert {entry.part for entry in single.entries} == {""}


def test_rows_of_a_parquet_file_may_lack_a_picture_or_name_a_file(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    shape_folder(tmp_path, {"circle": 1})
    image = [None, {"bytes": None, "path": "circle/000.png"}, {"bytes": b"", "path": "../x.png"}]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pq.write_table(pa.table({"img": pa.array(image, kind), "class": ["a", "b", "c"]}), tmp_path / "a.parquet")
    none, named, outside = list_pictures(str(tmp_path / "a.parquet")).read([0, 1, 2])
    assert named == (tmp_path / "circle/000.png").read_bytes()
    assert "neither a picture" in none
    assert "no regular file in the folder" in outside


def test_a_damaged_parquet_file_is_an_error_in_one_sentence(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no Parquet")
    with pytest.raises(DataError, match=r"cannot be read .*check that its files are complete"):
        list_pictures(str(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing/folder/here", "there is no folder or file"),
        ("file.txt", "neither a folder nor a CSV or Parquet file"),
        ("empty", "it is empty"),
        ("texts", "there are 'a.txt'"),
    ],
)
def test_what_is_no_set_of_pictures_is_refused_with_what_could_be_given(tmp_path, name, words):
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.txt").write_text("x")
    with pytest.raises(DataError, match=words) as error:
        list_pictures(str(tmp_path / name))
    assert "class folders" in str(error.value)


def test_a_hub_id_is_downloaded_also_from_the_branch_of_converted_files(tmp_path, monkeypatch):
    import huggingface_hub

    asked = []

    def download(name, *, repo_type, revision, allow_patterns):
        asked.append((name, repo_type, revision))
        folder = tmp_path / ("converted" if revision else "plain")
        folder.mkdir(exist_ok=True)
        if revision:
            parquet(folder / "default/train/0000.parquet", [encoded(draw("circle", 0))], [0], ["round"])
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(hub, "is_reachable", lambda: True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    found = list_pictures("someone/shapes")
    assert (found.where, found.entries[0].label) == ("Hub someone/shapes", "round")
    assert asked[:2] == [("someone/shapes", "dataset", None), ("someone/shapes", "dataset", "refs/convert/parquet")]


def test_a_hub_id_without_network_library_or_data_is_one_sentence(monkeypatch):
    import huggingface_hub

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match=r"no folder 'someone/shapes' here.*network"):
        list_pictures("someone/shapes")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(hub, "is_reachable", lambda: True)

    def refuse(*_, **__):
        raise OSError("404: Repository Not Found")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(DataError, match=r"'someone/shapes' cannot be used \(404: Repository Not Found\)"):
        list_pictures("someone/shapes")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(DataError, match=r"huggingface_hub"):
        list_pictures("someone/shapes")


def test_the_name_of_a_data_set_is_that_of_its_folder_file_or_hub_id(tmp_path):
    (tmp_path / "v1.2 final").mkdir()
    assert short_name(str(tmp_path / "v1.2 final")) == "v1-2-final"
    assert short_name("photos.csv") == "photos"
    assert short_name("someone/shapes") == "someone-shapes"
    assert short_name("/") == "images"
