"""Images inside the page: heat maps, enlarged pictures and sheets, decoded again by Pillow."""

import base64
import io

import numpy as np
import pytest

from opl.experiments.charts.data_uris import DIVERGING, enlarge, heat_map, sheet

image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


def decode(uri, kind):
    head, data = uri.split(",")
    assert head == f"data:image/{kind};base64"
    return image.open(io.BytesIO(base64.b64decode(data)))


def test_a_heat_map_has_the_sign_of_its_values():
    shown = decode(heat_map(np.array([[0.0, -1.0], [1.0, np.nan]]), -1, 1, DIVERGING), "png").convert("RGBA")
    middle, low, high, missing = (np.array(shown.getpixel(at), int) for at in ((0, 0), (1, 0), (0, 1), (1, 1)))
    assert middle[:3].min() > 235
    assert low[2] > low[0]  # blue below zero
    assert high[0] > high[2]  # orange above
    assert missing[3] == 0


SIZES = {(8, 8): (96, 96), (28, 28): (112, 112), (32, 64): (192, 96), (96, 96): (96, 96), (224, 200): (200, 224)}


def test_a_small_picture_is_enlarged_without_blurring_its_pixels():
    for (height, width), expected in SIZES.items():
        for channels in (1, 3):
            pixels = np.random.default_rng(0).integers(0, 256, (height, width, channels), dtype=np.uint8)
            shown = decode(enlarge(pixels), "png")
            assert shown.size == expected
            factor = expected[1] // height
            back = np.asarray(shown).reshape(height * factor, width * factor, channels)[::factor, ::factor]
            np.testing.assert_array_equal(back, pixels)


def test_a_sheet_has_every_picture_at_its_index():
    pixels = np.zeros((5, 8, 8, 1), dtype=np.uint8)
    pixels[:] = np.array([0, 60, 120, 180, 240], dtype=np.uint8)[:, None, None, None]
    shown = np.asarray(decode(sheet(pixels, across=2), "webp").convert("L"), dtype=int)
    assert shown.shape == (24, 16)
    for index, value in enumerate((0, 60, 120, 180, 240)):
        row, column = divmod(index, 2)
        assert shown[8 * row + 4, 8 * column + 4] == pytest.approx(value, abs=12)
