"""Few-shot data sets: every layout that they come in is read alike, and what is not the few-shot split is refused."""

import csv
import io
import json
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from opl.errors import DataError, OplWarning, OptionError
from opl.experiments.data import (
    CATALOG,
    CifarFS,
    ColorJitter,
    Flip,
    MiniImageNet,
    PadCrop,
    Synthetic,
    TieredImageNet,
    describe,
)
from opl.experiments.data.few_shot import hold_out
from opl.experiments.data.readers import few_shot_files as packed
from opl.experiments.data.readers import source, unpickle
from opl.experiments.data.readers.few_shot_classes import CIFAR_FS, MINI_IMAGENET
from opl.experiments.recipe import from_json, to_json

PARTS = ("train", "val", "test")
TIERED = {
    part: [f"n{start + number:08d}" for number in range(count)]
    for part, start, count in (("train", 1, 351), ("val", 2001, 97), ("test", 4001, 160))
}
CIFAR_100 = sorted(name for names in CIFAR_FS.values() for name in names)


pytestmark = pytest.mark.usefixtures("apart")


@pytest.fixture
def few(monkeypatch):
    """Data sets with fewer images of each class."""
    for name, each in (("cifar-fs", 6), ("mini-imagenet", 2), ("tiered-imagenet", 1)):
        known = CATALOG[name]
        images = {part: each * count for part, count in known.classes.items()}
        monkeypatch.setitem(CATALOG, name, replace(known, images=images, per_class=known.per_class and each))


# Synthetic files

Part = tuple[np.ndarray, list[str]]  # (N, H, W, 3), and the class of each


def part(names: list[str] | tuple[str, ...], each: int = 2, size: int = 84, seed: int = 0) -> Part:
    random = np.random.default_rng(seed)
    classes = [names[place] for place in random.permutation(np.repeat(np.arange(len(names)), each))]
    coarse = random.integers(0, 256, (len(classes), 2, 2, 3), dtype=np.uint8)  # no two alike, and quickly written
    return coarse.repeat(size // 2, axis=1).repeat(size // 2, axis=2), classes


def parts(lists: dict[str, list[str]], each: int = 2, size: int = 84) -> dict[str, Part]:
    return {name: part(lists[name], each, size, seed) for seed, name in enumerate(PARTS)}


def write(file: Path, content: object, protocol: int = 2) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps(content, protocol))


def png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "png")
    return stream.getvalue()


