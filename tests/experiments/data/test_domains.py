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

from opl.errors import DataError, OptionError
from opl.experiments.data import ColorJitter, DomainFolder, Flip, Grayscale, Pacs, RandomResizedCrop
from opl.experiments.data import domains as module
from opl.experiments.types import Images

DOMAINS, CLASSES = ("art", "photo", "sketch"), ("cat", "dog")
SMALL = {"art": (12, 4), "photo": (24, 8), "sketch": (36, 12)}  # for training and for validation


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    monkeypatch.delenv("OPL_DATA", raising=False)
    monkeypatch.setenv("OPL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@cache
def encoded_images(seed: int = 0) -> list[tuple[str, str, str, bytes]]:
    """Domain, class, file and PNG of each, of several sizes and shapes."""
    random, result = np.random.default_rng(seed), []
    for domain in DOMAINS:
        for number in range(sum(SMALL[domain])):
            height, width = random.integers(9, 30, 2)
            stream = io.BytesIO()
            Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(stream, "png")
            result.append((domain, CLASSES[number % 4 == 3], f"{number:03}.png", stream.getvalue()))
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


def expected(domains, size: int = 16) -> set[tuple[bytes, int]]:
    result = set()
    for domain, name, _, encoded in encoded_images():
        if domain in domains:
            resized = (
                Image.open(io.BytesIO(encoded), formats=("PNG", "JPEG"))
                .convert("RGB")
                .resize((size, size), Image.Resampling.BILINEAR)
            )
            result.add((np.asarray(resized).transpose(2, 0, 1).tobytes(), CLASSES.index(name)))
    return result


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
    held = Counter(
        (DOMAINS[d], c) for d, c in zip(*(x[splits.val.rows].tolist() for x in _both(splits.val)), strict=True)
    )
    counts = Counter((domain, CLASSES.index(name)) for domain, name, _, _ in encoded_images() if domain != target)
    assert held == {key: count // 4 for key, count in counts.items()}  # the same share of every class of every domain


def _both(part: Images):
    return part.domains, part.labels


def test_images_are_decoded_once_per_size(tmp_path, monkeypatch):
    data = DomainFolder(root=str(write_folders(tmp_path / "data")), target="art", num_classes=2, size=16)
    first = data.load(0)
    # whoever decodes again fails
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
    counts = Counter(zip(*(x[splits.train.rows].tolist() for x in _both(splits.train)), strict=True))
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
def test_official_lists_are_followed_to_the_letter(tmp_path, monkeypatch, paths):
    monkeypatch.setattr(module, "PACS", SMALL)
    monkeypatch.setattr(Pacs, "num_classes", 2)
    root = write_parquet(tmp_path / "data", paths=True) if paths else write_folders(tmp_path / "data")
    data = Pacs(root=str(root), target="photo", size=16, lists=str(write_lists(tmp_path / "lists")))
    splits = data.load(0)
    chosen = [entry for entry in encoded_images() if entry[0] != "photo"]
    fit = {(d, f) for d, _, f, _ in chosen if int(f[:3]) < SMALL[d][0]}
    for part, wanted in ((splits.train, fit), (splits.val, {(d, f) for d, _, f, _ in chosen} - fit)):
        by_content = {}
        for domain, name, file, encoded in encoded_images():
            resized = (
                Image.open(io.BytesIO(encoded), formats=("PNG", "JPEG"))
                .convert("RGB")
                .resize((16, 16), Image.Resampling.BILINEAR)
            )
            by_content[np.asarray(resized).transpose(2, 0, 1).tobytes(), CLASSES.index(name)] = domain, file
        assert {by_content[image] for image in content(part)} == wanted
    by_chance = replace(data, lists="").load(0)
    assert (len(by_chance.train), len(by_chance.val)) == (len(splits.train), len(splits.val)) == (48, 16)


def test_wrong_data_and_settings_are_refused_with_the_reason(tmp_path, monkeypatch):
    root = write_parquet(tmp_path / "data", paths=False)
    good = DomainFolder(root=str(root), target="art", num_classes=2, size=8)
    with pytest.raises(OptionError, match="domain 'phto' does not exist: did you mean 'photo'"):
        replace(good, target="phto").load(0)
    with pytest.raises(DataError, match="2 classes instead of 3: set num_classes"):
        replace(good, num_classes=3).load(0)
    with pytest.raises(OptionError, match="num_classes is 0"):
        replace(good, num_classes=0).load(0)
    with pytest.raises(OptionError, match="val is 1"):
        replace(good, val=1.0).load(0)
    with pytest.raises(OptionError, match="crop is 0"):
        _ = replace(good, crop=0.0).augment
    with pytest.raises(DataError, match="0 images of 'art_painting' instead of 2048: get the complete"):
        Pacs(root=str(root), size=8).load(0)
    with pytest.raises(DataError, match=r"there is no pacs on this machine: .*OPL_DATA.*Hub"):
        Pacs().load(0)
    with pytest.raises(DataError, match="names of its files"):
        replace(good, lists=str(write_lists(tmp_path / "lists"))).load(0)
    loose = write_folders(tmp_path / "loose")
    (loose / "art" / "stray.png").write_bytes(encoded_images()[0][3])
    with pytest.raises(DataError, match=r"different depths.*stray\.png"):
        replace(good, root=str(loose)).load(0)


def test_lists_that_do_not_match_the_data_are_refused_with_the_reason(tmp_path, monkeypatch):
    data = DomainFolder(root=str(write_folders(tmp_path / "data")), target="art", num_classes=2, size=8)
    lists = write_lists(tmp_path / "lists")
    data = replace(data, lists=str(lists))
    assert len(data.load(0).val) == 20
    photo, held = lists / "photo_train_kfold.txt", lists / "photo_crossval_kfold.txt"
    text = photo.read_text()
    photo.write_text(text + "photo/cat/999.png 1\n")
    with pytest.raises(DataError, match=r"names 'photo/cat/999.png', which is not an image of 'photo'"):
        data.load(0)
    photo.write_text(text + held.read_text())
    with pytest.raises(DataError, match="for training and for validation"):
        data.load(0)
    photo.write_text(text + text.splitlines()[0])
    with pytest.raises(DataError, match="names 24 different images instead of 25"):
        data.load(0)
    photo.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"the list '.*photo_train_kfold\.txt' cannot be read"):
        data.load(0)
    photo.unlink()
    with pytest.raises(DataError, match=r"no list 'photo_train\*\.txt'"):
        data.load(0)


def test_pacs_is_augmented_as_in_rscs_code():
    steps = Pacs().augment
    assert steps == (RandomResizedCrop(222, (0.8, 1.0)), Flip(0.5), ColorJitter(0.4, 0.4, 0.4, 0.4), Grayscale(0.1))
    assert Pacs(crop=1.0, flip=0.0, jitter=0.0, gray=0.0).augment == ()
    assert Pacs(jitter=0.8).augment[2].hue == 0.5
    assert (Pacs.mean, Pacs.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
