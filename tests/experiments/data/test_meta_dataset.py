"""Sources of Meta-Dataset from folders, Parquet and HDF5 files: the same images, classes and splits."""

import json
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from _image_files import png
from opl.errors import DataError, OptionError
from opl.experiments.data import CATALOG, MetaSource, SyntheticSource
from opl.experiments.data.episode_sampling import Hierarchy
from opl.experiments.data.meta_dataset import OFFICIAL, built_in, leaf_sets, load_specification, parse_specification

CLASSES = [f"{group}/{number}" for group in "ab" for number in range(5)]
SPECIFICATION = {
    "splits": {"train": CLASSES[:4], "val": CLASSES[4:5], "test": CLASSES[5:]},
    "groups": {"a": CLASSES[:5], "b": CLASSES[5:]},
}
pytestmark = pytest.mark.usefixtures("apart")


def pixels(label, number):
    """An image of 8 x 8 pixels that encodes its class and number."""
    image = np.full((8, 8, 3), 20 * label + number, np.uint8)
    image[:4] += 3
    return image


def every_image(per_class=6):
    return [(name, number, pixels(label, number)) for label, name in enumerate(CLASSES) for number in range(per_class)]


def in_folders(root):
    for name, number, array in every_image():
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / f"{number}.png").write_bytes(png(array))


def in_parquet(root):
    rows = every_image()
    order = np.random.default_rng(0).permutation(len(rows))
    table = {
        "image": [{"bytes": png(rows[at][2]), "path": None} for at in order],
        "group": [rows[at][0].partition("/")[0] for at in order],
        "label": [rows[at][0].partition("/")[2] for at in order],
    }
    root.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(table), root / "train-00000-of-00001.parquet")


def in_hdf5(root, as_arrays=True):
    h5py = pytest.importorskip("h5py", reason="HDF5 files are read by h5py")
    root.mkdir(parents=True, exist_ok=True)
    for name in CLASSES:
        with h5py.File(root / f"{CLASSES.index(name)}.h5", "w") as file:
            for other, number, array in every_image():
                if other == name:
                    data = array if as_arrays else np.frombuffer(png(array), np.uint8)
                    file.create_group(str(number)).create_dataset("image", data=data)


def source(root, **changes):
    return MetaSource(**{"source": "letters", "size": 8, "root": str(root), **changes})


def described(root, content=SPECIFICATION):
    (root / "specification.json").write_text(json.dumps(content))


@pytest.mark.parametrize("write", [in_folders, in_parquet, in_hdf5, lambda root: in_hdf5(root, as_arrays=False)])
def test_every_format_gives_the_same_classes_and_images(tmp_path, write):
    root = tmp_path / "letters"
    write(root)
    content = dict(SPECIFICATION)
    if write is in_parquet:
        content["columns"] = ["group", "label"]
    if write not in (in_folders, in_parquet):  # one file per class, named by a number
        content = {
            "superclasses_per_split": {"TRAIN": 4, "VALID": 1, "TEST": 1},
            "classes_per_superclass": dict(zip("012345", [1, 1, 1, 1, 1, 5], strict=True)),
        }
    described(root, content)
    data = source(root)
    assert data.num_classes == 4
    splits = data.load(0)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (24, 0, 0)
    for part, first in ((splits.train, 0), (data.novel_classes("val")[0], 4), (data.novel_classes("test")[0], 5)):
        images, labels = part.take(torch.arange(len(part)))
        for image, label in zip(images, labels.tolist(), strict=True):
            number = int(image[0, 7, 7]) - 20 * (label + first)
            assert 0 <= number < 6
            assert torch.equal(image.permute(1, 2, 0), torch.from_numpy(pixels(label + first, number)))
        assert (labels.bincount() == 6).all()
    assert data.hierarchy("test") == Hierarchy((tuple(range(5)),))


def test_images_are_resized_inverted_held_out_and_limited(tmp_path):
    root = tmp_path / "letters"
    in_folders(root)
    described(root, {**SPECIFICATION, "invert": True})
    data = source(root, size=4, holdout=2, per_class=3)
    splits = data.load(0)
    assert (len(splits.train), len(splits.test)) == (12, 8)
    assert not set(splits.train.rows.tolist()) & set(splits.test.rows.tolist())
    images, labels = splits.train.take(torch.arange(12))
    assert images.shape == (12, 3, 4, 4)
    assert (
        (255 - images[:, 0, 3, 3].int() - 20 * labels).clamp(0, 5).equal(255 - images[:, 0, 3, 3].int() - 20 * labels)
    )
    few = source(root, size=8, most=2)
    values = sorted({255 - int(image[0, 7, 7]) for image in few.load(0).train.take(torch.arange(8))[0]})
    assert values == [20 * label + number for label in range(4) for number in (0, 3)]  # evenly spread over six
    with pytest.raises(OptionError, match="holdout=6 of 6"):
        source(root, holdout=6).load(0)


