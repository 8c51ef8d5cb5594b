"""The pictures on the page."""

import base64
import io

import numpy as np
import pytest
from _written_page import page_of

from _page import Reader
from _runs import opl, write_run, write_table
from opl.experiments.report.images import enlarged


def test_runs_without_outputs_have_no_pictures(tmp_path):
    write_run(tmp_path, "cifar100-ce")
    write_run(tmp_path, "cifar100-opl", method=opl(1.0))
    read = Reader(page_of(tmp_path))
    assert "table-1-small-table" in read.ids
    for part in ("features", "classes", "pictures", "sweeps"):
        assert f"table-1-small-{part}" not in read.ids


def test_pictures_carry_their_class_in_words(tmp_path):
    page = page_of(write_table(tmp_path, seeds=1))
    part = page[page.index('id="table-1-small-pictures"') :]
    images = [given for name, given in Reader(part).tags if name == "img"]
    assert 0 < len(images) <= 3 * 12  # three comparisons, six pictures each way
    assert all(given["alt"].startswith("Test picture of the class ") for given in images)
    others = [given for name, given in Reader(page.replace(part, "")).tags if name == "img"]
    assert all(given["alt"] == "" for given in others)  # what they show is said beside them


@pytest.mark.parametrize(
    ("size", "expected"),
    [((8, 8), (96, 96)), ((28, 28), (112, 112)), ((32, 64), (192, 96)), ((96, 96), (96, 96)), ((224, 200), (200, 224))],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_a_small_picture_is_enlarged_without_a_blur(size, expected, channels):
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    pixels = np.random.default_rng(0).integers(0, 256, (*size, channels), dtype=np.uint8)
    head, data = enlarged(pixels).split(",")
    assert head == "data:image/png;base64"
    shown = image.open(io.BytesIO(base64.b64decode(data)))
    assert shown.size == expected
    factor = expected[1] // size[0]
    back = np.asarray(shown).reshape(size[0] * factor, size[1] * factor, channels)[::factor, ::factor]
    np.testing.assert_array_equal(back, pixels)
