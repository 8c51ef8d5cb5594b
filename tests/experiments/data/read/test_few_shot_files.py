"""Few-shot files: every layout gives the same data set; damaged, missing and wrong files are refused by name."""

import os
import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from _few_shot_files import (
    CIFAR_100,
    PARTS,
    Part,
    cifar_100,
    encoded,
    folders,
    hub,
    indexed,
    labeled,
    listed,
    numbered,
    part,
    parts,
    same,
    write,
    write_parquet,
    zipped,
)
from opl.errors import DataError, OplWarning, OptionError
from opl.experiments.data import CifarFS, JpegCopies, MiniImageNet, TieredImageNet, describe
from opl.experiments.data.read.catalog import CATALOG

CIFAR_FS = CATALOG["cifar-fs"].lists
MINI_IMAGENET = CATALOG["mini-imagenet"].lists
TIERED_IMAGENET = CATALOG["tiered-imagenet"].lists

pytestmark = pytest.mark.usefixtures("apart")


def all_same(settings, made, *, named=True):
    splits = settings.load(0)
    assert (len(splits.train), len(splits.val), len(splits.test), splits.groups) == (len(made["train"][1]), 0, 0, ())
    same(splits.train, splits.class_names, made["train"], named=named)
    for name in ("val", "test"):
        same(*settings.novel_classes(name), made[name], named=named)


@pytest.mark.parametrize(
    ("layout", "deeper"),
    [
        *((layout, "") for layout in (labeled, numbered, indexed, listed, folders, hub)),
        *((layout, "mini-imagenet") for layout in (indexed, folders)),
    ],
)
def test_mini_imagenet_is_the_same_in_every_layout(tmp_path, few, layout, deeper):
    made = parts(MINI_IMAGENET)
    layout(tmp_path / "here" / deeper, made)
    all_same(MiniImageNet(root=str(tmp_path / "here")), made, named=layout is not numbered)


@pytest.mark.parametrize("layout", [zipped, encoded, folders])
def test_tiered_imagenet_is_the_same_in_every_layout(tmp_path, few, layout):
    made = parts(TIERED_IMAGENET, 1)
    layout(tmp_path, made)
    all_same(TieredImageNet(root=str(tmp_path)), made, named=layout is not zipped)


@pytest.mark.parametrize("pattern", ["CIFAR_FS_{}.pickle", "{}.pickle"])
def test_cifar_fs_is_read_from_pickles_with_the_numbers_of_cifar_100(tmp_path, few, pattern):
    made = parts(CIFAR_FS, 6, 32)
    for name, (pixels, classes) in made.items():
        labels = [CIFAR_100.index(one) for one in classes]
        write(tmp_path / pattern.format(name), {"data": pixels, "labels": labels})
    all_same(CifarFS(root=str(tmp_path)), made)
    assert [len(part) for part in CifarFS(root=str(tmp_path), holdout=2).load(0)[:3]] == [256, 0, 128]
    with pytest.raises(OptionError, match=r"holdout=-1 .* must be 0 to 5 \(-1 needs files that hold images out\)"):
        CifarFS(root=str(tmp_path), holdout=-1).load(0)


def test_images_of_other_sizes_are_resized_regardless_of_their_aspect_ratio(tmp_path, few):
    made = parts(MINI_IMAGENET)
    folders(tmp_path, made)
    name = MINI_IMAGENET["train"][0]
    first, second = sorted((tmp_path / "train" / name).iterdir())
    Image.new("RGB", (500, 300), (10, 200, 30)).save(first)
    Image.fromarray(np.arange(200, dtype=np.uint8)[None].repeat(120, 0)).save(second)  # gray, from left to right
    splits = MiniImageNet(root=str(tmp_path)).load(0)
    one, two = (splits.train.pixels[row] for row in (splits.train.labels == 0).nonzero().flatten())
    assert torch.equal(one, torch.tensor([10, 200, 30], dtype=torch.uint8)[:, None, None].expand(3, 84, 84))
    middles = (torch.arange(84) + 0.5) * 200 / 84 - 0.5
    assert (two.float() - middles).abs().max() < 2
    assert two.shape == (3, 84, 84)