def write_parquet(file: Path, made: Part, names: list[str] | None, column: str = "label", **others: list[int]) -> None:
    pixels, classes = made
    order = names or sorted(set(classes))
    told = {column: {"names": names, "_type": "ClassLabel"}} if names else {}
    table = pa.table(
        {
            "image": pa.array([{"bytes": png(image), "path": None} for image in pixels]),
            column: pa.array([order.index(name) for name in classes], pa.int64()),
            **{other: pa.array(values, pa.int64()) for other, values in others.items()},
        }
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": told}})}), file)


def labeled(folder: Path, made: dict[str, Part], *, named: bool = True, protocol: int = 2) -> None:
    """As Gidaris, MetaOptNet and RFS have miniImageNet: the numbers of `val` and `test` go on where the last ended."""
    first = 0
    for name, (pixels, classes) in made.items():
        numbers = {each: first + place for place, each in enumerate(sorted(set(classes)))}
        content = {"data": pixels, "labels": [numbers[each] for each in classes], "catname2label": numbers}
        if not named:
            del content["catname2label"]
        told = "train_phase_train" if name == "train" else name
        write(folder / f"miniImageNet_category_split_{told}.pickle", content, protocol)
        first += len(numbers)


def numbered(folder: Path, made: dict[str, Part]) -> None:
    labeled(folder, made, named=False, protocol=5)


def indexed(folder: Path, made: dict[str, Part]) -> None:
    for name, (pixels, classes) in made.items():
        places = {each: [i for i, one in enumerate(classes) if one == each] for each in set(classes)}
        write(folder / f"mini-imagenet-cache-{name}.pkl", {"image_data": pixels, "class_dict": places})


def listed(folder: Path, made: dict[str, Part]) -> None:
    (folder / "images").mkdir(parents=True)
    for name, (pixels, classes) in made.items():
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            table = csv.writer(stream)
            table.writerow(["filename", "label"])
            for place, (image, each) in enumerate(zip(pixels, classes, strict=True)):
                table.writerow([f"{each}{place:08d}.png", each])
                (folder / "images" / f"{each}{place:08d}.png").write_bytes(png(image))


def folders(folder: Path, made: dict[str, Part]) -> None:
    for name, (pixels, classes) in made.items():
        for place, (image, each) in enumerate(zip(pixels, classes, strict=True)):
            (folder / name / each).mkdir(parents=True, exist_ok=True)
            (folder / name / each / f"{place}.PNG").write_bytes(png(image))


def hub(folder: Path, made: dict[str, Part]) -> None:
    for name, split in zip(PARTS, ("train", "validation", "test"), strict=True):
        names = sorted(each for _, classes in made.values() for each in set(classes))
        write_parquet(folder / f"data/{split}-00000-of-00001.parquet", made[name], names)


def zipped(folder: Path, made: dict[str, Part]) -> None:
    for name, (pixels, classes) in made.items():
        numbers = {each: place for place, each in enumerate(sorted(set(classes)))}
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(folder / f"{name}_images.npz", images=pixels)
        write(folder / f"{name}_labels.pkl", {"labels": [numbers[each] for each in classes]})


def encoded(folder: Path, made: dict[str, Part]) -> None:
    for name, (pixels, classes) in made.items():
        names = sorted(set(classes), reverse=True)  # the numbers need not be in alphabetical order
        labels = {"label_specific": np.array([names.index(each) for each in classes]), "label_specific_str": names}
        kinds = (lambda file: np.frombuffer(file, np.uint8)[:, None], bytes, lambda file: file.decode("latin1"))
        pictures = [kinds[place % 3](png(image)) for place, image in enumerate(pixels)]
        write(folder / f"{name}_images_png.pkl", pictures)
        write(folder / f"{name}_labels.pkl", labels)


def same(found, names: tuple[str, ...], made: Part, *, named: bool = True) -> None:
    """Every image is the one that was written, in its class, and the classes are in alphabetical order."""
    pixels, classes = made
    order = sorted(set(classes))
    assert torch.equal(
        found.pixels[found.rows], torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy())[_place(found, made)]
    )
    assert sorted(found.labels[found.rows].tolist()) == sorted(order.index(each) for each in classes)
    assert [order[label] for label in found.labels[found.rows].tolist()] == [classes[i] for i in _place(found, made)]
    assert (list(names) == order) if named else len(set(names)) == len(order)


def _place(found, made: Part) -> list[int]:
    """Which of the images made each one found is: readers may go through the files in an order of their own."""
    places = {image.tobytes(): place for place, image in enumerate(made[0].transpose(0, 3, 1, 2))}
    return [places[image.numpy().tobytes()] for image in found.pixels[found.rows]]


# Every layout is read alike


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
    settings = MiniImageNet(root=str(tmp_path / "here"))
    splits = settings.load(0)
    assert (len(splits.train), len(splits.val), len(splits.test), splits.groups) == (128, 0, 0, ())
    same(splits.train, splits.class_names, made["train"], named=layout is not numbered)
    for name in ("val", "test"):
        same(*settings.novel_classes(name), made[name], named=layout is not numbered)


@pytest.mark.parametrize("layout", [zipped, encoded, folders])
def test_tiered_imagenet_is_the_same_in_every_layout(tmp_path, few, layout):
    made = parts(TIERED, 1)
    layout(tmp_path, made)
    settings = TieredImageNet(root=str(tmp_path))
    splits = settings.load(0)
    assert len(splits.train) == 351
    same(splits.train, splits.class_names, made["train"], named=layout is not zipped)
    for name in ("val", "test"):
        same(*settings.novel_classes(name), made[name], named=layout is not zipped)


