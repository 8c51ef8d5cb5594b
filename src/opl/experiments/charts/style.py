"""Shared by all figures: colors and symbols, safe labels, and atomic file writes."""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ...errors import FolderError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]

# The color-blind safe palette of Okabe and Ito, with black replaced by a gray that is also visible on dark pages and
# with yellow, faint on white, as its last. A brown and an olive are added, so that ten digits differ.
ACCENT = "#0072B2"
PALETTE = (
    *("#7F7F7F", ACCENT, "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#F0E442"),
    *("#8C564B", "#999933"),
)
SCALE = "cividis"  # perceptually uniform, color-blind safe, and linear in grayscale
DIVERGING = "PuOr"  # color-blind safe, white in the middle: for values of both signs

# Seven symbols and ten colors: 70 combinations before one repeats.
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down", "cross")
_GLYPHS = ("o", "s", "D", "^", "X", "v", "P")

NAME_LENGTH = 40
BELOW: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.22)}  # a legend below its panel
LINE = 0.17  # inches of a line of a legend
TRIMMED: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.05}  # no label is cut off at the edge

_PAPER: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "pdf.fonttype": 42,  # embed TrueType fonts, so that text stays text in the PDF
}


def color(index: int) -> str:
    """The color with this index: 0 is the baseline's gray, 1 the accent.

    Example:
        >>> color(1) == color(11) == ACCENT
        True
    """
    return PALETTE[index % len(PALETTE)]


def marker(index: int) -> str:
    """The symbol with this index, so that color is never the only difference.

    Example:
        >>> marker(0), marker(1)
        ('circle', 'square')
    """
    return _SYMBOLS[index % len(_SYMBOLS)]


def glyph(index: int) -> str:
    """The same symbol as matplotlib calls it.

    Example:
        >>> glyph(1)
        's'
    """
    return _GLYPHS[index % len(_GLYPHS)]


def shorten(name: str, length: int = NAME_LENGTH) -> str:
    """A name on one line, with at most `length` characters, all of them printable.

    Example:
        >>> shorten("a very long name", 8)
        'a very …'
    """
    shown = "".join(letter if letter.isprintable() else " " for letter in str(name))
    shown = " ".join(shown.split()) or "(no name)"
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def print_label(name: str, length: int = NAME_LENGTH, width: int = NAME_LENGTH) -> str:
    """A name as a label in a matplotlib figure: shortened, and never parsed as a formula or as a hidden entry.

    Args:
        name: any text.
        length: the maximum number of characters.
        width: the maximum number of characters per line.

    Example:
        >>> print(print_label("$5"))
        \\$5
    """
    shown = textwrap.fill(shorten(name, length), width).replace("$", r"\$")
    return " " + shown if shown.startswith("_") else shown  # legends omit labels that start with an underscore


@contextmanager
def paper() -> Iterator[None]:
    """Use matplotlib's defaults with our settings instead of the user's matplotlibrc; restore everything afterwards."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_PAPER)
        yield


def save(figure: "Figure", stem: Path) -> list[Path]:
    """Write `stem.pdf` and `stem.png`; equal figures give equal bytes.

    Args:
        figure: returned by a `draw` function.
        stem: path without a suffix; the folder is created if it is missing.

    Returns:
        The paths of the two files.

    Example:
        >>> import tempfile
        >>> from matplotlib.figure import Figure
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path.name for path in save(Figure(), Path(folder) / "figure-2")]
        ['figure-2.pdf', 'figure-2.png']
    """
    stem = Path(stem)
    pdf, png = (stem.with_name(f"{stem.name}.{kind}") for kind in ("pdf", "png"))
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        with paper():
            _settle(figure)
            _write(figure, pdf, metadata={"CreationDate": None}, **TRIMMED)
            _write(figure, png, metadata={"Software": None}, dpi=200, **TRIMMED)
    except OSError as error:
        raise FolderError(f"cannot write to {stem.parent} ({error.strerror}): give another folder.") from error
    return [pdf, png]


def _settle(figure: "Figure") -> None:
    """Compute the layout once: computed again it shifts slightly, and files of the same figure would differ.

    Legends are anchored to the area of the figure: by default they would move when the file is trimmed.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, 0, 1, 1), figure.transFigure)


def _write(figure: "Figure", target: Path, **options: Any) -> None:
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        figure.savefig(temporary, format=target.suffix[1:], **options)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
