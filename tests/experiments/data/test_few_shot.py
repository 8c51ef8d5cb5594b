"""Few-shot data sets: their settings, their sources, their held-out images, and CIFAR-FS itself."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from _few_shot_files import CIFAR_100, _place, cifar_100, labeled, part, parts, same, write
from opl.errors import DataError, OptionError
from opl.experiments.data import (
    CATALOG,
    Cifar100,
    CifarFS,
    ColorJitter,
    Flip,
    MiniImageNet,
    PadCrop,
    TieredImageNet,
    describe,
)
from opl.experiments.data.few_shot import hold_out
from opl.experiments.data.read import find

CIFAR_FS = CATALOG["cifar-fs"].lists
MINI_IMAGENET = CATALOG["mini-imagenet"].lists

pytestmark = pytest.mark.usefixtures("apart")


# Sources


def test_cifar_fs_is_built_from_cifar_100(tmp_path, few, monkeypatch):
    made = cifar_100(tmp_path / "shelf/cifar100", ["cra" if name == "crab" else name for name in CIFAR_100])
    monkeypatch.setenv("OPL_DATA", str(tmp_path / "shelf"))
    joined = tuple(np.concatenate([made[name][k] for name in ("train", "test")]) for k in range(2))
    for name, (result, names) in {
        "train": ((splits := CifarFS().load(0)).train, splits.class_names),
        **{name: CifarFS().novel_classes(name) for name in ("val", "test")},
    }.items():
        wanted = np.isin(joined[1], CIFAR_FS[name])
        same(result, names, (joined[0][wanted], joined[1][wanted].tolist()))
    assert splits.source == str(tmp_path / "shelf/cifar100")
    assert splits.groups == tuple(CIFAR_100.index(name) // 5 for name in CIFAR_FS["train"])
    tests = {image.tobytes() for image in made["test"][0].transpose(0, 3, 1, 2)}
    for held, of_tests, size in ((1, 64, 64), (-1, 64, 64), (3, 64, 192)):
        cut = CifarFS(holdout=held).load(0)
        images = cut.test.pixels[cut.test.rows]
        assert len(cut.test) == size
        assert len(cut.train) == 384 - size
        assert sum(image.numpy().tobytes() in tests for image in images) == of_tests
    cut = CifarFS(holdout=1, classes=5, per_class=3).load(0)
    assert cut.train.labels[cut.train.rows].bincount().tolist() == [3] * 5
    assert cut.test.labels[cut.test.rows].bincount().tolist() == [1] * 5
    assert len(cut.class_names) == len(cut.groups) == CifarFS(classes=5).num_classes == 5


def test_extra_images_of_the_base_classes_are_the_held_out_ones(tmp_path, few):
    made = parts(MINI_IMAGENET)
    labeled(tmp_path, made)
    extra = part(MINI_IMAGENET["train"], 3, seed=7)
    numbers = [MINI_IMAGENET["train"].index(name) for name in extra[1]]
    write(
        tmp_path / "miniImageNet_category_split_train_phase_val.pickle",
        {"data": extra[0], "labels": numbers, "catname2label": dict(zip(extra[1], numbers, strict=True))},
    )
    assert len(MiniImageNet(root=str(tmp_path)).load(0).test) == 0
    splits = MiniImageNet(root=str(tmp_path), holdout=-1).load(0)
    assert len(splits.train) == 128
    same(splits.test, splits.class_names, extra)
    splits = MiniImageNet(root=str(tmp_path), holdout=2, classes=10).load(0)
    assert splits.test.labels[splits.test.rows].bincount().tolist() == [2] * 10
    assert _place(splits.test, extra)


@pytest.mark.parametrize(
    ("settings", "ways"),
    [
        (Cifar100(), ("--data.root FOLDER", "OPL_DATA", "'uoft-cs/cifar100'", "network")),
        (CifarFS(), ("--data.root FOLDER", "'cifar-fs/' or 'cifar100/'", "'uoft-cs/cifar100'", "network")),
        (MiniImageNet(), ("--data.root FOLDER", "OPL_DATA", "'mini-imagenet/'", "Zenodo", "not timm/mini-imagenet")),
        (TieredImageNet(), ("--data.root FOLDER", "OPL_DATA", "'tiered-imagenet/'", "Zenodo")),
    ],
)
def test_without_data_the_error_names_the_ways(settings, ways):
    for load in (lambda: settings.load(0), replace(settings, classes=20).novel_classes):
        with pytest.raises(DataError) as caught:
            load()
        assert all(way in str(caught.value) for way in ways)
        assert "\n" not in str(caught.value)


def test_cifar_fs_is_built_from_a_download_of_cifar_100(tmp_path, few, monkeypatch):
    snapshots = tmp_path / "hf/hub/datasets--uoft-cs--cifar100/snapshots/0a1b/cifar100"
    cifar_100(snapshots)
    assert find.find("cifar-fs").where == "Hub uoft-cs/cifar100"
    assert len(CifarFS().load(0).train) == 384
    rows = {row["name"]: row for row in describe()}
    assert (rows["cifar-fs"]["here"], rows["mini-imagenet"]["here"]) == (True, False)
    assert "cifar-fs/ or cifar100/" in rows["cifar-fs"]["get"]


# The settings


def test_the_episode_shape_and_views_equal_rfs():
    jitter = ColorJitter(0.4, 0.4, 0.4)
    assert CifarFS().augment == (PadCrop(4), jitter, Flip(0.5))
    for settings in (MiniImageNet(), TieredImageNet()):
        assert settings.augment == (PadCrop(8), jitter, Flip(0.5))
        assert (settings.size, settings.channels) == (84, 3)
        assert settings.mean == pytest.approx((0.47214, 0.45331, 0.40996), abs=1e-5)
        assert settings.std == pytest.approx((0.27718, 0.26775, 0.28449), abs=1e-5)
    assert (CifarFS.mean, CifarFS.std) == ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))
    assert CifarFS(padding=0, jitter=0, flip=0).augment == ()
    assert [kind().num_classes for kind in (CifarFS, MiniImageNet, TieredImageNet)] == [64, 64, 351]


def test_impossible_settings_are_refused(tmp_path, few):
    labeled(tmp_path, parts(MINI_IMAGENET))
    for given, expected in (
        ({"classes": 65}, "must be 2 to 64"),
        ({"holdout": 2}, "must be 0 to 1"),
        ({"holdout": -2}, "holdout=-2"),
    ):
        with pytest.raises(OptionError, match=expected):
            MiniImageNet(root=str(tmp_path), **given).load(0)
    with pytest.raises(OptionError, match="'train' does not exist"):
        MiniImageNet(root=str(tmp_path)).novel_classes("train")


def test_equally_many_images_per_class_are_held_out_by_the_seed():
    labels = torch.arange(60) % 3
    kept = (torch.arange(60) >= 54).long()  # two of each class
    assert all(len(part) == size for part, size in zip(hold_out(labels, 0), (60, 0), strict=True))
    assert hold_out(labels, -1, kept)[1].tolist() == hold_out(labels, 2, kept)[1].tolist() == list(range(54, 60))
    fit, held = hold_out(labels, 5, kept, seed=1)
    assert labels[held].bincount().tolist() == [5] * 3
    assert set(range(54, 60)) <= set(held.tolist())
    assert sorted([*fit.tolist(), *held.tolist()]) == list(range(60))
    assert not torch.equal(held, hold_out(labels, 5, kept, seed=2)[1])
    assert hold_out(labels, 1, kept)[1].tolist() != hold_out(labels, 1)[1].tolist()


# The published lists of classes


@pytest.mark.parametrize(
    ("name", "counts"),
    [("cifar-fs", (64, 16, 20)), ("mini-imagenet", (64, 16, 20)), ("tiered-imagenet", (351, 97, 160))],
)
def test_the_parts_have_the_published_sizes_and_no_class_in_common(name, counts):
    known = CATALOG[name]
    assert tuple(known.classes[part] for part in ("train", "val", "test")) == counts
    assert len({word for part in known.lists.values() for word in part}) == sum(counts) == known.num_classes
    for words in known.lists.values():
        assert list(words) == sorted(words)
        assert name == "cifar-fs" or all(re.fullmatch(r"n\d{8}", word) for word in words)


def test_whole_branches_of_wordnet_are_in_one_part_of_tiered_imagenet():
    hounds = {"n02088364", "n02089867", "n02091831"}  # beagle, Walker hound, Saluki
    working_dogs = {"n02110185", "n02106662", "n02109047"}  # Siberian husky, German shepherd, Great Dane
    sporting_dogs = {"n02099601", "n02101006", "n02102040"}  # golden retriever, Gordon setter, English springer
    fish, cats = {"n01440764", "n01484850"}, {"n02123045", "n02129165"}  # tench, white shark; tabby, lion
    assert hounds | cats <= set(CATALOG["tiered-imagenet"].lists["train"])
    assert sporting_dogs <= set(CATALOG["tiered-imagenet"].lists["val"])
    assert working_dogs | fish <= set(CATALOG["tiered-imagenet"].lists["test"])
