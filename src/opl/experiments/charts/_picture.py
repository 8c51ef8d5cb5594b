"""One picture with the predictions of two models: as a value, and in print."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...errors import OptionError
from .style import ACCENT, Array, print_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Guesses = tuple[tuple[str, float], ...]

WIDTH, HEIGHT = 3.6, 1.3  # inches of a picture with its predictions


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture, its class, and the predictions of two models.

    Args:
        pixels: (H, W, 3) or (H, W, 1), uint8.
        truth: the name of its class.
        before: the top predictions of the first model, each a class name and its probability.
        after: the top predictions of the second model.
    """

    pixels: Array
    truth: str
    before: Guesses
    after: Guesses

    def __post_init__(self) -> None:
        _check_pixels(self.pixels)


def place(figure: "Figure", picture: Picture, names: tuple[str, str], corner: tuple[float, float]) -> None:
    """Draw a picture and both predictions; `corner` is the lower left one, in inches."""
    width, height = figure.get_size_inches()
    x, y = corner
    left, bars, tall = 0.06, 1.18, HEIGHT - 0.3
    wide = {left: 1.0, 1.12: bars, 1.12 + bars + 0.08: bars}  # from the left edge: how wide
    image, first, second = (
        figure.add_axes(((x + start) / width, (y + 0.06) / height, each / width, tall / height))
        for start, each in wide.items()
    )
    image.imshow(picture.pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    image.set_title(print_label(picture.truth, 16), fontsize=7, fontweight="bold", pad=3)
    image.set_anchor("N")  # aligned with the top of the bars next to it
    image.set_axis_off()
    for axes, name, guesses in ((first, names[0], picture.before), (second, names[1], picture.after)):
        _bars(axes, name, guesses, picture.truth)


def _bars(axes: "Axes", name: str, guesses: Guesses, truth: str) -> None:
    for row, (guess, probability) in enumerate(guesses):
        true = guess == truth
        p = probability if np.isfinite(probability) else 0.0
        axes.barh(row, p, height=0.86, color=ACCENT if true else "0.7", alpha=0.45)
        weight = "bold" if true else "normal"
        axes.text(0.02, row, print_label(guess, 16), va="center", fontsize=6, fontweight=weight)
        axes.text(0.99, row, f"{100 * p:.0f} %", va="center", ha="right", fontsize=6)
    axes.set(xlim=(0, 1), ylim=(max(5, len(guesses)) - 0.5, -0.5))
    axes.set_title(print_label(name, 22), fontsize=7, pad=3)
    axes.set_axis_off()


def _check_pixels(pixels: Array) -> None:
    shape = np.shape(pixels)
    if len(shape) != 3 or shape[2] not in (1, 3) or 0 in shape or np.asarray(pixels).dtype != np.uint8:
        raise OptionError(
            f"a picture has shape {shape} and type {np.asarray(pixels).dtype}: give (height, width, 1 or 3) of uint8."
        )
