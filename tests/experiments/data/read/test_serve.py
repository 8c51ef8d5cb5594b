"""Both ways to serve: the index of encoded images, and their decoding by workers."""

import itertools
import multiprocessing
import os
import signal

import numpy as np
import pytest
import torch

from _image_files import class_folders, encoded, flat, number_of, parquet
from opl.errors import DataError, OplWarning
from opl.experiments.data import Batches, ImageFolder
from opl.experiments.data.read import cache, decode, serve
from opl.experiments.data.read.cache import cache_folder
from opl.experiments.data.read.catalog import CatalogEntry

pytestmark = pytest.mark.usefixtures("apart")


def index(folder):
    return serve.load_encoded(CatalogEntry("mine"), str(folder))


def content(folder, split):
    result = index(folder)
    files = result.files(split)
    images = [files.read(row) for row in range(len(files))]
    read = [image if isinstance(image, bytes) else image.read_bytes() for image in images]
    return result.class_names, result.labels(split).tolist(), read


@pytest.fixture
def both(tmp_path):
    """The same images in class folders and in Parquet shards."""
    train = class_folders(tmp_path / "folders" / "train", {"cat": 3, "dog": 2})
    test = class_folders(tmp_path / "folders" / "test", {"cat": 1, "dog": 1}, start=5)
    for split, base in (("train", train), ("test", test)):
        files = sorted(base.rglob("*.png"))
        labels = [int(file.parent.name == "dog") for file in files]
        half = len(files) // 2
        for number, part in enumerate((slice(0, half), slice(half, None))):
            images = [file.read_bytes() for file in files[part]]
            parquet(
                tmp_path / f"tables/data/{split}-0000{number}-of-00002.parquet", images, labels[part], ["cat", "dog"]
            )
    return tmp_path / "folders", tmp_path / "tables"


@pytest.mark.parametrize("split", ["train", "test"])
def test_folders_and_parquet_files_give_the_same(both, split):
    assert content(both[0], split) == content(both[1], split)
    assert {*index(both[0]).parts} == {*index(both[1]).parts} == {"train", "test"}
    assert index(both[0]).mean == index(both[1]).mean


def test_mean_and_std_are_those_of_the_pixels(tmp_path):
    class_folders(tmp_path / "x", {"a": 7, "b": 4})
    result = index(tmp_path / "x")
    colors = np.array([[number % 256, 0, 128] for number in range(11)]) / 255
    np.testing.assert_allclose(result.mean, colors.mean(0), atol=2e-5)
    np.testing.assert_allclose(result.std, np.maximum(colors.std(0), 1e-3), atol=2e-5)
    assert result.channels == 3


def test_the_index_is_built_once_and_again_when_an_image_is_added(tmp_path, monkeypatch):
    folder = class_folders(tmp_path / "x", {"a": 2, "b": 2})
    index(folder)
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_build", lambda *_: pytest.fail("it exists already"))
        assert len(index(folder).files("train")) == 4
    (folder / "b" / "more.png").write_bytes(encoded(flat(9)))
    os.utime(folder / "b", ns=(1, 1))
    assert len(index(folder).files("train")) == 5


def test_an_interrupted_build_leaves_nothing(tmp_path, monkeypatch):
    folder = class_folders(tmp_path / "x", {"a": 2, "b": 2})
    with monkeypatch.context() as patch:
        patch.setattr(serve, "image_statistics", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            index(folder)
    assert [path.name for path in cache_folder().iterdir() if path.suffix != ".lock"] == []
    assert len(index(folder).files("train")) == 4


def test_a_test_set_without_labels_is_left_out(tmp_path):
    images = [encoded(flat(number)) for number in range(4)]
    parquet(tmp_path / "x/train.parquet", images, [0, 1, 0, 1])
    parquet(tmp_path / "x/test.parquet", images, [-1] * 4)
    assert index(tmp_path / "x").parts == ("train",)
    assert index(tmp_path / "x").class_names == ("0", "1")


def test_labels_may_be_words(tmp_path):
    parquet(tmp_path / "x/train.parquet", [encoded(flat(number)) for number in range(3)], ["red", "blue", "red"])
    assert index(tmp_path / "x").class_names == ("blue", "red")
    assert index(tmp_path / "x").labels("train").tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ({"train": {"a": 1, "b": 1}, "test": {"c": 1}}, "a class 'c' in the split 'test' that is not in 'train'"),
        ({"train": {"a": 1}}, "has 1 classes: use a folder with at least two"),
        ({"train": {"a": 1, "b": 0}}, "no training images of the class 'b'"),
    ],
)
def test_inconsistent_folders_are_refused(tmp_path, layout, expected):
    for split, counts in layout.items():
        class_folders(tmp_path / "x" / split, counts)
    with pytest.raises(DataError, match=expected):
        index(tmp_path / "x")


