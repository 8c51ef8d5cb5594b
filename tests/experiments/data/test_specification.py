"""Specifications of classes and splits: our format, Meta-Dataset's format, and invalid files."""

import json

import pytest

from opl.errors import DataError
from opl.experiments.data.meta_dataset import (
    OFFICIAL,
    built_in,
    leaf_sets,
    load_specification,
    parse_specification,
)
from opl.experiments.data.read.catalog import CATALOG

CIFAR_FS = CATALOG["cifar-fs"].lists


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
    assert load_specification("cifar-fs", None).splits == {part: tuple(names) for part, names in CIFAR_FS.items()}
    letters = load_specification("omniglot-8", None)
    assert {part: len(names) for part, names in letters.splits.items()} == {"train": 143, "val": 0, "test": 99}
    assert [len(classes) for classes in letters.sets_of("test")] == [40, 42, 17]
    with pytest.raises(DataError, match=r"no specification of 'mnits': put .*'mnist'"):
        load_specification("mnits", None)
