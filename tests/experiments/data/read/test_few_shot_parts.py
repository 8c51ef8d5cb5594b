"""What is not the few-shot split is refused, by the name of what is wrong."""

import pickle

import pytest

from _few_shot_files import (
    CIFAR_100,
    PARTS,
    Part,
    cifar_100,
    encoded,
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
)
from opl.errors import DataError
from opl.experiments.data import CifarFS, MiniImageNet, TieredImageNet
from opl.experiments.data.read.few_shot_classes import CIFAR_FS, MINI_IMAGENET, TIERED_IMAGENET

pytestmark = pytest.mark.usefixtures("apart")


def _test_class_in_train(made: dict[str, Part]) -> None:
    pixels, classes = made["train"]
    made["train"] = pixels, [MINI_IMAGENET["test"][3] if each == classes[0] else each for each in classes]


def _one_image_less(made: dict[str, Part]) -> None:
    pixels, classes = made["val"]
    made["val"] = pixels[1:], classes[1:]


def _one_class_less(made: dict[str, Part]) -> None:
    pixels, classes = made["test"]
    keep = [each != MINI_IMAGENET["test"][0] for each in classes]
    made["test"] = pixels[keep], [each for each, kept in zip(classes, keep, strict=True) if kept]


def _val_and_test_exchanged(made: dict[str, Part]) -> None:
    made["val"], made["test"] = made["test"], made["val"]


def _a_class_of_imagenet(made: dict[str, Part]) -> None:
    made["val"] = made["val"][0], ["n00000001" if each == "n01855672" else each for each in made["val"][1]]


@pytest.mark.parametrize("layout", [labeled, indexed, listed, hub])
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_test_class_in_train, r"'train' has the class 'n02110063', which belongs to 'test'; take the split of Ravi"),
        (_one_image_less, r"the class 'n\d{8}' of its part 'val' has 1 images instead of 2"),
        (_one_class_less, "'test' has no class 'n01930112'"),
        (_val_and_test_exchanged, "'val' has the class 'n01930112', which belongs to 'test'"),
        (_a_class_of_imagenet, "'val' has the class 'n00000001', which is none of its classes"),
    ],
)
def test_another_split_of_mini_imagenet_is_refused_by_name(tmp_path, few, layout, spoil, says):
    made = parts(MINI_IMAGENET)
    spoil(made)
    layout(tmp_path / "mini", made)
    with pytest.raises(DataError, match=says) as caught:
        MiniImageNet(root=str(tmp_path / "mini")).load(0)
    assert "\n" not in str(caught.value)
    assert not [each for each in (tmp_path / "cache").iterdir() if each.is_dir()]


def test_the_hundred_shared_classes_of_another_mini_imagenet_are_refused(tmp_path, few):
    everything = sorted(name for names in MINI_IMAGENET.values() for name in names)
    hub(tmp_path / "named", parts(dict.fromkeys(PARTS, everything)))
    with pytest.raises(DataError, match="'train' has the class 'n01855672', which belongs to 'val'"):
        MiniImageNet(root=str(tmp_path / "named")).load(0)
    for split in ("train", "validation", "test"):
        file = tmp_path / f"bare/{split}-00000-of-00001.parquet"
        write_parquet(file, part(everything), None)
    with pytest.raises(DataError, match="'train' has 100 classes instead of 64"):
        MiniImageNet(root=str(tmp_path / "bare")).load(0)


def test_numbers_without_names_must_be_as_many_and_without_a_gap(tmp_path, few):
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
    ("spoil", "says"),
    [
        (lambda made: made.update(val=part(TIERED_IMAGENET["val"][1:], 1)), "'val' has no class 'n02099267'"),
        (lambda made: made.update(val=part([f"word {i}" for i in range(96)], 1)), "'val' has 96 classes instead of 97"),
        (lambda made: made.update(test=part(TIERED_IMAGENET["test"], 2)), "'test' has 320 images instead of 160"),
        (
            lambda made: made.update(val=part([TIERED_IMAGENET["train"][5], *TIERED_IMAGENET["val"][1:]], 1)),
            f"'val' has the class '{TIERED_IMAGENET['train'][5]}', which belongs to 'train'; take the split of Ren",
        ),
    ],
)
def test_another_split_of_tiered_imagenet_is_refused(tmp_path, few, spoil, says):
    made = parts(TIERED_IMAGENET, 1)
    spoil(made)
    encoded(tmp_path, made)
    with pytest.raises(DataError, match=says):
        TieredImageNet(root=str(tmp_path)).load(0)


def test_another_cifar_100_is_refused(tmp_path, few):
    cifar_100(tmp_path / "wrong", ["bears" if name == "bear" else name for name in CIFAR_100])
    with pytest.raises(DataError, match="'train' has no class 'bear'; take the split of Bertinetto"):
        CifarFS(root=str(tmp_path / "wrong")).load(0)
    cifar_100(tmp_path / "bare", [])
    with pytest.raises(DataError, match="its classes have no names"):
        CifarFS(root=str(tmp_path / "bare")).load(0)


def test_pickles_of_cifar_fs_with_numbers_of_their_own_are_refused(tmp_path, few):
    for name, (pixels, classes) in parts(CIFAR_FS, 6, 32).items():
        labels = [CIFAR_FS[name].index(each) for each in classes]
        write(tmp_path / f"{name}.pickle", {"data": pixels, "labels": labels})
    with pytest.raises(DataError, match=r"'train' has the class 'baby', which belongs to 'test'.*numbers and names of"):
        CifarFS(root=str(tmp_path)).load(0)