def test_a_folder_without_images_is_refused_with_the_layouts(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "notes.txt").write_text("nothing")
    with pytest.raises(DataError, match="neither Parquet files nor images as '<class>/<image>'"):
        index(tmp_path / "x")


@pytest.mark.parametrize(
    ("put", "kind"),
    [
        (lambda file: file.symlink_to(file.with_name("00000.png")), "a link"),
        (lambda file: file.symlink_to("nothing.png"), "a link"),
        (lambda file: file.symlink_to("/dev/zero"), "a link"),
        (lambda file: file.symlink_to(file.parent), "a link"),
        (os.mkfifo, "not a file"),
        (lambda file: file.mkdir(), "an empty folder"),
    ],
)
def test_links_and_special_files_are_refused_by_name(tmp_path, put, kind):
    folder = class_folders(tmp_path / "x", {"a": 2, "b": 2})
    put(folder / "a" / "odd.png")
    with pytest.raises(DataError, match=f"odd.png' is {kind}: replace it with an image"):
        index(folder)
    (folder / "a" / "odd.png").rmdir() if kind == "an empty folder" else (folder / "a" / "odd.png").unlink()
    (folder / "b" / "more").symlink_to(folder / "a")
    with pytest.raises(DataError, match="more' is a link"):
        index(folder)


@pytest.mark.parametrize("name", ["contents.json", "train.labels.npy", "train.offsets.npy", "train.bin"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(bytes([file.read_bytes()[-1] ^ 1])),
        lambda file: file.write_bytes(file.read_bytes()[:-1] + bytes([file.read_bytes()[-1] ^ 1])),
        lambda file: file.unlink(),
        lambda file: (file.unlink(), os.mkfifo(file)),
        lambda file: (file.unlink(), file.symlink_to("/dev/zero")),
    ],
    ids=["short", "flipped", "gone", "a pipe", "endless"],
)
def test_a_damaged_index_is_warned_about_and_rebuilt(tmp_path, name, damage):
    folder = class_folders(tmp_path / "x", {"a": 2, "b": 2})
    made = index(folder)
    labels, files = made.labels("train").tolist(), [made.files("train").read(row) for row in range(4)]
    damage(made.folder / name)
    with pytest.warns(OplWarning, match=f"{name} in the cache .* is damaged; rebuilding"):
        again = index(folder)
    assert again.labels("train").tolist() == labels
    assert [again.files("train").read(row) for row in range(4)] == files
    assert index(folder).folder == made.folder


COUNT, BATCH = 34, 8  # the last batch has two images


@pytest.fixture
def folder(tmp_path):
    return class_folders(tmp_path / "images", {"a": 10, "b": COUNT - 10})


def batches(folder, workers=0, rank=0, world=1, augment=None, seed=3):
    data = ImageFolder(root=str(folder), size=16, val=0.0, test=0.0, workers=workers)
    part = data.load(0).train
    steps = data.augment if augment is None else augment
    settings = {"mean": (0.0,) * 3, "std": (1.0,) * 3, "device": "cpu"}
    return Batches(part, BATCH, seed=seed, augment=steps, rank=rank, world=world, **settings)


def numbers(batch) -> list[int]:
    return number_of((batch.images * 255).round())


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("start", [0, 2, 4, 5])
def test_an_epoch_started_in_the_middle_has_every_remaining_image_exactly_once(folder, workers, world, start):
    got, first = [], []
    for rank in range(world):
        for batch in batches(folder, workers, rank, world).epoch(1, start):
            assert numbers(batch) == batch.rows.tolist()  # the pixels are those of the rows
            assert batch.labels.tolist() == [int(row >= 10) for row in batch.rows.tolist()]
            got += batch.rows.tolist()
    for batch in itertools.islice(batches(folder).epoch(1), start):
        first += batch.rows.tolist()
    assert sorted(got + first) == list(range(COUNT))


