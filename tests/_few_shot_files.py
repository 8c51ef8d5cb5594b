"""Few-shot data sets written in every layout that they come in."""

import csv
import json
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from _image_files import png
from opl.experiments.data import CATALOG

CIFAR_FS = CATALOG["cifar-fs"].lists

PARTS = ("train", "val", "test")
CIFAR_100 = sorted(name for names in CIFAR_FS.values() for name in names)

Part = tuple[np.ndarray, list[str]]  # (N, H, W, 3), and the class of each


def part(names: list[str] | tuple[str, ...], each: int = 2, size: int = 84, seed: int = 0) -> Part:
    random = np.random.default_rng(seed)
    classes = [names[index] for index in random.permutation(np.repeat(np.arange(len(names)), each))]
    coarse = random.integers(0, 256, (len(classes), 2, 2, 3), dtype=np.uint8)  # no two alike, and quickly written
    return coarse.repeat(size // 2, axis=1).repeat(size // 2, axis=2), classes


def parts(lists: dict[str, list[str]], each: int = 2, size: int = 84) -> dict[str, Part]:
    return {name: part(lists[name], each, size, seed) for seed, name in enumerate(PARTS)}


def write(file: Path, content: object, protocol: int = 2) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps(content, protocol))


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
        numbers = {each: first + index for index, each in enumerate(sorted(set(classes)))}
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
            for index, (image, each) in enumerate(zip(pixels, classes, strict=True)):
                table.writerow([f"{each}{index:08d}.png", each])
                (folder / "images" / f"{each}{index:08d}.png").write_bytes(png(image))


def folders(folder: Path, made: dict[str, Part]) -> None:
    for name, (pixels, classes) in made.items():
        for index, (image, each) in enumerate(zip(pixels, classes, strict=True)):
            (folder / name / each).mkdir(parents=True, exist_ok=True)
            (folder / name / each / f"{index}.PNG").write_bytes(png(image))


def hub(folder: Path, made: dict[str, Part]) -> None:
    for name, split in zip(PARTS, ("train", "validation", "test"), strict=True):
        names = sorted(each for _, classes in made.values() for each in set(classes))
        write_parquet(folder / f"data/{split}-00000-of-00001.parquet", made[name], names)


def zipped(folder: Path, made: dict[str, Part]) -> None:
    for name, (pixels, classes) in made.items():
        numbers = {each: index for index, each in enumerate(sorted(set(classes)))}
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(folder / f"{name}_images.npz", images=pixels)
        write(folder / f"{name}_labels.pkl", {"labels": [numbers[each] for each in classes]})


def encoded(folder: Path, made: dict[str, Part]) -> None:
    for name, (pixels, classes) in made.items():
        names = sorted(set(classes), reverse=True)  # the numbers need not be in alphabetical order
        labels = {"label_specific": np.array([names.index(each) for each in classes]), "label_specific_str": names}
        kinds = (lambda file: np.frombuffer(file, np.uint8)[:, None], bytes, lambda file: file.decode("latin1"))
        encoded_images = [kinds[index % 3](png(image)) for index, image in enumerate(pixels)]
        write(folder / f"{name}_images_png.pkl", encoded_images)
        write(folder / f"{name}_labels.pkl", labels)


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
    places = {image.tobytes(): index for index, image in enumerate(made[0].transpose(0, 3, 1, 2))}
    return [places[image.numpy().tobytes()] for image in found.pixels[found.rows]]