@pytest.mark.parametrize("name", ["CIFAR_FS_{}.pickle", "{}.pickle"])
def test_cifar_fs_is_read_from_pickles_with_the_numbers_of_cifar_100(tmp_path, few, name):
    made = parts(CIFAR_FS, 6, 32)
    for each, (pixels, classes) in made.items():
        labels = [CIFAR_100.index(one) for one in classes]
        write(tmp_path / name.format(each), {"data": pixels, "labels": labels})
    settings = CifarFS(root=str(tmp_path))
    splits = settings.load(0)
    same(splits.train, splits.class_names, made["train"])
    for each in ("val", "test"):
        same(*settings.novel_classes(each), made[each])
    assert [len(part) for part in CifarFS(root=str(tmp_path), holdout=2).load(0)[:3]] == [256, 0, 128]
    with pytest.raises(OptionError, match=r"holdout=-1 .* give 0 to 5; these files hold no image out"):
        CifarFS(root=str(tmp_path), holdout=-1).load(0)


def cifar_100(folder: Path, names: list[str] | None = None) -> dict[str, Part]:
    made = {"train": part(CIFAR_100, 5, 32, 0), "test": part(CIFAR_100, 1, 32, 1)}
    for name, each in made.items():
        coarse = [CIFAR_100.index(one) // 5 for one in each[1]]
        file = folder / f"{name}-00000-of-00001.parquet"
        write_parquet(file, each, CIFAR_100, "fine_label", coarse_label=coarse)
        if names is not None:
            table = pq.read_table(file)
            told = {"fine_label": {"names": names, "_type": "ClassLabel"}} if names else {}
            head = {"huggingface": json.dumps({"info": {"features": told}})}
            pq.write_table(table.replace_schema_metadata(head), file)
    return made


def test_cifar_fs_is_made_of_cifar_100(tmp_path, few, monkeypatch):
    made = cifar_100(tmp_path / "shelf/cifar100", ["cra" if name == "crab" else name for name in CIFAR_100])
    monkeypatch.setenv("OPL_DATA", str(tmp_path / "shelf"))
    joined = tuple(np.concatenate([made[name][k] for name in ("train", "test")]) for k in range(2))
    for name, (found, names) in {
        "train": ((splits := CifarFS().load(0)).train, splits.class_names),
        **{name: CifarFS().novel_classes(name) for name in ("val", "test")},
    }.items():
        wanted = np.isin(joined[1], CIFAR_FS[name])
        same(found, names, (joined[0][wanted], joined[1][wanted].tolist()))
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
    numbers = [MINI_IMAGENET["train"].index(each) for each in extra[1]]
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


def test_pictures_of_other_sizes_are_resized_whatever_becomes_of_their_shape(tmp_path, few):
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


def test_blue_comes_first_only_when_told(tmp_path, few):
    made = parts(TIERED, 1)
    zipped(tmp_path, made)
    plain, turned = (TieredImageNet(root=str(tmp_path), bgr=bgr).load(0).train.pixels for bgr in (False, True))
    assert torch.equal(plain.flip(1), turned)
    assert not torch.equal(plain, turned)
    encoded(tmp_path / "png", made)
    with pytest.raises(OptionError, match="bgr is for arrays"):
        TieredImageNet(root=str(tmp_path / "png"), bgr=True).load(0)


# What is not the few-shot split is refused


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
        (lambda made: made.update(val=part(TIERED["val"][1:], 1)), "'val' has 96 classes instead of 97"),
        (lambda made: made.update(test=part(TIERED["test"], 2)), "'test' has 320 images instead of 160"),
        (
            lambda made: made.update(val=part([TIERED["train"][5], *TIERED["val"][1:]], 1)),
            "the class 'n00000006' is in its part 'train' and in its part 'val'; take the split of Ren",
        ),
    ],
)
def test_another_split_of_tiered_imagenet_is_refused(tmp_path, few, spoil, says):
    made = parts(TIERED, 1)
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


# Files that are damaged, missing, or not what they say


