"""Batches of the fast data sets: flips alternate, sizes grow, borders mirror, all from seed and epoch."""

import torch
from torch.nn import functional as F

from opl.experiments.data import Batches, FastCifar10, FastCifar100
from opl.experiments.data.augment import ReflectCrop
from opl.experiments.types import Images

COUNT, SIZE = 24, 12


def batches(**options):
    pixels = torch.randint(
        0, 256, (COUNT, 3, SIZE, SIZE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    part = Images(pixels, torch.arange(COUNT), torch.arange(COUNT))
    given = {"seed": 3, "augment": (), "mean": (0.0,) * 3, "std": (1.0,) * 3, "device": "cpu", **options}
    return Batches(part, 8, **given), pixels.float() / 255


def by_row(made, epoch):
    return {int(row): image for batch in made.epoch(epoch) for row, image in zip(batch.rows, batch.images, strict=True)}


def test_every_image_is_flipped_in_every_second_epoch():
    made, pixels = batches(alternate_flip=True)
    epochs = [by_row(made, epoch) for epoch in range(3)]
    flipped = {row: torch.equal(image, pixels[row].flip(2)) for row, image in epochs[0].items()}
    assert 0 < sum(flipped.values()) < COUNT
    for row, first in flipped.items():
        for epoch, seen in enumerate(epochs):
            wanted = pixels[row].flip(2) if first == (epoch % 2 == 0) else pixels[row]
            assert torch.equal(seen[row], wanted)


def test_images_grow_during_training_by_an_antialiased_reduction():
    made, pixels = batches(growing_sizes=((0.25, 6), (0.5, 9)), epochs=4)
    sizes = [[batch.images.shape[2] for batch in made.epoch(epoch)] for epoch in range(4)]
    assert sizes == [[6] * 3, [9] * 3, [12] * 3, [12] * 3]
    row, image = next(iter(by_row(made, 0).items()))
    wanted = F.interpolate(pixels[row : row + 1], 6, mode="bilinear", antialias=True)
    torch.testing.assert_close(image, wanted[0])


def test_two_processes_and_a_resumed_epoch_see_the_images_of_one():
    options = {"alternate_flip": True, "growing_sizes": ((0.5, 8),), "epochs": 2, "augment": (ReflectCrop(2),)}
    whole = by_row(batches(**options)[0], 0)
    halves = [by_row(batches(**options, rank=rank, world=2)[0], 0) for rank in range(2)]
    assert {**halves[0], **halves[1]}.keys() == whole.keys()
    for row, image in {**halves[0], **halves[1]}.items():
        assert torch.equal(image, whole[row])
    rest = list(batches(**options)[0].epoch(0, start_step=2))
    assert all(torch.equal(image, whole[int(row)]) for row, image in zip(rest[0].rows, rest[0].images, strict=True))


def test_a_crop_of_a_reflected_image_is_a_window_of_it():
    images = torch.rand(5, 3, 8, 8)
    got = ReflectCrop(2)(images, torch.Generator().manual_seed(1))
    padded = F.pad(images, (2,) * 4, mode="reflect")
    for image, around in zip(got, padded, strict=True):
        windows = [around[:, y : y + 8, x : x + 8] for y in range(5) for x in range(5)]
        assert any(torch.equal(image, window) for window in windows)


def test_the_settings_say_so():
    for data in (FastCifar10(), FastCifar100()):
        assert data.alternate_flip
        assert data.growing_sizes == ((0.15, 20), (0.5, 24))
        assert data.augment == (ReflectCrop(2),)