@pytest.mark.parametrize("layout", [folders, hub, labeled])
def test_a_smaller_size_is_made_from_files_and_refused_for_arrays(tmp_path, few, layout):
    made = parts(MINI_IMAGENET)
    layout(tmp_path / "here", made)
    settings = MiniImageNet(root=str(tmp_path / "here"), size=48)
    if layout is labeled:
        with pytest.raises(DataError, match="84"):
            settings.load(0)
        return
    pixels = settings.load(0).train.pixels
    whole = MiniImageNet(root=str(tmp_path / "here")).load(0).train.pixels
    expected = [
        np.asarray(Image.fromarray(image.permute(1, 2, 0).numpy()).resize((48, 48), Image.Resampling.BICUBIC))
        for image in whole[:5]
    ]
    assert np.array_equal(pixels[:5].permute(0, 2, 3, 1).numpy(), expected)


def test_base_and_novel_classes_become_one_data_set_of_jpegs(tmp_path, few, monkeypatch):
    made = parts(MINI_IMAGENET)  # two images of each class
    monkeypatch.setenv("OPL_DATA", str(tmp_path))
    hub(tmp_path / "mini-imagenet", made)
    splits = JpegCopies(of="mini-imagenet", side=16, size=16, val=0, test=0.5, workers=0).load(0)
    assert splits.class_names == tuple(sorted({name for _, names in made.values() for name in names}))
    for images in (splits.train, splits.test):
        assert images.labels[images.rows].bincount().tolist() == [1] * 100


def test_channels_are_reversed_only_with_bgr(tmp_path, few):
    made = parts(TIERED_IMAGENET, 1)
    zipped(tmp_path, made)
    plain, turned = (TieredImageNet(root=str(tmp_path), bgr=bgr).load(0).train.pixels for bgr in (False, True))
    assert torch.equal(plain.flip(1), turned)
    assert not torch.equal(plain, turned)
    encoded(tmp_path / "png", made)
    with pytest.raises(OptionError, match="bgr is for arrays"):
        TieredImageNet(root=str(tmp_path / "png"), bgr=True).load(0)


# Files that are damaged, missing, or not what they say


@pytest.mark.parametrize(
    ("layout", "file"),
    [
        (labeled, "miniImageNet_category_split_val.pickle"),
        (indexed, "mini-imagenet-cache-test.pkl"),
        (zipped, "train_images.npz"),
        (encoded, "train_images_png.pkl"),
        (encoded, "val_labels.pkl"),
    ],
)
@pytest.mark.parametrize("keep", [0, 0.6])
def test_a_truncated_file_is_refused_and_nothing_is_cached(tmp_path, few, layout, file, keep):
    tiered = layout in (zipped, encoded)
    layout(tmp_path / "here", parts(TIERED_IMAGENET, 1) if tiered else parts(MINI_IMAGENET))
    os.truncate(tmp_path / "here" / file, int((tmp_path / "here" / file).stat().st_size * keep))
    with pytest.raises(DataError, match="cannot be read") as caught:
        (TieredImageNet if tiered else MiniImageNet)(root=str(tmp_path / "here")).load(0)
    assert "\n" not in str(caught.value)
    assert not [folder for folder in (tmp_path / "cache").iterdir() if folder.is_dir()]


@pytest.mark.parametrize(
    ("layout", "missing"),
    [
        (labeled, "miniImageNet_category_split_test.pickle"),
        (indexed, "mini-imagenet-cache-train.pkl"),
        (listed, "val.csv"),
        (zipped, "test_labels.pkl"),
        (encoded, "val_images_png.pkl"),
    ],
)
def test_a_missing_file_is_named(tmp_path, few, layout, missing):
    tiered = layout in (zipped, encoded)
    layout(tmp_path, parts(TIERED_IMAGENET, 1) if tiered else parts(MINI_IMAGENET))
    (tmp_path / missing).unlink()
    with pytest.raises(DataError, match=f"has no '{missing}': copy or download"):
        (TieredImageNet if tiered else MiniImageNet)(root=str(tmp_path)).load(0)


