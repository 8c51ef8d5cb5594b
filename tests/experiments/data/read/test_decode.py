"""The decoder: formats, modes, crops, orientation, and damaged files, compared with Pillow step by step."""

import numpy as np
import pytest
from PIL import Image, ImageFilter

from _image_files import encoded
from opl.experiments.data.augment import central_box, random_box
from opl.experiments.data.read.decode import (
    Decoding,
    decode,
    decode_all,
    decode_crop,
    open_image,
)


def photo(width: int, height: int) -> Image.Image:
    """A smooth image, like a photograph out of focus."""
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(12))


def test_the_central_box_is_a_resize_and_a_central_crop():
    image = photo(320, 256)
    got = decode_crop(encoded(image), lambda w, h: central_box(w, h, 224 / 256), 224, "RGB")
    assert np.array_equal(got, np.asarray(image)[16:240, 48:272])


def test_a_crop_equals_pillows():
    image = photo(300, 200)
    got = decode_crop(encoded(image), lambda w, h: random_box(w, h, [[0.3, 0.6, 0.5, 0.5]] * 10, 0.08), 64, "RGB")
    left, top, wide, tall = random_box(300, 200, [[0.3, 0.6, 0.5, 0.5]] * 10, 0.08)
    expected = image.resize((64, 64), Image.Resampling.BILINEAR, box=(left, top, left + wide, top + tall))
    assert np.array_equal(got, np.asarray(expected))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bit_gray_images_keep_their_upper_8_bits(kind):
    values = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64) * 16
    got = decode_crop(encoded(Image.fromarray(values), kind), lambda w, h: central_box(w, h, 1.0), 64, "RGB")
    assert np.array_equal(got, np.repeat((values // 256)[..., None], 3, axis=2))


def test_floating_point_pixels_are_refused_with_the_cure():
    image = encoded(Image.fromarray(np.zeros((8, 8), np.float32)), "TIFF")
    with pytest.raises(ValueError, match="save it with 8 or 16"):
        decode_crop(image, lambda w, h: central_box(w, h, 1.0), 8, "RGB")


@pytest.mark.parametrize("side", [500, 501, 515])
def test_a_jpeg_decoded_at_a_reduced_size_looks_the_same(side, monkeypatch):
    sizes = []
    resize = Image.Image.resize

    def spy(self, *arguments, **options):
        sizes.append(self.size)
        return resize(self, *arguments, **options)

    monkeypatch.setattr(Image.Image, "resize", spy)
    data = encoded(photo(side, 400), "JPEG", quality=95)
    full, reduced = (
        decode_crop(data, lambda w, h: central_box(w, h, 0.9), 90, "RGB", draft) for draft in (False, True)
    )
    assert sizes == [(side, 400), (-(-side // 4), 100)]  # 360 pixels of 400 become 90, so a quarter is enough
    assert np.abs(full.astype(int) - reduced).mean() < 1


def test_a_crop_smaller_than_the_result_is_decoded_in_full(monkeypatch):
    data = encoded(photo(400, 400), "JPEG", quality=95)
    one, other = (decode_crop(data, lambda w, h: central_box(w, h, 0.4), 96, "RGB", draft) for draft in (False, True))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK"])
def test_other_modes_are_converted(mode):
    image = photo(64, 48).convert(mode)
    kind = "JPEG" if mode == "CMYK" else "PNG"
    assert decode_crop(encoded(image, kind), lambda w, h: central_box(w, h, 1), 16, "RGB").shape == (16, 16, 3)
    assert decode_crop(encoded(image, kind), lambda w, h: central_box(w, h, 1), 16, "L").shape == (16, 16, 1)


def test_the_orientation_of_a_photo_is_applied():
    upright = photo(40, 30)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: to be shown rotated by 270 degrees counterclockwise
    turned = encoded(upright.transpose(Image.Transpose.ROTATE_90), "PNG", exif=exif.tobytes())
    assert open_image(turned).size == (40, 30)
    assert np.array_equal(decode(turned, Decoding("RGB")), np.asarray(upright))
    got = decode_crop(turned, lambda w, h: central_box(w, h, 1.0), 30, "RGB")
    assert np.array_equal(got, decode_crop(encoded(upright), lambda w, h: central_box(w, h, 1.0), 30, "RGB"))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "GIF"])
def test_a_truncated_image_is_refused(kind):
    data = encoded(photo(64, 64), kind)
    for keep in (0.3, 0.6, 0.9, 1 - 8 / len(data)):
        with pytest.raises((ValueError, OSError, SyntaxError)):
            decode(data[: int(keep * len(data))], Decoding("RGB"))


def test_images_are_resized_inverted_and_stacked_in_order():
    images = [photo(20, 10), photo(30, 40).convert("L")]
    [stacked] = decode_all(map(encoded, images), Decoding("RGB", 8, Image.Resampling.BICUBIC, invert=True))
    for pixels, image in zip(stacked, images, strict=True):
        resized = image.convert("RGB").resize((8, 8), Image.Resampling.BICUBIC)
        assert np.array_equal(pixels.transpose(1, 2, 0), 255 - np.asarray(resized))
    with pytest.raises(ValueError, match=r"different sizes: \(10, 20\) and \(40, 30\)"):
        list(decode_all(map(encoded, images), Decoding("RGB")))
