"""Pictures become a pack of images: what cannot be used is left out and said, and no copy is in two parts."""

import io

import numpy as np
import pytest
from PIL import Image

from _pictures import encoded
from _shapes import draw, shape_folder
from opl.errors import DataError
from opl.experiments.data.read.pack import read_arrays
from opl.experiments.tryout.location import list_pictures
from opl.experiments.tryout.survey import PackSettings, look_at, pack_key, pack_pictures
from opl.experiments.tryout.words import describe_images, is_imbalanced, warnings_about


def pack(folder, target, size=16, most=0, seed=0, color=False):
    facts = pack_pictures(list_pictures(str(folder)), target, PackSettings(size, most, seed, color))
    return facts, read_arrays(target)


def test_pixels_labels_and_statistics_are_those_of_the_pictures(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 10, "square": 10})
    facts, arrays = pack(tmp_path / "a", tmp_path / "pack")
    assert facts.class_names == ("circle", "square")
    files = [*sorted((tmp_path / "a/circle").iterdir()), *sorted((tmp_path / "a/square").iterdir())]
    expected = np.stack([np.asarray(Image.open(io.BytesIO(file.read_bytes()), formats=["PNG"])) for file in files])
    np.testing.assert_array_equal(arrays["pixels"], expected.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(arrays["labels"], [0] * 10 + [1] * 10)
    train = expected[arrays["parts"] == 0] / 255
    np.testing.assert_allclose(facts.mean, train.mean((0, 1, 2)), atol=1e-4)
    np.testing.assert_allclose(facts.std, train.std((0, 1, 2)), atol=1e-4)
    assert facts.counts == ((7, 7), (1, 1), (2, 2))
    assert "no test part: 20% of every class" in facts.notes[0]


def test_unreadable_pictures_are_listed_by_name_left_out_and_counted(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 6, "square": 6})
    whole = encoded(draw("circle", 50))
    (tmp_path / "a/circle/cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "a/circle/text.jpg").write_text("not a picture")
    (tmp_path / "a/square/zero.png").write_bytes(b"")
    facts, _ = pack(tmp_path / "a", tmp_path / "pack")
    assert sum(facts.sizes) == 12
    assert [line.partition(":")[0] for line in facts.left_out] == [
        "circle/cut.png",
        "circle/text.jpg",
        "square/zero.png",
    ]
    assert any("3 pictures that cannot be read (circle/cut.png, circle/text.jpg" in note for note in facts.notes)


def test_a_folder_without_a_single_readable_picture_is_an_error(tmp_path):
    for name in ("circle", "square"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.png").write_text("not a picture")
    with pytest.raises(DataError, match=r"none of the 2 pictures .*circle/a.png: ValueError"):
        look_at(list_pictures(str(tmp_path)))
    with pytest.raises(DataError, match="none of the 2 pictures"):
        pack(tmp_path, tmp_path / "pack")


def test_copies_are_never_in_two_parts_and_contradictions_are_left_out(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 20, "square": 20})
    for number in range(10):
        original = (tmp_path / f"a/circle/{number:03d}.png").read_bytes()
        (tmp_path / f"a/circle/copy-{number}.png").write_bytes(original)
    (tmp_path / "a/circle/resaved.bmp").write_bytes(encoded(draw("circle", 12), "BMP"))
    (tmp_path / "a/square/wrong.png").write_bytes((tmp_path / "a/circle/015.png").read_bytes())
    facts, arrays = pack(tmp_path / "a", tmp_path / "pack")
    assert "Left out: 11 copies of other pictures, so that no picture is in two parts." in facts.notes
    assert "Left out: 2 pictures of which there are copies with another label." in facts.notes
    assert facts.per_class == (19, 20)
    pixels = [row.tobytes() for row in arrays["pixels"]]
    assert len(set(pixels)) == len(pixels)


def test_of_copies_in_given_parts_the_tested_one_stays(tmp_path):
    shape_folder(tmp_path / "a/train", {"circle": 8, "square": 8})
    shape_folder(tmp_path / "a/test", {"circle": 2, "square": 0})  # the first two circles again
    (tmp_path / "a/test/square/new.png").write_bytes(encoded(draw("square", 77)))
    facts, _ = pack(tmp_path / "a", tmp_path / "pack")
    assert facts.counts[2] == (2, 1)
    assert facts.per_class == (8, 9)


def test_small_classes_are_left_out_by_name_and_one_class_is_refused(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 4, "square": 3, "stripe": 2})
    facts, _ = pack(tmp_path / "a", tmp_path / "pack")
    assert facts.class_names == ("circle", "square")
    assert facts.counts == ((2, 1), (1, 1), (1, 1))
    assert "Left out: 1 class with fewer than 3 pictures ('stripe' (2))." in facts.notes
    shape_folder(tmp_path / "b", {"circle": 9, "square": 2})
    with pytest.raises(DataError, match=r"has one class, 'circle'.*at least two are needed.*'square' \(2\)"):
        pack(tmp_path / "b", tmp_path / "other")