def test_missing_and_unreadable_images_are_named(tmp_path, few):
    made = parts(MINI_IMAGENET)
    listed(tmp_path / "listed", made)
    lost = sorted((tmp_path / "listed/images").iterdir())[0]
    lost.write_text("no image")
    with pytest.raises(DataError, match=f"cannot be read .*{lost.name}"):
        MiniImageNet(root=str(tmp_path / "listed")).load(0)
    lost.unlink()
    with pytest.raises(DataError, match=f"names the image '{lost.name}', which is not in images/"):
        MiniImageNet(root=str(tmp_path / "listed")).load(0)
    folders(tmp_path / "folders", {name: made[name] for name in ("train", "test")})
    with pytest.raises(DataError, match="has no 'val/'"):
        MiniImageNet(root=str(tmp_path / "folders")).load(0)


def test_files_with_other_content_are_refused(tmp_path, few):
    labeled(tmp_path / "a", parts(MINI_IMAGENET, size=32))
    with pytest.raises(DataError, match=r"uint8 \(128, 32, 32, 3\) instead of bytes of \(N, 84, 84, 3\)"):
        MiniImageNet(root=str(tmp_path / "a")).load(0)
    write(tmp_path / "a/miniImageNet_category_split_train_phase_train.pickle", {"pixels": 1, "labels": 2})
    with pytest.raises(DataError, match="holds 'pixels', 'labels' instead of 'data' and 'labels'"):
        MiniImageNet(root=str(tmp_path / "a")).load(0)
    (tmp_path / "b").mkdir()
    (tmp_path / "b/readme.txt").write_text("soon")
    with pytest.raises(DataError, match=r"in none of its layouts.*'mini-imagenet-cache-test\.pkl'"):
        MiniImageNet(root=str(tmp_path / "b")).load(0)
    assert not {row["name"]: row for row in describe()}["mini-imagenet"]["here"]


# The cache


def test_only_the_requested_part_is_checked_and_damage_in_it_is_repaired(tmp_path, few):
    made = parts(MINI_IMAGENET)
    labeled(tmp_path / "mini", made)
    settings = MiniImageNet(root=str(tmp_path / "mini"))
    settings.load(0)
    [kept] = [folder for folder in (tmp_path / "cache").iterdir() if folder.is_dir()]
    os.truncate(kept / "test.pixels.npy", 5000)
    settings.load(0)
    with pytest.warns(OplWarning, match=r"test\.pixels\.npy .* is damaged"):
        result = settings.novel_classes("test")
    same(*result, made["test"])


def _put_test_class_into_train(made: dict[str, Part]) -> None:
    pixels, classes = made["train"]
    made["train"] = pixels, [MINI_IMAGENET["test"][3] if label == classes[0] else label for label in classes]


def _remove_one_image(made: dict[str, Part]) -> None:
    pixels, classes = made["val"]
    made["val"] = pixels[1:], classes[1:]


def _remove_one_class(made: dict[str, Part]) -> None:
    pixels, classes = made["test"]
    keep = [label != MINI_IMAGENET["test"][0] for label in classes]
    made["test"] = pixels[keep], [label for label, kept in zip(classes, keep, strict=True) if kept]


def _swap_val_and_test(made: dict[str, Part]) -> None:
    made["val"], made["test"] = made["test"], made["val"]


def _rename_one_class(made: dict[str, Part]) -> None:
    made["val"] = made["val"][0], ["n00000001" if label == "n01855672" else label for label in made["val"][1]]


@pytest.mark.parametrize("layout", [labeled, indexed, listed, hub])
@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (
            _put_test_class_into_train,
            r"'train' has the class 'n02110063', which belongs to 'test'; use the split of Ravi",
        ),
        (_remove_one_image, r"its part 'val' has 1 images of the class 'n\d{8}' instead of 2"),
        (_remove_one_class, "'test' has no class 'n01930112'"),
        (_swap_val_and_test, "'val' has the class 'n01930112', which belongs to 'test'"),
        (_rename_one_class, "'val' has the class 'n00000001', which is not in the data set"),
    ],
)
def test_another_split_of_mini_imagenet_is_refused_by_name(tmp_path, few, layout, spoil, expected):
    made = parts(MINI_IMAGENET)
    spoil(made)
    layout(tmp_path / "mini", made)
    with pytest.raises(DataError, match=expected) as caught:
        MiniImageNet(root=str(tmp_path / "mini")).load(0)
    assert "\n" not in str(caught.value)
    assert not [folder for folder in (tmp_path / "cache").iterdir() if folder.is_dir()]