class _Evil:
    def __init__(self, call: Callable, *given: object) -> None:
        self.reduced = call, given

    def __reduce__(self) -> tuple:
        return self.reduced


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_that_is_a_program_does_not_run(tmp_path, few, protocol):
    labeled(tmp_path / "mini", parts(MINI_IMAGENET))
    file = tmp_path / "mini/miniImageNet_category_split_test.pickle"
    evil = _Evil(os.system, f"touch {tmp_path / 'ran'}")
    write(file, {"data": evil, "labels": []}, protocol)
    with pytest.raises(DataError, match=r"was not loaded, because it asks for (posix|nt)\.system") as caught:
        MiniImageNet(root=str(tmp_path / "mini")).load(0)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()
    pickle.loads(file.read_bytes())
    assert (tmp_path / "ran").exists()  # it would have run


@pytest.mark.parametrize(
    ("content", "asks"),
    [
        (_Evil(eval, "1"), r"\w+\.eval"),
        (_Evil(getattr, 1, "real"), r"\w+\.getattr"),
        (np.array([len], dtype=object), "an array of 'O"),
        (np.zeros(2, dtype=[("a", "u1")]), "an array of 'V"),
        (np.load, r"numpy\.load"),
        (Path("somewhere"), "pathlib"),
    ],
)
def test_only_plain_values_and_arrays_of_numbers_are_unpickled(tmp_path, content, asks):
    for protocol in (2, 4, 5):
        write(tmp_path / "file.pkl", {"data": [content]}, protocol)
        with pytest.raises(DataError, match=f"asks for {asks}"):
            unpickle.load(tmp_path / "file.pkl")


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_and_arrays_are_unpickled_as_they_were(tmp_path, protocol):
    arrays = [
        np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(3, dtype=">i4"),
        np.array(["ab", "c"]),
        np.zeros((0, 3), dtype=np.int16),
    ]
    plain = {"labels": [1, np.int64(5), 2.5, True, None], "bytes": b"\xff\x00", "set": {1, 2}, "word": "Straße"}
    write(tmp_path / "file.pkl", {"arrays": arrays, "plain": plain, b"key": (1, 2)}, protocol)
    found = unpickle.load(tmp_path / "file.pkl")
    for one, other in zip(found["arrays"], arrays, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    assert found["plain"] == plain
    assert found["key"] == [1, 2]


def test_a_pickle_of_python_2_is_read(tmp_path):
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    (tmp_path / "old.pkl").write_bytes(
        b"\x80\x02}(U\x04data" + array + b"(K\x01K\x02\x85" + kind + b"\x89U\x02\xfe\x01tbu."
    )
    np.testing.assert_array_equal(
        unpickle.load(tmp_path / "old.pkl")["data"], np.array([254, 1], np.uint8), strict=True
    )


def test_an_array_that_is_shorter_than_it_says_is_refused(tmp_path):
    content = pickle.dumps(np.zeros(5, np.uint8), 2)
    (tmp_path / "file.pkl").write_bytes(content.replace(b"K\x05\x85", b"K\x63\x85"))
    with pytest.raises(DataError, match=r"5 bytes for an array of \(99,\)"):
        unpickle.load(tmp_path / "file.pkl")


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
def test_a_file_that_ends_too_early_is_told_and_nothing_is_kept(tmp_path, few, layout, file, keep):
    tiered = layout in (zipped, encoded)
    layout(tmp_path / "here", parts(TIERED, 1) if tiered else parts(MINI_IMAGENET))
    os.truncate(tmp_path / "here" / file, int((tmp_path / "here" / file).stat().st_size * keep))
    with pytest.raises(DataError, match="cannot be read") as caught:
        (TieredImageNet if tiered else MiniImageNet)(root=str(tmp_path / "here")).load(0)
    assert "\n" not in str(caught.value)
    assert not [each for each in (tmp_path / "cache").iterdir() if each.is_dir()]


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
    layout(tmp_path, parts(TIERED, 1) if tiered else parts(MINI_IMAGENET))
    (tmp_path / missing).unlink()
    with pytest.raises(DataError, match=f"but not '{missing}': copy or download"):
        (TieredImageNet if tiered else MiniImageNet)(root=str(tmp_path)).load(0)


def test_missing_pictures_and_pictures_that_are_none_are_named(tmp_path, few):
    made = parts(MINI_IMAGENET)
    listed(tmp_path / "listed", made)
    lost = sorted((tmp_path / "listed/images").iterdir())[0]
    lost.write_text("no picture")
    with pytest.raises(DataError, match=f"cannot be read .*{lost.name}"):
        MiniImageNet(root=str(tmp_path / "listed")).load(0)
    lost.unlink()
    with pytest.raises(DataError, match=f"names the picture '{lost.name}', which is not in images/"):
        MiniImageNet(root=str(tmp_path / "listed")).load(0)
    folders(tmp_path / "folders", {name: made[name] for name in ("train", "test")})
    with pytest.raises(DataError, match="but not 'val/'"):
        MiniImageNet(root=str(tmp_path / "folders")).load(0)


def test_files_of_something_else_are_told(tmp_path, few):
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


@pytest.mark.parametrize(
    ("settings", "ways"),
    [
        (CifarFS(), ("--data.root FOLDER", "'cifar-fs/' or 'cifar100/'", "'uoft-cs/cifar100'", "network")),
        (MiniImageNet(), ("--data.root FOLDER", "OPL_DATA", "'mini-imagenet/'", "Zenodo", "not timm/mini-imagenet")),
        (TieredImageNet(), ("--data.root FOLDER", "OPL_DATA", "'tiered-imagenet/'", "Zenodo")),
    ],
)
def test_without_data_the_error_names_the_ways(settings, ways):
    for load in (lambda: settings.load(0), settings.novel_classes):
        with pytest.raises(DataError) as caught:
            load()
        assert all(way in str(caught.value) for way in ways)
        assert "\n" not in str(caught.value)


def test_the_hub_has_what_cifar_fs_is_made_of(tmp_path, few, monkeypatch):
    snapshots = tmp_path / "hf/hub/datasets--uoft-cs--cifar100/snapshots/0a1b/cifar100"
    cifar_100(snapshots)
    assert source.find("cifar-fs").where == "Hub uoft-cs/cifar100"
    assert len(CifarFS().load(0).train) == 384
    rows = {row["name"]: row for row in describe()}
    assert (rows["cifar-fs"]["here"], rows["mini-imagenet"]["here"]) == (True, False)
    assert "cifar-fs/ or cifar100/" in rows["cifar-fs"]["get"]


# The cache


def test_it_is_converted_once_and_an_interrupted_conversion_leaves_nothing(tmp_path, few, monkeypatch):
    made = parts(MINI_IMAGENET)
    labeled(tmp_path / "mini", made)
    convert, calls = packed.channels_first, []

    def interrupted(pixels):
        calls.append(len(pixels))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return convert(pixels)

    monkeypatch.setattr(packed, "channels_first", interrupted)
    settings = MiniImageNet(root=str(tmp_path / "mini"))
    with pytest.raises(KeyboardInterrupt):
        settings.load(0)
    assert not [each for each in (tmp_path / "cache").iterdir() if each.is_dir()]
    for _ in range(2):
        splits = settings.load(0)
        settings.novel_classes("val")
    same(splits.train, splits.class_names, made["train"])
    assert calls == [128, 32, 40, 128, 32, 40]


def test_only_the_part_that_is_asked_for_is_checked_and_damage_there_is_mended(tmp_path, few):
    made = parts(MINI_IMAGENET)
    labeled(tmp_path / "mini", made)
    settings = MiniImageNet(root=str(tmp_path / "mini"))
    settings.load(0)
    [kept] = [each for each in (tmp_path / "cache").iterdir() if each.is_dir()]
    os.truncate(kept / "test.pixels.npy", 5000)
    settings.load(0)
    with pytest.warns(OplWarning, match=r"test\.pixels\.npy .* is damaged"):
        found = settings.novel_classes("test")
    same(*found, made["test"])


# The settings


def test_the_shape_and_the_views_are_those_of_rfs():
    jitter = ColorJitter(0.4, 0.4, 0.4)
    assert CifarFS().augment == (PadCrop(4), jitter, Flip(0.5))
    for settings in (MiniImageNet(), TieredImageNet()):
        assert settings.augment == (PadCrop(8), jitter, Flip(0.5))
        assert (settings.size, settings.channels) == (84, 3)
        assert settings.mean == pytest.approx((0.47214, 0.45331, 0.40996), abs=1e-5)
        assert settings.std == pytest.approx((0.27718, 0.26775, 0.28449), abs=1e-5)
    assert (CifarFS.mean, CifarFS.std) == ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))
    assert CifarFS(padding=0, jitter=0, flip=0).augment == ()
    assert [each().num_classes for each in (CifarFS, MiniImageNet, TieredImageNet)] == [64, 64, 351]