def test_gray_pictures_have_one_channel_unless_color_is_needed_and_one_color_makes_all_three(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 4, "square": 4}, mode="L")
    facts, arrays = pack(tmp_path / "a", tmp_path / "pack")
    assert (facts.channels, arrays["pixels"].shape[1]) == (1, 1)
    assert any("gray" in note for note in facts.notes)
    assert pack(tmp_path / "a", tmp_path / "colors", color=True)[0].channels == 3
    (tmp_path / "a/circle/color.png").write_bytes(encoded(draw("circle", 9)))
    assert pack(tmp_path / "a", tmp_path / "mixed")[0].channels == 3


def test_pictures_of_several_sizes_are_cut_to_the_central_square_and_resized(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 4, "square": 4})
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = 200
    (tmp_path / "a/circle/wide.png").write_bytes(encoded(Image.fromarray(wide)))
    facts, arrays = pack(tmp_path / "a", tmp_path / "pack")
    assert (arrays["pixels"][4][:, :, 1:-1] == 200).all()  # the filter blends the border with what is outside
    assert any("different sizes, from 16 x 16 to 60 x 20" in note for note in facts.notes)


def test_a_sample_takes_the_same_fraction_of_every_class_and_depends_on_the_seed_alone(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 30, "square": 60})
    facts, arrays = pack(tmp_path / "a", tmp_path / "pack", most=30)
    assert facts.per_class == (10, 20)
    assert any("30 of 90 pictures are used" in note for note in facts.notes)
    again = pack(tmp_path / "a", tmp_path / "again", most=30)[1]
    other = pack(tmp_path / "a", tmp_path / "other", most=30, seed=1)[1]
    assert (again["pixels"] == arrays["pixels"]).all()
    assert (again["parts"] == arrays["parts"]).all()
    assert not (other["pixels"] == arrays["pixels"]).all()


def test_the_key_changes_with_the_files_and_the_settings(tmp_path):
    shape_folder(tmp_path, {"circle": 3, "square": 3})
    settings = PackSettings(16, 0, 0, False)
    before = list_pictures(str(tmp_path))
    assert pack_key(before, settings) == pack_key(list_pictures(str(tmp_path)), settings)
    assert pack_key(before, settings) != pack_key(before, settings._replace(size=32))
    (tmp_path / "circle/000.png").write_bytes(encoded(draw("stripe", 1)))
    assert pack_key(before, settings) != pack_key(list_pictures(str(tmp_path)), settings)


def test_imbalance_and_few_images_are_said_with_the_share_of_the_largest_class(tmp_path):
    shape_folder(tmp_path / "a", {"circle": 60, "square": 20})
    facts, _ = pack(tmp_path / "a", tmp_path / "pack")
    assert is_imbalanced(facts)
    assert (
        "20 (square) to 60 (circle) images; always saying circle would be right in 75.0%"
        in (describe_images(facts)["classes"])
    )
    said = " ".join(warnings_about(facts))
    for words in ("balanced accuracy", "square: 14", "16 images: one of them is 6.2 percentage points"):
        assert words in said
    shape_folder(tmp_path / "b", {"circle": 30, "square": 30})
    assert not is_imbalanced(pack(tmp_path / "b", tmp_path / "even")[0])