def test_a_different_mini_imagenet_with_the_same_classes_is_refused(tmp_path, few):
    everything = sorted(name for names in MINI_IMAGENET.values() for name in names)
    hub(tmp_path / "named", parts(dict.fromkeys(PARTS, everything)))
    with pytest.raises(DataError, match="'train' has the class 'n01855672', which belongs to 'val'"):
        MiniImageNet(root=str(tmp_path / "named")).load(0)
    for split in ("train", "validation", "test"):
        file = tmp_path / f"bare/{split}-00000-of-00001.parquet"
        write_parquet(file, part(everything), None)
    with pytest.raises(DataError, match="'train' has 100 classes instead of 64"):
        MiniImageNet(root=str(tmp_path / "bare")).load(0)


def test_numbers_without_names_must_be_complete_and_consecutive(tmp_path, few):
    made = parts(MINI_IMAGENET)
    numbered(tmp_path, made)
    file = tmp_path / "miniImageNet_category_split_val.pickle"
    content = pickle.loads(file.read_bytes())
    shifted = [label + 7 for label in content["labels"]]
    write(file, {**content, "labels": shifted})
    same(*MiniImageNet(root=str(tmp_path)).novel_classes("val"), made["val"], named=False)
    write(file, {**content, "labels": [200 if label == 87 - 1 else label for label in shifted]})
    with pytest.raises(DataError, match="'val' has labels from 71 to 200, but no 86"):
        MiniImageNet(root=str(tmp_path)).novel_classes("val")
    write(file, {**content, "labels": shifted[1:]})
    with pytest.raises(DataError, match="has 32 images and 31 labels"):
        MiniImageNet(root=str(tmp_path)).novel_classes("val")


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda made: made.update(val=part(TIERED_IMAGENET["val"][1:], 1)), "'val' has no class 'n02099267'"),
        (lambda made: made.update(val=part([f"word {i}" for i in range(96)], 1)), "'val' has 96 classes instead of 97"),
        (lambda made: made.update(test=part(TIERED_IMAGENET["test"], 2)), "'test' has 320 images instead of 160"),
        (
            lambda made: made.update(val=part([TIERED_IMAGENET["train"][5], *TIERED_IMAGENET["val"][1:]], 1)),
            f"'val' has the class '{TIERED_IMAGENET['train'][5]}', which belongs to 'train'; use the complete",
        ),
    ],
)
def test_another_split_of_tiered_imagenet_is_refused(tmp_path, few, spoil, expected):
    made = parts(TIERED_IMAGENET, 1)
    spoil(made)
    encoded(tmp_path, made)
    with pytest.raises(DataError, match=expected):
        TieredImageNet(root=str(tmp_path)).load(0)


def test_another_cifar_100_is_refused(tmp_path, few):
    cifar_100(tmp_path / "wrong", ["bears" if name == "bear" else name for name in CIFAR_100])
    with pytest.raises(DataError, match="'train' has no class 'bear'; use the split of Bertinetto"):
        CifarFS(root=str(tmp_path / "wrong")).load(0)
    cifar_100(tmp_path / "bare", [])
    with pytest.raises(DataError, match="its classes have no names"):
        CifarFS(root=str(tmp_path / "bare")).load(0)


def test_pickles_of_cifar_fs_with_different_class_ids_are_refused(tmp_path, few):
    for name, (pixels, classes) in parts(CIFAR_FS, 6, 32).items():
        labels = [CIFAR_FS[name].index(label) for label in classes]
        write(tmp_path / f"{name}.pickle", {"data": pixels, "labels": labels})
    with pytest.raises(DataError, match=r"'train' has the class 'baby', which belongs to 'test'.*numbers and names of"):
        CifarFS(root=str(tmp_path)).load(0)