def test_sources_are_located_in_the_folder_of_meta_dataset_or_by_a_specification_elsewhere(tmp_path, shelf):
    in_folders(shelf / "meta-dataset" / "letters")
    described(shelf / "meta-dataset" / "letters")
    data = MetaSource(source="letters", size=8)
    assert data.num_classes == 4
    assert len(data.load(0).train) == 24
    other = tmp_path / "mine.json"
    other.write_text(json.dumps({"splits": {"train": CLASSES[5:7], "test": CLASSES[:5]}}))
    changed = replace(data, specification=str(other))
    assert changed.num_classes == 2
    assert changed.hierarchy("test") is None
    assert changed.of("letters") == data
    assert len(changed.novel_classes()[1]) == 5


def test_missing_classes_data_and_columns_are_named(tmp_path):
    root = tmp_path / "letters"
    in_parquet(root)
    described(root, {"splits": {"train": ["0", "1", "q"]}})
    with pytest.raises(DataError, match=r"no images of the class 'q' .*1 of 3 are missing"):
        source(root).load(0)
    described(root, {**SPECIFICATION, "columns": ["domain", "label"]})
    with pytest.raises(DataError, match="no column 'domain'"):
        source(root).load(0)
    with pytest.raises(
        DataError, match=r"no specification of 'aircraft': put .*dataset_spec.json.*meta-dataset/aircraft"
    ):
        MetaSource(source="aircraft").num_classes  # noqa: B018
    with pytest.raises(DataError, match="there is no mnist on this machine"):
        MetaSource(source="mnist", size=8).novel_classes()
    with pytest.raises(OptionError, match="0 training classes"):
        MetaSource(source="mnist", size=8).load(0)


def test_an_hdf5_file_cannot_reach_other_files(tmp_path):
    h5py = pytest.importorskip("h5py", reason="HDF5 files are read by h5py")
    for number, spoil in enumerate(
        (
            lambda group, other: group.__setitem__("image", h5py.ExternalLink(str(other), "/secret")),
            lambda group, other: group.create_dataset(
                "image", (4, 4, 3), np.uint8, external=[(str(other), 0, h5py.h5f.UNLIMITED)]
            ),
            lambda group, other: group.create_dataset("image", data=np.zeros((4, 4, 3))),
            lambda group, other: group.create_group("image"),
        )
    ):
        root = tmp_path / f"set-{number}" / "letters"
        in_hdf5(root)
        other = tmp_path / f"other-{number}.h5"
        with h5py.File(other, "w") as file:
            file.create_dataset("secret", data=np.zeros((4, 4, 3), np.uint8))
        with h5py.File(root / "0.h5", "a") as file:
            del file["3/image"]
            spoil(file["3"], other)
        described(root, {"splits": {"train": ["0", "1"]}})
        with pytest.raises(DataError, match=r"0.h5 (has|contains no image) .*'3'"):
            source(root).load(0)


def test_without_h5py_the_error_has_the_command_to_install_it(tmp_path, monkeypatch):
    root = tmp_path / "letters"
    root.mkdir()
    (root / "0.h5").write_bytes(b"")
    (root / "1.h5").write_bytes(b"")
    described(root, {"splits": {"train": ["0", "1"]}})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(DataError, match=r"needs h5py: pip install .*\[hdf5\]"):
        source(root).load(0)


def test_synthetic_sources_differ_by_name_and_keep_their_classes():
    one, other = (SyntheticSource(source=name, size=8) for name in ("omniglot-8", "mnist"))
    assert not torch.equal(one.load(0).train.pixels, other.load(0).train.pixels)
    assert torch.equal(one.load(0).train.pixels, one.load(5).train.pixels)
    assert one.of("mnist") == other
    part, names = one.novel_classes()
    counts = part.labels.bincount()
    assert len(names) == len(counts) == 12
    assert len(set(counts.tolist())) > 3
    assert [len(classes) for classes in one.hierarchy("test").sets] == [6, 6]
    assert other.hierarchy("test") is None
    assert not set(names) & set(one.load(0).class_names)


# Specifications


def written(folder, content):
    file = folder / "specification.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


OURS = {"splits": {"train": ["a/1", "a/2"], "val": [], "test": ["b/1"]}, "groups": {"a": ["a/1", "a/2"], "b": ["b/1"]}}