def test_the_class_lists_are_complete_and_in_order():
    for lists in (CIFAR_FS, MINI_IMAGENET):
        assert [len(lists[name]) for name in PARTS] == [64, 16, 20]
        assert len({each for names in lists.values() for each in names}) == 100
        assert all(list(names) == sorted(names) for names in lists.values())
    for name, settings in (("cifar-fs", CifarFS), ("mini-imagenet", MiniImageNet), ("tiered-imagenet", TieredImageNet)):
        known = CATALOG[name]
        assert known.classes == {"train": settings.all_classes, **settings.new_classes}
        assert known.num_classes == sum(known.classes.values())


def test_settings_that_cannot_be_are_refused(tmp_path, few):
    labeled(tmp_path, parts(MINI_IMAGENET))
    for given, says in (
        ({"classes": 65}, "give 2 to 64"),
        ({"holdout": 2}, "give 0 to 1"),
        ({"holdout": -2}, "holdout=-2"),
    ):
        with pytest.raises(OptionError, match=says):
            MiniImageNet(root=str(tmp_path), **given).load(0)
    with pytest.raises(OptionError, match="'train' does not exist"):
        MiniImageNet(root=str(tmp_path)).novel_classes("train")


def test_held_out_images_are_as_many_of_each_class_and_follow_the_seed():
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


