"""Data with domains: read as PIL reads it, and one domain left out of all that is learned from."""

import io
import json
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from _image_files import png
from opl.errors import DataError, OptionError
from opl.experiments.data import ColorJitter, DomainFolder, Flip, Grayscale, Pacs, RandomResizedCrop
from opl.experiments.data import domains as module
from opl.experiments.types import Images

DOMAINS, CLASSES = ("art", "photo", "sketch"), ("cat", "dog")
SMALL = {"art": (12, 4), "photo": (24, 8), "sketch": (36, 12)}  # for training and for validation


pytestmark = pytest.mark.usefixtures("apart")


@cache
def encoded_images(seed: int = 0) -> list[tuple[str, str, str, bytes]]:
    """Domain, class, file and PNG of each, of several sizes and shapes."""
    random, result = np.random.default_rng(seed), []
    for domain in DOMAINS:
        for number in range(sum(SMALL[domain])):
            pixels = random.integers(0, 256, (*random.integers(9, 30, 2), 3), dtype=np.uint8)
            result.append((domain, CLASSES[number % 4 == 3], f"{number:03}.png", png(pixels)))
    return result


def write_folders(folder: Path) -> Path:
    for domain, name, file, content in encoded_images():
        (folder / domain / name).mkdir(parents=True, exist_ok=True)
        (folder / domain / name / file).write_bytes(content)
    return folder


def write_parquet(folder: Path, *, paths: bool, column: str = "domain") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng(1).permutation(len(encoded_images()))
    rows = [encoded_images()[index] for index in order]
    image = pa.array([{"bytes": content, "path": file if paths else None} for _, _, file, content in rows])
    labels = pa.array([CLASSES.index(name) for _, name, _, _ in rows])
    table = pa.table({"image": image, "label": labels, column: pa.array([row[0] for row in rows])})
    features = {"image": {"_type": "Image"}, "label": {"names": list(CLASSES), "_type": "ClassLabel"}}
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, folder / "train-00000-of-00001.parquet")
    return folder


def write_lists(folder: Path) -> Path:
    folder.mkdir()
    for domain, (fit, _) in SMALL.items():
        lines = [
            f"{domain}/{name}/{file} {CLASSES.index(name) + 1}" for d, name, file, _ in encoded_images() if d == domain
        ]
        (folder / f"{domain}_train_kfold.txt").write_text("\n".join(lines[:fit]) + "\n")
        (folder / f"{domain}_crossval_kfold.txt").write_text("\n".join(lines[fit:]) + "\n")
    return folder


def content(part: Images) -> set[tuple[bytes, int]]:
    return {
        (pixels.numpy().tobytes(), int(label))
        for pixels, label in zip(*part.take(torch.arange(len(part))), strict=True)
    }


@cache
def by_content(size: int = 16) -> dict[tuple[bytes, int], tuple[str, str]]:
    """The domain and the file of each image, by its pixels as Pillow resizes them and its class."""
    result = {}
    for domain, name, file, encoded in encoded_images():
        image = Image.open(io.BytesIO(encoded), formats=("PNG",)).resize((size, size), Image.Resampling.BILINEAR)
        result[np.asarray(image).transpose(2, 0, 1).tobytes(), CLASSES.index(name)] = domain, file
    return result


def expected(domains) -> set[tuple[bytes, int]]:
    return {image for image, (domain, _) in by_content().items() if domain in domains}