def test_our_format_names_classes_by_part_and_groups(tmp_path):
    result = load_specification("letters", written(tmp_path, {**OURS, "data": "omniglot", "invert": True}))
    assert result.classes == ("a/1", "a/2", "b/1")
    assert (result.name, result.data, result.files, result.invert, result.whole) == (
        "letters", "omniglot", ("train",), True, False,
    )  # fmt: skip
    assert result.sets_of("train") == ((0, 1),)
    assert result.sets_of("test") == ((0,),)


def test_the_classes_below_every_node_of_a_graph_are_given_once():
    children = {
        "all": ["beast", "tool"],
        "beast": ["cat", "bird"],
        "bird": ["owl", "tit"],
        "tool": ["saw"],
        "top": ["all"],
    }
    splits = {"train": ["cat", "owl", "tit"], "test": ["saw"]}
    result = parse_specification({"splits": splits, "children": children}, "graph")
    assert result.whole
    assert result.sets_of("train") == ((0, 1, 2), (1, 2))  # "all", "beast" and "top" are the same in this part
    assert result.sets_of("test") == ((0,),)
    with pytest.raises(ValueError, match="below itself"):
        leaf_sets({"a": ["b"], "b": ["a"]}, {"c"})


def test_specifications_in_the_format_of_meta_dataset_are_read():
    flat = {
        "name": "aircraft", "classes_per_split": {"TRAIN": 2, "VALID": 1, "TEST": 1},
        "class_names": {"0": "A340", "1": "A318", "2": "F-16A/B", "3": "C-130"}, "__class__": "DatasetSpecification",
    }  # fmt: skip
    result = parse_specification(flat, "planes")
    assert result.splits == {"train": ("0", "1"), "val": ("2",), "test": ("3",)}
    assert result.aliases["2"] == "F-16A/B"
    assert result.groups == ()
    superclasses = {
        "superclasses_per_split": {"TRAIN": 1, "VALID": 0, "TEST": 2},
        "classes_per_superclass": {"0": 2, "1": 1, "2": 3},
    }
    result = parse_specification(superclasses, "letters")
    assert result.splits == {"train": ("0", "1"), "val": (), "test": ("2", "3", "4", "5")}
    assert result.sets_of("test") == ((0,), (1, 2, 3))
    assert not result.whole
    node = lambda name, *below: {"wn_id": name, "children_ids": list(below), "words": name}  # noqa: E731
    graph = {
        "split_subgraphs": {
            "TRAIN": [node("n1", "n2", "n3"), node("n2"), node("n3")],
            "VALID": [],
            "TEST": [node("m1", "m2", "m5"), node("m2", "m3", "m4"), node("m3"), node("m4"), node("m5")],
        }
    }
    result = parse_specification(graph, "imagenet")
    assert result.splits == {"train": ("n2", "n3"), "val": (), "test": ("m3", "m4", "m5")}
    assert result.sets_of("test") == ((0, 1, 2), (0, 1))
    assert result.whole


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("no json", "is not a specification of letters"),
        ([1], "it holds a list"),
        ({"splits": {"train": "abc"}}, "expected a list of names"),
        ({"splits": {"train": [1]}}, "expected a list of names"),
        ({"splits": {"train": ["a", "a"]}}, "'a' is named twice"),
        ({"splits": {"train": ["a"], "test": ["a"]}}, "'a' is named twice"),
        ({"splits": {}, "colums": []}, "did you mean 'columns'"),
        ({**OURS, "children": {}}, "groups and children"),
        ({"name": "x"}, "is not a specification"),
    ],
)
def test_other_content_is_refused_as_a_specification_with_the_reason(tmp_path, content, expected):
    with pytest.raises(DataError, match=expected) as caught:
        load_specification("letters", written(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_another_split_of_an_official_source_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"gives aircraft 2/0/1 classes .* where Meta-Dataset has 70/15/15"):
        load_specification("aircraft", written(tmp_path, {**OURS, "name": "aircraft"}))
    assert sum(map(sum, OFFICIAL.values())) == 4934  # of the published specifications, added up by hand


def test_the_specifications_that_come_with_the_package():
    assert built_in() == ("cifar-fs", "cifar10", "cifar100", "mnist", "omniglot-8", "pacs-sketch")
    for name in built_in():
        assert load_specification(name, None).name == name
    assert load_specification("cifar-fs", None).splits == CATALOG["cifar-fs"].lists
    letters = load_specification("omniglot-8", None)
    assert {part: len(names) for part, names in letters.splits.items()} == {"train": 143, "val": 0, "test": 99}
    assert [len(classes) for classes in letters.sets_of("test")] == [40, 42, 17]
    with pytest.raises(DataError, match=r"no specification of 'mnits': put .*'mnist'"):
        load_specification("mnits", None)