def test_settings_are_kept_in_a_recipe():
    from opl.experiments.training.build import KINDS
    from opl.experiments.types import DataSet

    for settings in (CifarFS(holdout=3), MiniImageNet(padding=2), TieredImageNet(bgr=True), Synthetic("cifar-fs")):
        assert from_json(json.loads(json.dumps(to_json(settings))), DataSet, KINDS) == settings


# Synthetic data


@pytest.mark.parametrize("settings", [CifarFS(), MiniImageNet(), TieredImageNet()])
def test_made_up_data_has_the_shape_of_a_few_shot_data_set(settings):
    made = Synthetic(settings.name, classes=4, rows=8, val=0, test=0, per_new_class=2)
    shape = (3, settings.size, settings.size)
    assert (made.mean, made.std, made.augment) == (settings.mean, settings.std, settings.augment)
    assert (made.num_classes, Synthetic(settings.name).num_classes) == (4, settings.num_classes)
    assert made.load(0).train.pixels.shape == (8, *shape)
    for name, count in (("val", 16), ("test", 20)):
        found, names = made.novel_classes(name)
        assert found.pixels[found.rows].shape == (2 * count, *shape)
        assert found.labels[found.rows].bincount().tolist() == [2] * len(names) == [2] * count


def test_made_up_new_classes_are_new_and_can_be_told_apart():
    made = Synthetic("cifar-fs", classes=4)
    base = made.load(0).train.pixels[:4].float().flatten(1)
    for name, count in (("val", 16), ("test", 20)):
        found, _ = made.novel_classes(name)
        flat = found.pixels.float().flatten(1)
        means = torch.stack([flat[found.labels == each][:5].mean(0) for each in range(count)])
        query = torch.cat([flat[found.labels == each][5:] for each in range(count)])
        nearest = torch.cdist(query, means).argmin(1)
        assert (nearest == torch.arange(count).repeat_interleave(15)).float().mean() > 0.95
        assert torch.cdist(means, base).min() > torch.cdist(query, means).min(1).values.median()
    assert torch.equal(found.pixels, made.novel_classes("test")[0].pixels)
    assert not torch.equal(found.pixels[0], made.novel_classes("val")[0].pixels[0])


