"""The lists of few-shot classes vs the papers that published them."""

import re

import pytest

from opl.experiments.data.read.catalog import CATALOG

TIERED_IMAGENET = CATALOG["tiered-imagenet"].lists


@pytest.mark.parametrize(
    ("name", "counts"),
    [("cifar-fs", (64, 16, 20)), ("mini-imagenet", (64, 16, 20)), ("tiered-imagenet", (351, 97, 160))],
)
def test_the_parts_have_the_published_sizes_and_no_class_in_common(name, counts):
    known = CATALOG[name]
    assert tuple(known.classes[part] for part in ("train", "val", "test")) == counts
    assert len({word for part in known.lists.values() for word in part}) == sum(counts) == known.num_classes
    for part in known.lists.values():
        assert list(part) == sorted(part)
        assert name == "cifar-fs" or all(re.fullmatch(r"n\d{8}", word) for word in part)


def test_whole_branches_of_wordnet_are_in_one_part_of_tiered_imagenet():
    hounds = {"n02088364", "n02089867", "n02091831"}  # beagle, Walker hound, Saluki
    working_dogs = {"n02110185", "n02106662", "n02109047"}  # Siberian husky, German shepherd, Great Dane
    sporting_dogs = {"n02099601", "n02101006", "n02102040"}  # golden retriever, Gordon setter, English springer
    fish, cats = {"n01440764", "n01484850"}, {"n02123045", "n02129165"}  # tench, white shark; tabby, lion
    assert hounds | cats <= set(TIERED_IMAGENET["train"])
    assert sporting_dogs <= set(TIERED_IMAGENET["val"])
    assert working_dogs | fish <= set(TIERED_IMAGENET["test"])
