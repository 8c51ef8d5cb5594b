"""Batch augmentations equal augmentations of single images, and depend only on the generator."""

import colorsys
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageEnhance
from scipy import stats

from opl.errors import OptionError
from opl.experiments.data import (
    ColorJitter,
    Flip,
    Grayscale,
    Normalize,
    PadCrop,
    RandomResizedCrop,
    augment,
)
from opl.experiments.data.augment import (
    ReflectCrop,
    brighten,
    contrast,
    draw_crops,
    random_box,
    saturate,
    turn_hue,
)

ALL = [
    PadCrop(3),
    Flip(),
    ColorJitter(),
    ColorJitter(hue=0.4),
    Grayscale(0.5),
    RandomResizedCrop(10),
    ReflectCrop(),
]
for_all = pytest.mark.parametrize("augmentation", ALL, ids=lambda augmentation: type(augmentation).__name__)


def chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@for_all
def test_the_same_generator_gives_the_same_images_and_no_other_randomness_is_used(augmentation):
    images, before = torch.rand(16, 3, 12, 12), torch.get_rng_state()
    first, second = augmentation(images, chance(5)), augmentation(images, chance(5))
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(first, augmentation(images, chance(6)))


@for_all
def test_a_slice_of_the_global_batch_equals_the_rows_of_the_whole_batch(augmentation):
    images = torch.rand(21, 3, 12, 12)
    whole = augmentation(images, chance())
    for rows in (slice(0, 7), slice(7, 8), slice(8, 21), slice(4, 4)):
        assert torch.equal(augmentation(images[rows], chance(), rows, 21), whole[rows])


@for_all
def test_the_input_images_are_unchanged(augmentation):
    images = torch.rand(8, 3, 12, 12)
    before = images.clone()
    augmentation(images, chance())
    assert torch.equal(images, before)


def test_rows_that_do_not_fit_the_images_are_refused():
    with pytest.raises(OptionError, match="5 images are not the rows slice"):
        Flip()(torch.rand(5, 1, 4, 4), chance(), slice(0, 4), 10)
    with pytest.raises(OptionError, match="or neither"):
        Flip()(torch.rand(5, 1, 4, 4), chance(), slice(0, 5))


@pytest.mark.parametrize(("crop", "mode"), [(PadCrop(2), "constant"), (ReflectCrop(2), "reflect")])
def test_a_crop_is_a_slice_of_the_padded_image(crop, mode):
    images = torch.rand(40, 3, 9, 7)
    for image, made in zip(images.numpy(), crop(images, chance()).numpy(), strict=True):
        padded = np.pad(image, ((0, 0), (2, 2), (2, 2)), mode)
        crops = [padded[:, y : y + 9, x : x + 7] for y in range(5) for x in range(5)]
        assert sum(np.array_equal(made, crop) for crop in crops) == 1


def test_pad_crop_takes_all_offsets_equally_often():
    coded = torch.arange(16.0 * 16).view(1, 1, 16, 16).expand(81 * 60, -1, -1, -1)
    centers = PadCrop(4)(coded, chance())[:, 0, 8, 8].long()
    down, right = centers // 16 - 4, centers % 16 - 4
    counts = torch.bincount(down * 9 + right, minlength=81)
    assert len(counts) == 81
    assert stats.chisquare(counts).pvalue > 1e-3


def test_flip_reverses_rows_with_the_given_probability():
    images = torch.rand(4000, 1, 3, 5)
    made = Flip(0.3)(images, chance())
    reversed_rows = torch.stack([images[..., x] for x in range(4, -1, -1)], dim=3)
    flipped, same = ((made == other).flatten(1).all(1) for other in (reversed_rows, images))
    assert (flipped ^ same).all()
    assert stats.binomtest(int(flipped.sum()), 4000, 0.3).pvalue > 1e-3


@pytest.mark.parametrize(
    ("ours", "pillow"),
    [(brighten, ImageEnhance.Brightness), (contrast, ImageEnhance.Contrast), (saturate, ImageEnhance.Color)],
)
def test_color_formulas_are_pillows_within_its_rounding(ours, pillow):
    pixels = torch.randint(256, (12, 3, 10, 10), dtype=torch.uint8, generator=chance())
    factors = torch.linspace(0.0, 1.9, 12)
    made = ours(pixels.float() / 255, factors) * 255
    for image, factor, our in zip(pixels, factors.tolist(), made, strict=True):
        theirs = pillow(Image.fromarray(image.permute(1, 2, 0).numpy())).enhance(factor)
        difference = our.permute(1, 2, 0) - torch.from_numpy(np.array(theirs)).float()
        assert difference.abs().max() <= 2.0  # Pillow rounds the gray image, its mean, and the blend down


def test_jitter_is_the_three_formulas_by_hand_in_the_order_drawn():
    images = torch.rand(6, 3, 5, 5, dtype=torch.float64)
    orders = set()
    for seed in range(12):
        made, same = ColorJitter(0.4, 0.6, 1.5)(images, chance(seed)), chance(seed)
        draws, order = torch.rand(6, 3, generator=same), torch.randperm(3, generator=same).tolist()
        orders.add(tuple(order))
        for i in range(6):
            b, c, s = 0.6 + 0.8 * draws[i, 0], 0.4 + 1.2 * draws[i, 1], 2.5 * draws[i, 2]
            image = images[i]
            for which in order:
                gray = 0.299 * image[0] + 0.587 * image[1] + 0.114 * image[2]
                image = [b * image, c * image + (1 - c) * gray.mean(), s * image + (1 - s) * gray][which].clamp(0, 1)
            torch.testing.assert_close(made[i], image, rtol=0, atol=1e-6)
    assert len(orders) > 3


