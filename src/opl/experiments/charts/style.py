"""Shared by both renderers: colors, symbols and safe labels."""

import textwrap
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]

# The color-blind safe palette of Okabe and Ito, with black replaced by a gray that is also visible on dark pages and
# with yellow, which is faint on white, last. Brown and olive are added, so that ten digits differ.
ACCENT = "#0072B2"
PALETTE = (
    *("#7F7F7F", ACCENT, "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#F0E442"),
    *("#8C564B", "#999933"),
)

# Seven symbols and ten colors: 70 combinations before one repeats.
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down", "cross")
_GLYPHS = ("o", "s", "D", "^", "X", "v", "P")

NAME_LENGTH = 40


def color(index: int) -> str:
    """Return the color with this index: 0 is the baseline's gray, 1 the accent.

    Example:
        >>> color(1) == color(11) == ACCENT
        True
    """
    return PALETTE[index % len(PALETTE)]


def marker(index: int) -> str:
    """Return the symbol with this index, so that color is never the only difference.

    Example:
        >>> marker(0), marker(1)
        ('circle', 'square')
    """
    return _SYMBOLS[index % len(_SYMBOLS)]


def glyph(index: int) -> str:
    """Return matplotlib's name of the same symbol.

    Example:
        >>> glyph(1)
        's'
    """
    return _GLYPHS[index % len(_GLYPHS)]


def shorten(name: str, length: int = NAME_LENGTH) -> str:
    """Shorten a name to one line of at most `length` characters, all of them printable.

    Example:
        >>> shorten("a very long name", 8)
        'a very …'
    """
    text = "".join(letter if letter.isprintable() else " " for letter in str(name))
    text = " ".join(text.split()) or "(no name)"
    return text if len(text) <= length else text[: length - 1] + "…"


def print_label(name: str, length: int = NAME_LENGTH, width: int = NAME_LENGTH) -> str:
    """Return a name as a label of a matplotlib figure: shortened, never parsed as a formula or a hidden entry.

    Args:
        name: any text.
        length: the maximum number of characters.
        width: the maximum number of characters per line.

    Example:
        >>> print(print_label("$5"))
        \\$5
    """
    text = textwrap.fill(shorten(name, length), width).replace("$", r"\$")
    return " " + text if text.startswith("_") else text  # legends omit labels that start with an underscore


def split_common(before: str, after: str) -> tuple[str, tuple[str, str]]:
    """Return the words that two labels begin with, and the rest of both, which is never empty.

    Example:
        >>> split_common("CIFAR-100, 20 classes CE", "CIFAR-100, 20 classes CE+OPL")
        ('CIFAR-100, 20 classes', ('CE', 'CE+OPL'))
    """
    first, second = before.split(), after.split()
    same = 0
    while same < min(len(first), len(second)) - 1 and first[same] == second[same]:
        same += 1
    return " ".join(first[:same]), (" ".join(first[same:]), " ".join(second[same:]))
