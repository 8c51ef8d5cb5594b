"""Data: found where it is, decoded once and correctly, cut as asked, and served the same to any number of processes."""

import gzip
import io
import json
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from scipy import stats

from opl.errors import DataError, OplWarning, OptionError
from opl.experiments.data import (
    CATALOG,
    Batches,
    Cifar10,
    Cifar100,
    ColorJitter,
    Digits,
    FashionMnist,
    Flip,
    Mnist,
    PadCrop,
    Synthetic,
    describe,
    find,
    split,
    subset,
)
from opl.experiments.data.readers import cache, hub
from opl.experiments.seeds import mix
from opl.experiments.types import Images

# A small data set in the layout of MNIST


def png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "png")
    return stream.getvalue()


def write(file: Path, pixels: np.ndarray, labels: list[int], names: list[str], image: str = "image", **more) -> None:
    told = {image: {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
    column = pa.array([{"bytes": png(picture), "path": None} for picture in pixels])
    columns = {name: pa.array(values, pa.int64()) for name, values in {"label": labels, **more}.items()}
    table = pa.table({image: column, **columns})
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": told}})}), file)


def write_mnist(folder: Path, seed: int = 0) -> dict[str, tuple[np.ndarray, list[int]]]:
    random, parts = np.random.default_rng(seed), {}
    for name, count in (("train", 40), ("test", 20)):
        pixels = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        parts[name] = pixels, [i % 10 for i in range(count)]
        write(folder / f"{name}-00000-of-00001.parquet", *parts[name], [str(digit) for digit in range(10)])
    return parts


pytestmark = pytest.mark.usefixtures("apart")


@pytest.fixture
def shelf(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("OPL_DATA", str(tmp_path / "shelf"))
    return tmp_path / "shelf"


def cached(tmp_path: Path) -> list[Path]:
    return sorted(path for path in (tmp_path / "cache").iterdir() if path.is_dir())


# Where it is


def test_without_data_the_error_names_the_three_ways():
    with pytest.raises(DataError) as caught:
        Cifar100().load(0)
    for way in ("--data.root FOLDER", "OPL_DATA", "'uoft-cs/cifar100'", "network"):
        assert way in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_network_that_never_answers_is_given_up_on_in_seconds(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(hub, "PATIENCE", 0.5)
        start = time.monotonic()
        with pytest.raises(DataError, match="FOLDER"):
            find("mnist")
        assert time.monotonic() - start < 3


def test_a_named_folder_comes_before_opl_data_and_that_before_the_hub(tmp_path, shelf):
    write_mnist(tmp_path / "hf/hub/datasets--ylecun--mnist/snapshots/0a1b/mnist")
    assert find("mnist").where == "Hub ylecun/mnist"
    write_mnist(shelf / "mnist")
    assert find("mnist").where == str(shelf / "mnist")
    write_mnist(tmp_path / "mine")
    assert find("mnist", str(tmp_path / "mine")).where == str(tmp_path / "mine")


def test_a_named_folder_without_the_data_is_an_error_and_not_a_reason_to_look_elsewhere(tmp_path, shelf):
    write_mnist(shelf / "mnist")
    with pytest.raises(DataError, match=r"no mnist in --data\.root"):
        find("mnist", str(tmp_path / "elsewhere"))


@pytest.mark.parametrize("deeper", ["", "mnist", "data", "whatever"])
def test_files_may_lie_one_folder_deeper_as_on_the_hub(tmp_path, deeper):
    write_mnist(tmp_path / "here" / deeper)
    assert find("mnist", str(tmp_path / "here")).count() == 60


def test_files_may_lie_in_a_folder_for_each_split(tmp_path):
    write_mnist(tmp_path)
    for name in ("train", "test"):
        (tmp_path / "here/mnist" / name).mkdir(parents=True)
        (tmp_path / f"{name}-00000-of-00001.parquet").rename(tmp_path / "here/mnist" / name / "0000.parquet")
    assert len(Mnist(root=str(tmp_path / "here"), val=0).load(0).test) == 20


def test_a_missing_split_and_a_missing_file_of_a_split_are_told(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "train-00000-of-00001.parquet").rename(tmp_path / "train-00000-of-00002.parquet")
    with pytest.raises(DataError, match="1 of the 2 files"):
        find("mnist", str(tmp_path))
    (tmp_path / "train-00000-of-00002.parquet").unlink()
    with pytest.raises(DataError, match="no single set of Parquet files"):
        find("mnist", str(tmp_path))


def test_what_the_hub_sends_is_read_like_any_folder(tmp_path, monkeypatch):
    import huggingface_hub

    def download(name, **_):
        assert name == "ylecun/mnist"
        write_mnist(tmp_path / "sent/mnist")
        return str(tmp_path / "sent")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(hub, "is_reachable", lambda: True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    splits = Mnist(val=0).load(0)
    assert (len(splits.train), splits.source) == (40, "Hub ylecun/mnist")


def test_pictures_in_folders_are_read_through_datasets(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    for name in ("train", "test"):
        for digit in range(10):
            folder = tmp_path / "pictures" / name / str(digit)
            folder.mkdir(parents=True)
            Image.fromarray(np.full((28, 28), 20 * digit, dtype=np.uint8)).save(folder / "a.png")
    splits = Mnist(root=str(tmp_path / "pictures"), val=0).load(0)
    pixels, labels = splits.train.take(torch.arange(10))
    assert torch.equal(pixels[:, 0, 0, 0].long(), labels * 20)
    assert labels.sort().values.tolist() == list(range(10))


def test_a_folder_of_something_else_is_told(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/diary.docx").write_text("not a data set")
    with pytest.raises(DataError, match="cannot be read"):
        Mnist(root=str(tmp_path / "notes")).load(0)


def test_the_description_knows_what_is_here_and_what_is_not(shelf):
    write_mnist(shelf / "mnist")
    rows = {row["name"]: row for row in describe()}
    assert set(rows) == {"digits", *CATALOG}
    assert (rows["mnist"]["here"], rows["mnist"]["images"]) == (True, 60)
    assert rows["mnist"]["where"] == str(shelf / "mnist")
    assert (rows["cifar100"]["here"], rows["cifar100"]["images"]) == (False, 60_000)
    assert "uoft-cs/cifar100" in rows["cifar100"]["get"]
    assert rows["digits"]["here"]


# The cache


def test_decoded_pixels_and_labels_are_those_that_were_encoded(shelf):
    parts = write_mnist(shelf / "mnist")
    decoded = cache.load("mnist")
    for name, (pixels, labels) in parts.items():
        assert torch.equal(decoded.parts[name].pixels, torch.from_numpy(pixels)[:, None])
        assert decoded.parts[name].labels["label"].tolist() == labels
    assert decoded.names["label"] == tuple("0123456789")


def test_a_data_set_is_decoded_once_and_again_when_it_changed(shelf, tmp_path, monkeypatch):
    write_mnist(shelf / "mnist")
    builds, build = [], cache._build
    monkeypatch.setattr(cache, "_build", lambda *given: (builds.append(given), build(*given)))
    for _ in range(3):
        cache.load("mnist")
    assert len(builds) == 1
    other = write_mnist(shelf / "mnist", seed=1)
    assert torch.equal(cache.load("mnist").parts["test"].pixels[:, 0], torch.from_numpy(other["test"][0]))
    assert len(builds) == 2


def test_what_is_written_to_the_pixels_does_not_reach_the_disk_and_nothing_is_warned(shelf, recwarn):
    write_mnist(shelf / "mnist")
    pixels = cache.load("mnist").parts["train"].pixels
    before = pixels[0].clone()
    pixels[0] = 7
    assert torch.equal(cache.load("mnist").parts["train"].pixels[0], before)
    assert not [warning for warning in recwarn if "writable" in str(warning.message)]


def test_a_warm_start_imports_none_of_the_heavy_libraries(shelf):
    write_mnist(shelf / "mnist")
    cache.load("mnist")
    code = "import sys; from opl.experiments.data import Mnist; Mnist(val=5).load(0); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "opl.experiments.data.readers.cache" in loaded
    assert not {"datasets", "pyarrow", "huggingface_hub", "rich", "PIL"} & set(loaded)


def _truncate(folder: Path) -> None:
    os.truncate(folder / "train.pixels.npy", 5000)


def _flip_a_bit(folder: Path) -> None:
    content = bytearray((folder / "test.pixels.npy").read_bytes())
    content[3000] ^= 1
    (folder / "test.pixels.npy").write_bytes(content)


def _remove_labels(folder: Path) -> None:
    (folder / "test.label.npy").unlink()


def _spoil_contents(folder: Path) -> None:
    text = (folder / "contents.json").read_text()
    (folder / "contents.json").write_text(text.replace('"7"', '"8"'))


@pytest.mark.parametrize("spoil", [_truncate, _flip_a_bit, _remove_labels, _spoil_contents])
def test_a_damaged_cache_is_noticed_and_built_again(shelf, tmp_path, spoil):
    parts = write_mnist(shelf / "mnist")
    cache.load("mnist")
    spoil(cached(tmp_path)[0])
    with pytest.warns(OplWarning, match="damaged"):
        decoded = cache.load("mnist")
    for name, (pixels, _) in parts.items():
        assert torch.equal(decoded.parts[name].pixels[:, 0], torch.from_numpy(pixels))
    assert decoded.names["label"] == tuple("0123456789")


def _load_and_log(log: str, barrier) -> None:
    build = cache._build

    def logged(*given):
        with open(log, "a") as stream:
            stream.write("built\n")
        time.sleep(0.5)
        build(*given)

    cache._build = logged
    barrier.wait()
    decoded = cache.load("mnist")
    with open(log, "a") as stream:
        stream.write(f"{int(decoded.parts['train'].pixels.long().sum())}\n")


def test_two_processes_at_once_build_one_cache_and_both_use_it(shelf, tmp_path):
    parts = write_mnist(shelf / "mnist")
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    both = [context.Process(target=_load_and_log, args=(str(tmp_path / "log"), barrier)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    total = str(int(parts["train"][0].astype(np.int64).sum()))
    assert sorted((tmp_path / "log").read_text().split()) == sorted(["built", total, total])
    assert len(cached(tmp_path)) == 1


def _build_until_killed() -> None:
    save = cache.np.save

    def save_and_hang(*given):
        save(*given)
        time.sleep(60)

    cache.np.save = save_and_hang
    cache.load("mnist")


def test_a_killed_build_is_not_used_and_leaves_no_lock_and_no_rubbish(shelf, tmp_path):
    parts = write_mnist(shelf / "mnist")
    process = multiprocessing.get_context("spawn").Process(target=_build_until_killed)
    process.start()
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("cache/.mnist-*/train.label.npy")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.join(10)
    left = cached(tmp_path)
    assert len(left) == 1
    assert left[0].name.startswith(".")
    decoded = cache.load("mnist")
    assert torch.equal(decoded.parts["train"].pixels[:, 0], torch.from_numpy(parts["train"][0]))
    assert [folder.name[0] for folder in cached(tmp_path)] == ["m"]


def test_a_cache_that_cannot_be_written_is_one_sentence(shelf, tmp_path, monkeypatch):
    write_mnist(shelf / "mnist")
    (tmp_path / "file").touch()
    monkeypatch.setenv("OPL_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"cannot be written \(Not a directory\): set OPL_CACHE"):
        cache.load("mnist")


def test_a_disk_without_room_is_one_sentence_and_leaves_nothing(shelf, tmp_path):
    write_mnist(shelf / "mnist")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))  # to the writer, the same as a full disk
    try:
        with pytest.raises(DataError, match="cannot be written"):
            cache.load("mnist")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert cached(tmp_path) == []


def test_a_finished_cache_needs_no_right_to_write(shelf, tmp_path, monkeypatch):
    write_mnist(shelf / "mnist")
    cache.load("mnist")
    monkeypatch.setattr(cache, "FileLock", None)  # whoever may not write cannot lock
    cache.load("mnist")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda pixels, labels: (pixels, [*labels[:-1], -1]), "labels from -1"),
        (lambda pixels, labels: ([*pixels[:-1], np.zeros((9, 9), dtype=np.uint8)], labels), "different sizes"),
        (lambda pixels, labels: ([], []), "no images"),
    ],
)
def test_data_that_cannot_be_used_is_told_and_not_cached(tmp_path, shelf, spoil, says):
    parts = write_mnist(shelf / "mnist")
    write(shelf / "mnist/test-00000-of-00001.parquet", *spoil(*parts["test"]), list("0123456789"))
    with pytest.raises(DataError, match=says):
        cache.load("mnist")
    assert cached(tmp_path) == []


def test_a_damaged_file_is_told(tmp_path, shelf):
    write_mnist(shelf / "mnist")
    file = shelf / "mnist/test-00000-of-00001.parquet"
    os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(DataError, match="check that its files are complete"):
        cache.load("mnist")
    assert describe()[1]["here"]  # the table of contents does not read the files


# Cutting


def test_a_split_gives_every_row_to_one_side():
    labels = torch.randint(7, (103,))
    train, val = split(labels, 20, seed=3)
    assert len(val) == 20
    assert sorted([*train.tolist(), *val.tolist()]) == list(range(103))
    again, other = split(labels, 20, seed=3)[1], split(labels, 20, seed=4)[1]
    assert torch.equal(val, again)
    assert not torch.equal(val, other)


def test_a_stratified_split_follows_the_largest_remainders():
    labels = torch.tensor([0] * 10 + [1] * 7 + [2] * 3)[torch.randperm(20)]
    val = split(labels, 9, seed=0, stratified=True)[1]
    assert labels[val].bincount().tolist() == [5, 3, 1]  # 4.5, 3.15, 1.35: the one left over goes to class 0
    even = torch.arange(1000) % 10
    assert even[split(even, 250, seed=1, stratified=True)[1]].bincount().tolist() == [25] * 10


def test_a_split_that_leaves_nothing_is_refused():
    with pytest.raises(OptionError, match="val=5 of 5"):
        split(torch.zeros(5).long(), 5, seed=0)


def test_a_subset_has_the_first_classes_with_so_many_of_each():
    labels = torch.arange(600) % 6
    rows = subset(labels, classes=4, per_class=30, seed=2)
    assert labels[rows].bincount().tolist() == [30] * 4
    assert len(rows.unique()) == 120
    assert not torch.equal(rows, subset(labels, classes=4, per_class=30, seed=3))
    assert torch.equal(subset(labels), torch.arange(600))


# The sets


def test_digits_are_scikit_learns_half_for_testing():
    from sklearn.datasets import load_digits

    splits, raw = Digits().load(0), load_digits()
    assert (len(splits.train), len(splits.val), len(splits.test)) == (899, 0, 898)
    everything = torch.cat([splits.train.rows, splits.test.rows])
    assert torch.equal(everything.sort().values, torch.arange(1797))
    np.testing.assert_array_equal(splits.train.pixels[:, 0].numpy(), np.rint(raw.images * 255 / 16))
    shares = splits.test.labels[splits.test.rows].bincount() / torch.from_numpy(raw.target).bincount()
    assert (shares - 0.5).abs().max() < 0.005
    floats = splits.train.pixels / 255
    assert (float(floats.mean()), float(floats.std())) == pytest.approx((*Digits.mean, *Digits.std), abs=1e-4)
    assert torch.equal(Digits().load(1).test.rows, splits.test.rows)
    assert len(Digits(val=99).load(0).val) == 99


REALS = {each.name: each for each in (Mnist(), FashionMnist(), Cifar10(), Cifar100(), Digits())}


@pytest.mark.parametrize("like", REALS)
def test_made_up_data_has_the_shape_of_its_model_and_can_be_learned(like):
    made, real = Synthetic(like, rows=400), REALS[like]
    splits = made.load(0)
    assert splits.train.pixels.shape[1:] == (real.channels, real.size, real.size)
    assert (made.num_classes, made.mean, made.std, made.augment) == (
        real.num_classes,
        real.mean,
        real.std,
        real.augment,
    )
    assert (len(splits.train), len(splits.val), len(splits.test)) == (400, 64, 128)
    assert len(splits.class_names) == real.num_classes
    assert torch.equal(splits.train.pixels, made.load(9).train.pixels)
    train, labels = splits.train.take(torch.arange(400))
    test, expected = splits.test.take(torch.arange(128))
    nearest = labels[torch.cdist(test.float().flatten(1), train.float().flatten(1)).argmin(1)]
    assert (nearest == expected).float().mean() > 0.9


def test_chosen_classes_are_the_first_in_every_part(shelf):
    write_mnist(shelf / "mnist")
    settings = Mnist(val=20, stratified=True, classes=3, per_class=1, test_per_class=1)
    splits = settings.load(0)
    for part, count in ((splits.train, 1), (splits.val, 2), (splits.test, 1)):
        assert part.labels[part.rows].bincount().tolist() == [count] * 3
    assert splits.class_names == ("0", "1", "2")
    assert settings.num_classes == 3
    assert not set(splits.train.rows.tolist()) & set(splits.val.rows.tolist())
    with pytest.raises(OptionError, match="give 2 to 10"):
        Mnist(classes=11).load(0)


def test_the_held_out_images_follow_the_seed_of_the_run_only_when_told(shelf):
    write_mnist(shelf / "mnist")
    fixed, moving = Mnist(val=20), Mnist(val=20, split_seed=-1)
    assert torch.equal(fixed.load(1).val.rows, fixed.load(2).val.rows)
    assert not torch.equal(moving.load(1).val.rows, moving.load(2).val.rows)


def test_cifar100_is_augmented_as_in_the_papers_code():
    assert Cifar100().augment == (PadCrop(4), Flip(0.5), ColorJitter(0.4, 0.4, 0.4))
    assert Cifar100(jitter=0, padding=0, flip=0).augment == ()


# Batches


def part(count: int = 53, channels: int = 3) -> Images:
    pixels = torch.randint(256, (count + 5, channels, 8, 8), dtype=torch.uint8)
    return Images(pixels, torch.arange(count + 5) % 7, torch.arange(count + 4, 4, -1))


def batches(images: Images, size: int = 8, **options) -> Batches:
    given = {"seed": 0, "augment": (PadCrop(2), Flip(), ColorJitter()), "mean": (0.5,) * 3, "std": (0.3,) * 3}
    return Batches(images, size, **{**given, "device": "cpu", **options})


def test_an_epoch_has_every_row_once_with_its_label():
    images = part()
    served = list(batches(images).epoch(0))
    assert [len(batch.rows) for batch in served] == [8] * 6 + [5]
    assert len(served) == batches(images).steps
    rows = torch.cat([batch.rows for batch in served])
    assert torch.equal(rows.sort().values, torch.arange(53))
    assert torch.equal(torch.cat([batch.labels for batch in served]), images.labels[images.rows[rows]])


def test_epochs_and_seeds_differ_and_calls_do_not():
    images = part()
    first, again = (list(batches(images).epoch(3)) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.rows, other.rows)
    orders = [next(batches(images, 53, seed=seed).epoch(epoch)).rows for seed, epoch in ((0, 3), (0, 4), (1, 3))]
    assert not any(torch.equal(orders[i], orders[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_an_epoch_taken_up_in_the_middle_goes_on_as_if_it_had_not_stopped():
    images = part()
    whole, rest = list(batches(images).epoch(2)), list(batches(images).epoch(2, start_step=4))
    assert len(rest) == len(whole) - 4
    for one, other in zip(whole[4:], rest, strict=True):
        assert all(torch.equal(one[k], other[k]) for k in range(3))
        assert one.sample_weight == other.sample_weight


@pytest.mark.parametrize("world", [2, 3, 7])
def test_the_shares_of_all_processes_make_the_batch_of_one(world):
    images = part()
    alone = list(batches(images).epoch(1))
    shared = zip(*(batches(images, rank=rank, world=world).epoch(1) for rank in range(world)), strict=True)
    for whole, shares in zip(alone, shared, strict=True):
        sizes = [len(share.rows) for share in shares]
        assert max(sizes) - min(sizes) <= 1
        for k in range(3):
            assert torch.equal(torch.cat([share[k] for share in shares]), whole[k])


@pytest.mark.parametrize("world", [1, 2, 7])
def test_sums_times_each_averaged_over_processes_are_the_mean_of_the_batch(world):
    images = part()
    shared = zip(*(batches(images, rank=rank, world=world).epoch(0) for rank in range(world)), strict=True)
    for shares in shared:
        averaged = sum(float(share.rows.sum()) * share.sample_weight for share in shares) / world
        assert averaged == pytest.approx(float(torch.cat([share.rows for share in shares]).float().mean()))


def test_plain_batches_are_in_order_and_only_normalized_and_shared_without_gaps():
    images = part()
    served = list(batches(images).plain(10))
    assert torch.equal(torch.cat([batch.rows for batch in served]), torch.arange(53))
    expected = (images.pixels[images.rows].float() / 255 - 0.5) / 0.3
    torch.testing.assert_close(torch.cat([batch.images for batch in served]), expected)
    shared = [batch.rows for rank in range(3) for batch in batches(images, rank=rank, world=3).plain(10)]
    assert torch.equal(torch.cat(shared), torch.arange(53))


def test_images_are_laid_out_as_asked():
    images = part()
    assert next(batches(images).epoch(0)).images.is_contiguous(memory_format=torch.channels_last)
    assert next(batches(images, channels_last=False).epoch(0)).images.is_contiguous()


def test_batches_of_nothing_and_processes_that_do_not_exist():
    empty = Images(part().pixels, part().labels, torch.zeros(0, dtype=torch.long))
    assert list(batches(empty).epoch(0)) == list(batches(empty).plain(4)) == []
    with pytest.raises(OptionError, match="rank 2 of 2"):
        batches(part(), rank=2, world=2)
    with pytest.raises(OptionError, match="batch_size is 0"):
        batches(part(), 0)


def test_seeds_are_63_bits_that_depend_on_every_number_and_on_their_order():
    seeds = {mix(*numbers) for numbers in [(), (0,), (0, 0), (1, 0), (0, 1), (-1,), (2**70,)]}
    assert len(seeds) == 7
    many = np.array([mix(0, epoch, step) for epoch in range(40) for step in range(100)])
    assert many.min() >= 0
    assert stats.kstest(many / 2.0**63, "uniform").pvalue > 1e-3
    assert mix(1, 2, 3) == int.from_bytes(_blake(1, 2, 3), "little") // 2


def _blake(*numbers: int) -> bytes:
    import hashlib

    return hashlib.blake2b(np.array([[n, 0] for n in numbers], dtype="<u8").tobytes(), digest_size=8).digest()


# CIFAR-10, Fashion-MNIST, idx files, super-classes


def test_cifar10_is_read_in_the_layout_of_the_hub(tmp_path):
    names = list(CATALOG["cifar10"].names)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
    for name in ("train", "test"):
        file = tmp_path / f"datasets--uoft-cs--cifar10/plain_text/{name}-00000-of-00001.parquet"
        write(file, pixels, list(range(10)) * 2, names, image="img")
    splits = Cifar10(root=str(tmp_path / "datasets--uoft-cs--cifar10"), val=5).load(0)
    assert splits.class_names == tuple(names)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (15, 5, 20)
    np.testing.assert_array_equal(splits.test.pixels, pixels.transpose(0, 3, 1, 2))
    assert Cifar10().augment == (PadCrop(4), Flip(0.5))


def test_the_hubs_spelling_of_a_t_shirt_is_corrected(tmp_path, shelf):
    names = ["T - shirt / top", *CATALOG["fashion-mnist"].names[1:]]
    for name in ("train", "test"):
        pixels = np.zeros((10, 28, 28), dtype=np.uint8)
        write(shelf / f"fashion-mnist/fashion_mnist/{name}-00000-of-00001.parquet", pixels, list(range(10)), names)
    assert FashionMnist(val=0).load(0).class_names == CATALOG["fashion-mnist"].names


def idx(values: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.astype(np.uint8).tobytes()


def write_idx(folder: Path, ending: str = "", joint: str = "-") -> dict[str, tuple[np.ndarray, np.ndarray]]:
    random, parts = np.random.default_rng(0), {}
    folder.mkdir(parents=True)
    for word, count in (("train", 30), ("t10k", 20)):
        parts[word] = random.integers(0, 256, (count, 28, 28), dtype=np.uint8), np.arange(count) % 10
        for values, what in zip(parts[word], (f"images{joint}idx3", f"labels{joint}idx1"), strict=True):
            content = idx(values)
            (folder / f"{word}-{what}-ubyte{ending}").write_bytes(gzip.compress(content) if ending else content)
    return parts


@pytest.mark.parametrize(("deeper", "ending", "joint"), [("", ".gz", "-"), ("", "", "."), ("raw", "", "-")])
@pytest.mark.parametrize("settings", [Mnist, FashionMnist])
def test_idx_files_are_read_zipped_or_not(tmp_path, settings, deeper, ending, joint):
    parts = write_idx(tmp_path / "here" / deeper, ending, joint)
    splits = settings(root=str(tmp_path / "here"), val=0).load(0)
    for part, word in ((splits.train, "train"), (splits.test, "t10k")):
        np.testing.assert_array_equal(part.pixels[:, 0], parts[word][0])
        np.testing.assert_array_equal(part.labels, parts[word][1])
    assert splits.class_names == CATALOG[settings.name].names
    assert splits.class_names[9] == {"mnist": "9", "fashion-mnist": "Ankle boot"}[settings.name]


def test_idx_files_that_are_not_whole_are_told(tmp_path, shelf):
    write_idx(shelf / "fashion-mnist", ".gz")
    labels = shelf / "fashion-mnist/t10k-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx(np.arange(7))))
    with pytest.raises(DataError, match="20 images and 7 labels"):
        FashionMnist(val=0).load(0)
    labels.write_bytes(gzip.compress(idx(np.arange(20))[:-3]))
    with pytest.raises(DataError, match="17 bytes and says 20"):
        FashionMnist(val=0).load(0)
    labels.write_bytes(b"something else")
    with pytest.raises(DataError, match="no idx file"):
        FashionMnist(val=0).load(0)
    labels.unlink()
    with pytest.raises(DataError, match=r"but not 't10k-labels-idx1-ubyte\.gz'"):
        FashionMnist(val=0).load(0)
    assert "t10k-labels" in {row["name"]: row for row in describe()}["fashion-mnist"]["where"]


def test_super_classes_are_chosen_whole_and_their_classes_numbered_anew(tmp_path):
    names = [f"class{number}" for number in range(100)]
    coarse = [(7 * number) % 20 for number in range(100)]
    pixels = np.zeros((100, 32, 32, 3), dtype=np.uint8)
    pixels[:, 0, 0, 0] = np.arange(100)
    for name in ("train", "test"):
        file = tmp_path / f"{name}-00000-of-00001.parquet"
        write(file, pixels, list(range(100)), names, image="img", coarse_label=coarse)
    settings = Cifar100(root=str(tmp_path), val=0, superclasses=(3, 11))
    splits, expected = settings.load(0), [number for number in range(100) if coarse[number] in (3, 11)]
    assert settings.num_classes == 10
    assert splits.class_names == tuple(names[number] for number in expected)
    assert splits.groups == tuple(coarse[number] for number in expected)
    for part in (splits.train, splits.test):
        chosen, labels = part.take(torch.arange(len(part)))
        assert chosen[:, 0, 0, 0].tolist() == expected
        assert labels.tolist() == list(range(10))
    unseen, others = settings.novel_classes()
    assert others == tuple(names[number] for number in range(100) if number not in expected)[:10]
    assert unseen.take(torch.arange(10))[1].tolist() == list(range(10))
    for wrong in (
        Cifar100(root=str(tmp_path), superclasses=(3, 20)),
        Cifar100(root=str(tmp_path), superclasses=(3, 3)),
        Cifar100(root=str(tmp_path), superclasses=(3,), classes=2),
    ):
        with pytest.raises(OptionError, match="from 0 to 19"):
            wrong.load(0)


# The real thing

REAL = os.environ.get("OPL_DATA", "")


def _real(name: str) -> str:
    folder = Path(REAL, name)
    if not REAL or not folder.is_dir():
        pytest.skip(f"OPL_DATA names no folder with {name!r}")
    return str(folder)


@pytest.fixture(scope="module")
def real_cache(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("real"))


@pytest.mark.parametrize(
    ("settings", "train", "test", "pixels"), [(Cifar100, 50_000, 10_000, "img"), (Mnist, 60_000, 10_000, "image")]
)
def test_real_data_is_complete_and_equal_to_what_datasets_decodes(
    settings, train, test, pixels, real_cache, monkeypatch
):
    root = _real(settings.name)
    monkeypatch.setenv("OPL_CACHE", real_cache)
    splits = settings(root=root).load(0)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (train - 5000, 5000, test)
    assert len(splits.train.labels) == train
    import datasets

    for part, name in ((splits.train, "train"), (splits.test, "test")):
        for place, row in enumerate(datasets.load_dataset(root, split=name, streaming=True).take(40)):
            array = np.asarray(row[pixels])
            expected = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
            np.testing.assert_array_equal(part.pixels[place].numpy(), expected)
            assert int(part.labels[place]) == row.get("fine_label", row.get("label"))


def test_real_cifar100_has_its_classes_evenly_and_a_crab(real_cache, monkeypatch):
    root = _real("cifar100")
    monkeypatch.setenv("OPL_CACHE", real_cache)
    splits = Cifar100(root=root, stratified=True).load(0)
    assert splits.class_names[26] == "crab"
    assert len(set(splits.class_names)) == 100
    assert splits.train.labels.bincount().tolist() == [500] * 100
    assert splits.test.labels.bincount().tolist() == [100] * 100
    assert splits.val.labels[splits.val.rows].bincount().tolist() == [50] * 100
    decoded = cache.load("cifar100", root)
    assert decoded.parts["train"].labels["coarse_label"].bincount().tolist() == [2500] * 20
    start = time.monotonic()
    Cifar100(root=root).load(0)
    assert time.monotonic() - start < 2  # about 0.1 s on an idle machine


def test_the_hubs_spelling_of_crab_is_corrected(tmp_path):
    names = [f"class{number}" for number in range(100)]
    names[26] = "cra"
    for name in ("train", "test"):
        pixels = np.zeros((100, 32, 32, 3), dtype=np.uint8)
        write(tmp_path / f"cifar100/{name}-00000-of-00001.parquet", pixels, list(range(100)), names)
    assert Cifar100(root=str(tmp_path), val=0).load(0).class_names[26] == "crab"
