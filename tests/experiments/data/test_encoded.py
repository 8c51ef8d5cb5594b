"""Images that stay encoded: each is decoded once an epoch, the same ones whatever the processes and workers."""

import itertools
import multiprocessing
import os
import signal

import pytest
import torch

from _pictures import class_folders, number_of
from opl.errors import DataError
from opl.experiments.data import Batches, ImageFolder, encoded

COUNT, BATCH = 34, 8  # the last batch has two images
pytestmark = pytest.mark.usefixtures("apart")


@pytest.fixture
def folder(tmp_path):
    return class_folders(tmp_path / "pictures", {"a": 10, "b": COUNT - 10})


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
def test_an_epoch_begun_in_the_middle_has_each_remaining_image_exactly_once(folder, workers, world, start):
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
def test_workers_change_nothing(folder, workers):
    for alone, other in zip(batches(folder).epoch(0), batches(folder, workers).epoch(0), strict=True):
        assert alone.images.equal(other.images)
        assert alone.rows.equal(other.rows)


def test_processes_together_have_the_batches_of_one(tmp_path):
    noise = class_folders(tmp_path / "more", {"a": 9, "b": 9})
    for alone, *parts in zip(*(batches(noise, 0, r, w).epoch(2) for r, w in ((0, 1), (0, 2), (1, 2))), strict=True):
        assert alone.images.equal(torch.cat([part.images for part in parts]))
        assert alone.labels.equal(torch.cat([part.labels for part in parts]))


def test_only_what_is_asked_for_is_decoded_and_that_once(folder, monkeypatch):
    counted = []
    decode = encoded.decode_crop
    monkeypatch.setattr(encoded, "decode_crop", lambda data, *rest: counted.append(data) or decode(data, *rest))
    list(batches(folder).epoch(0, start_step=3))
    assert len(counted) == len(set(counted)) == COUNT - 3 * BATCH
    counted.clear()
    next(batches(folder).epoch(0))
    assert len(counted) == BATCH


@pytest.mark.parametrize(("workers", "most"), [(0, 1), (2, 5)])
def test_what_is_prepared_in_advance_is_bounded(folder, workers, most):
    part = batches(folder, workers).part
    drawn = []
    requests = (drawn.append(row) or encoded.Request(torch.tensor([row])) for row in range(20))
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
def test_a_damaged_picture_is_one_sentence_that_names_it(folder, workers):
    (folder / "b" / "00020.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"^'.*00020.png' cannot be decoded \(.*\): replace or remove it\.$"):
        list(batches(folder, workers).epoch(0))


def test_a_worker_that_dies_is_one_sentence(folder, monkeypatch):
    monkeypatch.setattr(encoded, "decode_crop", lambda *_: os._exit(9))
    with pytest.raises(DataError, match="a process that decodes images has died"):
        list(batches(folder, workers=1).epoch(0))


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