def test_gray_images_have_brightness_and_contrast_but_no_saturation():
    images = torch.rand(4, 1, 6, 6)
    assert torch.equal(ColorJitter(0, 0, 0.9)(images, chance()), images)
    assert not torch.equal(ColorJitter(0, 0.9, 0)(images, chance()), images)


def test_hue_is_turned_as_colorsys_turns_it():
    images, shifts = torch.rand(3, 3, 4, 4, dtype=torch.float64), torch.tensor([0.3, -0.4, 0.5], dtype=torch.float64)
    images[0, :, 0, 0] = 0.25  # gray: it has no hue, and stays
    images[0, :, 0, 1] = torch.tensor([0.0, 1.0, 1.0])
    result = turn_hue(images, shifts)
    for sample, shift in enumerate(shifts.tolist()):
        for row, column in np.ndindex(4, 4):
            hue, saturation, value = colorsys.rgb_to_hsv(*images[sample, :, row, column].tolist())
            expected = colorsys.hsv_to_rgb((hue + shift) % 1, saturation, value)
            assert result[sample, :, row, column].tolist() == pytest.approx(expected)
    torch.testing.assert_close(turn_hue(images, torch.ones(3)), images)
    assert turn_hue(images[:, :1], shifts) is not None


def test_gray_images_occur_with_the_given_probability_and_equal_pillows():
    images = torch.randint(0, 256, (400, 3, 4, 4)).float() / 255
    result = Grayscale(0.3)(images, chance())
    grayed = (result[:, 0] == result[:, 1]).flatten(1).all(1)
    assert 90 < int(grayed.sum()) < 150
    assert torch.equal(result[~grayed], images[~grayed])
    index = int(grayed.nonzero()[0])
    gray = Image.fromarray((images[index] * 255).round().byte().permute(1, 2, 0).numpy()).convert("L")
    np.testing.assert_allclose(result[index, 0].numpy() * 255, np.asarray(gray), atol=1)


def boxes(count: int, width: int, height: int, least: float = 0.08) -> torch.Tensor:
    return torch.tensor([random_box(width, height, draws, least) for draws in draw_crops(count, chance()).tolist()])


def test_resized_crop_is_the_slice_interpolated():
    crop, images = RandomResizedCrop(9), torch.rand(30, 3, 14, 11)
    for image, (x, y, w, h), made in zip(images, boxes(30, 11, 14).tolist(), crop(images, chance()), strict=True):
        cut = image[None, :, y : y + h, x : x + w]
        expected = F.interpolate(cut, size=(9, 9), mode="bilinear", align_corners=False)[0]
        torch.testing.assert_close(made, expected, rtol=0, atol=1e-5)


def test_crops_lie_in_the_image_with_area_and_ratio_in_their_limits():
    x, y, w, h = boxes(5000, 100, 100).double().unbind(1)
    assert min(y.min(), x.min()) >= 0
    assert max((y + h).max(), (x + w).max()) <= 100
    assert h.min() >= 1
    ratio, area = w / h, w * h / 1e4
    assert ratio.min() > 0.75 * 0.95
    assert ratio.max() < 4 / 3 * 1.05
    assert area.min() > 0.07
    small = area[area < 0.5]  # these always fit, so they are uniform; larger ones may be tried again
    assert stats.kstest(small.numpy(), stats.uniform(0.08, 0.42).cdf).statistic < 0.03
    assert math.isclose(float(ratio.log().mean()), 0, abs_tol=0.02)


def test_where_no_crop_fits_the_largest_central_one_is_taken():
    assert boxes(4, 100, 10, least=1.0).tolist() == [[43, 0, 13, 10]] * 4
    assert boxes(4, 10, 100, least=1.0).tolist() == [[0, 43, 10, 13]] * 4


def test_normalize_is_minus_mean_over_deviation_channel_by_channel():
    images = torch.rand(4, 2, 3, 3)
    made = Normalize((0.1, 0.2), (0.5, 0.25))(images)
    torch.testing.assert_close(made[:, 0], (images[:, 0] - 0.1) / 0.5)
    torch.testing.assert_close(made[:, 1], (images[:, 1] - 0.2) / 0.25)
    with pytest.raises(OptionError, match="3 channels"):
        Normalize((0.1,), (0.5,))(torch.rand(2, 3, 4, 4))


def test_normalize_first_used_without_gradients_passes_them_later():
    normalize = Normalize((0.123,), (0.456,))
    with torch.inference_mode():
        normalize(torch.rand(2, 1, 3, 3))
    images = torch.rand(2, 1, 3, 3, requires_grad=True)
    normalize(images).sum().backward()
    torch.testing.assert_close(images.grad, torch.full_like(images, 1 / 0.456))


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_large_images_are_flipped_as_small_ones_are(kind, monkeypatch):
    images = torch.randint(256, (9, 3, 6, 8)).to(kind)
    small = Flip()(images, torch.Generator().manual_seed(2))
    monkeypatch.setattr(augment, "LARGE", 1)
    large = Flip()(images, torch.Generator().manual_seed(2))
    assert large.equal(small)
    assert not large.equal(images)