@pytest.mark.parametrize("kind", ["folders", "deeper folders", "parquet", "parquet with names"])
@pytest.mark.parametrize("target", DOMAINS)
def test_any_data_set_with_domains_is_read_and_its_target_is_left_out(tmp_path, kind, target):
    root = tmp_path / "data"
    if "folders" in kind:
        write_folders(root / "kfold" if "deeper" in kind else root)
    else:
        write_parquet(root, paths="names" in kind)
    splits = DomainFolder(root=str(root), target=target, num_classes=2, size=16, val=0.25).load(0)
    others = set(DOMAINS) - {target}
    assert content(splits.test) == expected({target})
    assert content(splits.train) | content(splits.val) == expected(others)
    assert not content(splits.train) & content(splits.val)
    assert (splits.class_names, splits.domain_names) == (CLASSES, DOMAINS)
    for part, there in ((splits.train, others), (splits.val, others), (splits.test, {target})):
        assert {DOMAINS[number] for number in part.domains[part.rows].tolist()} == there
    counts = Counter((DOMAINS.index(d), CLASSES.index(name)) for d, name, _, _ in encoded_images() if d != target)
    held = {key: count // 4 for key, count in counts.items()}  # the same share of every class of every domain
    assert per_domain_and_class(splits.val) == held


def per_domain_and_class(part: Images) -> Counter:
    return Counter(zip(part.domains[part.rows].tolist(), part.labels[part.rows].tolist(), strict=True))


def test_images_are_decoded_once_per_size(tmp_path, monkeypatch):
    data = DomainFolder(root=str(write_folders(tmp_path / "data")), target="art", num_classes=2, size=16)
    first = data.load(0)
    # decoding again would fail
    monkeypatch.setattr("opl.experiments.data.read.decode.decode_all", None)
    again = replace(data, target="photo").load(0)
    assert torch.equal(first.train.pixels, again.train.pixels)
    monkeypatch.undo()
    monkeypatch.setenv("OPL_CACHE", str(tmp_path / "cache"))
    assert replace(data, size=8).load(0).train.pixels.shape == (96, 3, 8, 8)


def test_the_domain_column_and_the_number_of_images_can_be_set(tmp_path):
    root = write_parquet(tmp_path / "data", paths=False, column="style")
    data = DomainFolder(root=str(root), target="art", num_classes=2, size=8, column="style", per_class=2)
    splits = data.load(0)
    counts = per_domain_and_class(splits.train)
    assert set(counts.values()) == {2}
    assert len(counts) == 4
    with pytest.raises(DataError, match="no column 'domain'"):
        replace(data, column="domain").load(0)


def test_a_number_of_training_and_test_images_is_drawn_anew_for_each_seed(tmp_path):
    root = write_folders(tmp_path / "data")
    data = DomainFolder(root=str(root), target="sketch", num_classes=2, size=8, split_seed=-1)
    some = replace(data, train_images=20, test_images=15)
    drawn = [[set(part.rows.tolist()) for part in (splits.train, splits.test)] for splits in map(some.load, (0, 0, 1))]
    every = [set(part.rows.tolist()) for splits in [data.load(0)] for part in (splits.train, splits.test)]
    assert [len(rows) for rows in drawn[0]] == [20, 15]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(some_rows < all_rows for some_rows, all_rows in zip(drawn[0], every, strict=True))
    assert some.load(0).val.rows.equal(data.load(0).val.rows)


def test_with_all_targets_the_held_out_images_of_every_domain_are_tested(tmp_path):
    root = write_folders(tmp_path / "data")
    splits = DomainFolder(root=str(root), target="all", num_classes=2, size=16, val=0.25, per_class=5).load(0)
    assert Counter(splits.train.labels[splits.train.rows].tolist()) == {0: 5, 1: 5}  # over all domains
    assert Counter(splits.test.domains[splits.test.rows].tolist()) == {0: 4, 1: 8, 2: 12}  # a quarter of each
    assert len(splits.val) == 0
    assert not set(splits.train.rows.tolist()) & set(splits.test.rows.tolist())


@pytest.mark.parametrize("paths", [True, False], ids=["parquet with names", "folders"])
def test_official_lists_are_followed_exactly(tmp_path, monkeypatch, paths):
    monkeypatch.setattr(module, "PACS", SMALL)
    monkeypatch.setattr(Pacs, "num_classes", 2)
    root = write_parquet(tmp_path / "data", paths=True) if paths else write_folders(tmp_path / "data")
    data = Pacs(root=str(root), target="photo", size=16, lists=str(write_lists(tmp_path / "lists")))
    splits = data.load(0)
    chosen = [entry for entry in encoded_images() if entry[0] != "photo"]
    fit = {(d, f) for d, _, f, _ in chosen if int(f[:3]) < SMALL[d][0]}
    for part, wanted in ((splits.train, fit), (splits.val, {(d, f) for d, _, f, _ in chosen} - fit)):
        assert {by_content()[image] for image in content(part)} == wanted
    by_chance = replace(data, lists="").load(0)
    assert (len(by_chance.train), len(by_chance.val)) == (len(splits.train), len(splits.val)) == (48, 16)


def test_wrong_data_and_settings_are_refused_with_the_reason(tmp_path, monkeypatch):
    root = write_parquet(tmp_path / "data", paths=False)
    good = DomainFolder(root=str(root), target="art", num_classes=2, size=8)
    loose = write_folders(tmp_path / "loose")
    (loose / "art" / "stray.png").write_bytes(encoded_images()[0][3])
    for data, kind, reason in (
        (replace(good, target="phto"), OptionError, "domain 'phto' does not exist: did you mean 'photo'"),
        (replace(good, num_classes=3), DataError, "2 classes instead of 3: set num_classes"),
        (replace(good, num_classes=0), OptionError, "num_classes is 0"),
        (replace(good, val=1.0), OptionError, "val is 1"),
        (replace(good, crop=0.0), OptionError, "data.crop is 0"),
        (Pacs(root=str(root), size=8), DataError, "0 images of 'art_painting' instead of 2048: get the complete"),
        (Pacs(), DataError, r"there is no pacs on this machine: .*OPL_DATA.*Hub"),
        (replace(good, lists=str(write_lists(tmp_path / "lists"))), DataError, "names of its files"),
        (replace(good, root=str(loose)), DataError, r"different depths.*stray\.png"),
    ):
        with pytest.raises(kind, match=reason):
            data.load(0)


def test_lists_that_do_not_match_the_data_are_refused_with_the_reason(tmp_path, monkeypatch):
    data = DomainFolder(root=str(write_folders(tmp_path / "data")), target="art", num_classes=2, size=8)
    lists = write_lists(tmp_path / "lists")
    data = replace(data, lists=str(lists))
    assert len(data.load(0).val) == 20
    photo, held = lists / "photo_train_kfold.txt", lists / "photo_crossval_kfold.txt"
    text = photo.read_text()
    for content, reason in (
        (f"{text}photo/cat/999.png 1\n".encode(), "names 'photo/cat/999.png', which is not an image of 'photo'"),
        (photo.read_bytes() + held.read_bytes(), "for training and for validation"),
        (f"{text}{text.splitlines()[0]}".encode(), "names 24 different images instead of 25"),
        (b"\xff\xfe", r"the list '.*photo_train_kfold\.txt' cannot be read"),
    ):
        photo.write_bytes(content)
        with pytest.raises(DataError, match=reason):
            data.load(0)
    photo.unlink()
    with pytest.raises(DataError, match=r"no list 'photo_train\*\.txt'"):
        data.load(0)


def test_pacs_is_augmented_as_in_rscs_code():
    steps = Pacs().augment
    assert steps == (RandomResizedCrop(222, 0.8), Flip(0.5), ColorJitter(0.4, 0.4, 0.4, 0.4), Grayscale(0.1))
    assert Pacs(crop=1.0, flip=0.0, jitter=0.0, gray=0.0).augment == ()
    assert Pacs(jitter=0.8).augment[2].hue == 0.5
    assert (Pacs.mean, Pacs.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
