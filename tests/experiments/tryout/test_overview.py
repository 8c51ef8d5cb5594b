"""The text of `opl try`: images, warnings, and the commands that repeat or resume it."""

from pathlib import Path

from opl.experiments.data.user_images import ImageFacts
from opl.experiments.tryout.overview import (
    command,
    describe_data,
    describe_images,
    is_imbalanced,
    print_choice,
    warnings_about,
)
from opl.experiments.tryout.preferences import Preferences


def facts(train, val, test, names=("circle", "square")):
    return ImageFacts("here", names, 3, (0.5,) * 3, (0.2,) * 3, (train, val, test), notes=("A note.",))


def test_even_classes_are_described_by_their_size_and_the_chance_level():
    even = facts((42,) * 7, (6,) * 7, (12,) * 7, tuple("abcdefg"))
    assert describe_images(even)["classes"] == "7 classes, 60 images each; chance 14.3 %"
    assert describe_images(even)["images"] == "420: 294 training, 42 validation, 84 test"
    assert not is_imbalanced(even)


def test_imbalance_few_images_and_a_small_test_part_are_warned_about():
    uneven = facts((42, 14), (6, 2), (12, 4))
    assert is_imbalanced(uneven)
    expected = "2 classes, 20 (square) to 60 (circle) images; always predicting circle: 75.0 %"
    assert describe_images(uneven)["classes"] == expected
    warnings = warnings_about(uneven)
    assert [text.split(":")[0] for text in warnings] == [
        "The classes are imbalanced",
        "Few images",
        "The test part has only 16 images",
    ]
    assert "square: 14" in warnings[1]
    assert "6.2 percentage points" in warnings[2]
    assert "A note." in describe_data(uneven)
    assert warnings_about(facts((420, 420), (60, 60), (300, 300))) == []


def test_the_command_has_the_settings_that_differ_from_the_defaults():
    flags = "--out runs --minutes 5 --seeds 3 --image-column 'my image'"
    assert command("my images", Path("runs"), 5.0, Preferences(seeds=3, image_column="my image")) == (
        f"opl try 'my images' {flags}"
    )
    assert command("a", Path("b"), 0.5, Preferences(weight=0.1, gamma=1.0)).endswith("--weight 0.1 --gamma 1")


def test_class_names_that_look_like_markup_are_printed_as_they_are(capsys):
    print_choice("opl try [/red]", {"classes": ("[bold red]cat", "")}, ["[/red]"])
    text = capsys.readouterr().err
    for name in ("[/red]", "[bold red]cat"):
        assert name in text