def test_made_up_data_like_other_sets_is_as_it_was_and_has_no_new_classes():
    with pytest.raises(OptionError, match="novel classes need data like 'cifar-fs'"):
        Synthetic("mnist").novel_classes()
    for like, channels, size, classes in (("digits", 1, 8, 10), ("mnist", 1, 28, 10), ("cifar100", 3, 32, 100)):
        chance = torch.Generator().manual_seed(0)
        coarse = torch.rand(classes, channels, 4, 4, generator=chance)
        patterns = torch.nn.functional.interpolate((coarse + coarse.flip(3)) / 2, size=(size, size), mode="bilinear")
        noise = torch.randn(448, channels, size, size, generator=chance) * 0.1
        expected = (patterns[torch.arange(448) % classes] + noise).clamp(0, 1).mul(255).round().to(torch.uint8)
        assert torch.equal(Synthetic(like).load(0).train.pixels, expected)


# The real thing

REAL = os.environ.get("OPL_DATA", "")


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """CIFAR-100 by another way, as rows of (class name, encoded picture), and the cache of CIFAR-FS made of it."""
    folder = Path(REAL, "cifar100")
    if not REAL or not folder.is_dir():
        pytest.skip("OPL_DATA names no folder with 'cifar100'")
    rows = []
    for split in ("train", "test"):
        table = pq.read_table(next(folder.rglob(f"{split}*.parquet")))
        names = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]["fine_label"]["names"]
        names[26] = "crab"
        pictures = (each["bytes"] for each in table.column("img").to_pylist())
        rows += zip((names[label] for label in table.column("fine_label").to_pylist()), pictures, strict=True)
    return str(folder), rows, str(tmp_path_factory.mktemp("real"))


def test_real_cifar_fs_is_complete_and_every_image_is_that_of_cifar_100(real, monkeypatch):
    root, rows, kept = real
    monkeypatch.setenv("OPL_CACHE", kept)
    splits = CifarFS(root=root).load(0)
    found = {
        "train": (splits.train, splits.class_names),
        **{n: CifarFS(root=root).novel_classes(n) for n in ("val", "test")},
    }
    assert [len(found[name][0]) for name in PARTS] == [38_400, 9_600, 12_000]
    assert not len(splits.val)
    assert not len(splits.test)
    for name, (images, names) in found.items():
        assert names == CIFAR_FS[name]
        assert images.labels[images.rows].bincount().tolist() == [600] * len(names)
        expected = [(each, picture) for each, picture in rows if each in names]
        for place in np.random.default_rng(0).choice(len(expected), 150, replace=False):
            each, picture = expected[place]
            assert names[images.labels[place]] == each
            pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).transpose(2, 0, 1)
            np.testing.assert_array_equal(images.pixels[place].numpy(), pixels)
    names = [each for _, names in found.values() for each in names]
    assert len(names) == len(set(names)) == 100  # no class in two parts
    groups = dict(zip(splits.class_names, splits.groups, strict=True))
    assert groups["bee"] == groups["caterpillar"] == groups["cockroach"]
    assert len(set(groups.values())) > 10


def test_real_cifar_fs_holds_out_the_test_images_of_cifar_100(real, monkeypatch):
    root, rows, kept = real
    monkeypatch.setenv("OPL_CACHE", kept)
    for held in (100, -1):
        splits = CifarFS(root=root, holdout=held).load(0)
        assert (len(splits.train), len(splits.test)) == (32_000, 6_400)
        expected = [(each, picture) for each, picture in rows[50_000:] if each in CIFAR_FS["train"]]
        assert [splits.class_names[label] for label in splits.test.labels[splits.test.rows]] == [n for n, _ in expected]
        for place in range(0, 6_400, 100):
            pixels = np.asarray(Image.open(io.BytesIO(expected[place][1])).convert("RGB")).transpose(2, 0, 1)
            np.testing.assert_array_equal(splits.test.pixels[splits.test.rows[place]].numpy(), pixels)
    assert not set(splits.train.rows.tolist()) & set(splits.test.rows.tolist())