@pytest.mark.parametrize("workers", [1, 2])
def test_the_images_do_not_depend_on_the_workers(folder, workers):
    for alone, other in zip(batches(folder).epoch(0), batches(folder, workers).epoch(0), strict=True):
        assert alone.images.equal(other.images)
        assert alone.rows.equal(other.rows)


def test_shards_of_all_processes_form_the_batch_of_a_single_process(tmp_path):
    noise = class_folders(tmp_path / "more", {"a": 9, "b": 9})
    for alone, *parts in zip(*(batches(noise, 0, r, w).epoch(2) for r, w in ((0, 1), (0, 2), (1, 2))), strict=True):
        assert alone.images.equal(torch.cat([part.images for part in parts]))
        assert alone.labels.equal(torch.cat([part.labels for part in parts]))


def test_only_the_requested_images_are_decoded_and_only_once(folder, monkeypatch):
    counted = []
    made = batches(folder)
    decode_crop = decode.decode_crop
    monkeypatch.setattr(decode, "decode_crop", lambda data, *rest: counted.append(data) or decode_crop(data, *rest))
    list(made.epoch(0, start_step=3))
    assert len(counted) == len(set(counted)) == COUNT - 3 * BATCH
    counted.clear()
    next(made.epoch(0))
    assert len(counted) == BATCH


@pytest.mark.parametrize(("workers", "most"), [(0, 1), (2, 5)])
def test_the_number_of_prefetched_batches_is_bounded(folder, workers, most):
    part = batches(folder, workers).part
    drawn = []
    requests = (drawn.append(row) or serve.Request(torch.tensor([row])) for row in range(20))
    stream = part.serve(requests)
    next(stream)
    assert len(drawn) <= most
    stream.close()


def test_crops_depend_on_seed_epoch_and_step_alone(tmp_path):
    from PIL import Image

    for label in "ab":
        (tmp_path / "one" / label).mkdir(parents=True)
        ramp = torch.arange(64, dtype=torch.uint8).expand(64, 64).mul(4)
        Image.fromarray(ramp.numpy()).save(tmp_path / "one" / label / "0.png")
    settings = {"mean": (0.0,), "std": (1.0,), "device": "cpu", "augment": ()}
    part = ImageFolder(root=str(tmp_path / "one"), size=16, val=0.0, test=0.0, workers=0).load(0).train
    assert part.pixels.shape == (0, 1, 16, 16)  # gray
    first, again, other = (Batches(part, 2, seed=0, **settings).epoch(e) for e in (0, 0, 1))
    one, two, three = next(first), next(again), next(other)
    assert one.images.equal(two.images)
    assert not one.images[one.rows.argsort()].equal(three.images[three.rows.argsort()])
    plain = next(Batches(part, 2, seed=0, **settings).plain(2)).images
    assert plain[0].equal(plain[1])  # central crops are not random


@pytest.mark.parametrize("workers", [0, 1])
def test_a_damaged_image_is_named_in_one_sentence(folder, workers):
    (folder / "b" / "00020.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"^'.*00020.png' cannot be decoded \(.*\): replace or remove it\.$"):
        list(batches(folder, workers).epoch(0))


def test_a_dead_worker_is_reported_in_one_sentence(folder, monkeypatch):
    made = batches(folder, workers=1)
    monkeypatch.setattr(decode, "decode_crop", lambda *_: os._exit(9))  # in the worker, which is a fork of this process
    with pytest.raises(DataError, match="a worker that decodes images has died"):
        list(made.epoch(0))


def test_an_empty_shard_has_no_images(tmp_path):
    few = class_folders(tmp_path / "few", {"a": 1, "b": 1})
    shards = [next(batches(few, 0, rank, 3).epoch(0)) for rank in range(3)]
    assert sorted(len(shard.labels) for shard in shards) == [0, 1, 1]
    assert all(shard.images.shape[1:] == (3, 16, 16) for shard in shards)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_leaves_the_workers_to_the_run(folder, signum):
    """A terminal and a scheduler send it to all processes; the run finishes its step before it ends."""
    served = batches(folder, workers=2).epoch(0)
    first = [*numbers(next(served)), *numbers(next(served))]  # one of each worker, so that both have started
    for worker in multiprocessing.active_children():
        os.kill(worker.pid, signum)
    rest = [number for batch in served for number in numbers(batch)]
    assert sorted([*first, *rest]) == list(range(COUNT))
