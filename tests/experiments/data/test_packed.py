"""Decoded pictures are read back as parts of a data set; other or damaged ones are refused."""

import numpy as np
import pytest
import torch

from opl.errors import DataError
from opl.experiments.data import PackedImages
from opl.experiments.data.read.pack import PackFacts, read_facts, write_pack

COUNTS = ((6, 3), (1, 1), (2, 2))


@pytest.fixture
def folder(tmp_path):
    chance = np.random.default_rng(0)
    labels = np.array([0] * 9 + [1] * 6, np.int32)
    parts = np.array([0] * 6 + [1] + [2] * 2 + [0] * 3 + [1] + [2] * 2, np.int8)
    pixels = chance.integers(0, 256, (15, 3, 8, 8), dtype=np.uint8)
    facts = PackFacts("here", ("cat", "dog"), 3, 8, (0.5,) * 3, (0.2,) * 3, COUNTS, "key", ("a note",), ("x.png: why",))
    write_pack(tmp_path, facts, {"pixels": pixels, "labels": labels, "parts": parts})
    return tmp_path


def test_the_parts_are_those_that_were_written(folder):
    data = PackedImages(root=str(folder), key="key", size=8)
    splits = data.load(0)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [9, 2, 4]
    assert (splits.class_names, splits.source, data.channels, data.num_classes) == (("cat", "dog"), "here", 3, 2)
    assert splits.test.rows.tolist() == [7, 8, 13, 14]
    pixels, labels = splits.test.take(torch.arange(4))
    assert (pixels.numpy() == np.load(folder / "pixels.npy")[[7, 8, 13, 14]]).all()
    assert labels.tolist() == [0, 0, 1, 1]


def test_fewer_training_images_keep_the_fractions_of_the_classes_and_are_the_same_for_all_seeds(folder):
    data = PackedImages(root=str(folder), key="key", size=8, images=3)
    assert len(data.load(0).val) == 1
    first, second = (data.load(seed).train for seed in (0, 1))
    assert first.labels[first.rows].bincount().tolist() == [2, 1]
    assert first.rows.tolist() == second.rows.tolist()


def test_what_is_known_of_a_pack_is_read_back_as_it_was(folder):
    facts = read_facts(folder)
    assert (facts.counts, facts.notes, facts.left_out, facts.sizes, facts.per_class) == (
        COUNTS, ("a note",), ("x.png: why",), (9, 2, 4), (9, 6),
    )  # fmt: skip


def test_other_missing_and_damaged_pictures_are_refused(folder, tmp_path):
    with pytest.raises(DataError, match="other pictures than those of this run"):
        PackedImages(root=str(folder), key="another", size=8).load(0)
    with pytest.raises(DataError, match="no decoded pictures"):
        PackedImages(root=str(tmp_path / "nowhere"), key="key", size=8).load(0)
    content = bytearray((folder / "pixels.npy").read_bytes())
    content[200] ^= 1
    (folder / "pixels.npy").write_bytes(content)
    with pytest.raises(DataError, match=r"missing or damaged: delete that folder"):
        PackedImages(root=str(folder), key="key", size=8).load(0)
    (folder / "pack.json").write_text("0\n{}")
    assert read_facts(folder) is None


def test_crops_and_flips_can_be_left_out():
    assert PackedImages(padding=0, flip=0.0).augment == ()
    assert len(PackedImages().augment) == 2
