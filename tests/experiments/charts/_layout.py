"""Where the words of a figure are in the PNG that is written: those that overlap, and those that an edge cuts."""

from contextlib import contextmanager
from functools import wraps
from itertools import combinations
from typing import NamedTuple

TOUCH = 1.5  # pixels by which the boxes of two words may overlap: boxes are larger than their letters


class Word(NamedTuple):
    """A text as it was drawn, with its box in pixels: left, bottom, right, top."""

    text: str
    box: tuple[float, float, float, float]


class Drawing:
    """The words of the last pass over a figure, and the size of its PNG in pixels."""

    def __init__(self):
        self.words, self.size = [], (0.0, 0.0)

    def overlaps(self):
        """Pairs of words that are drawn over each other."""
        return [
            f"{one.text!r} over {other.text!r}"
            for one, other in combinations(self.words, 2)
            if _shared(one.box[0::2], other.box[0::2]) > TOUCH and _shared(one.box[1::2], other.box[1::2]) > TOUCH
        ]

    def cut(self):
        """Words that reach beyond an edge of the PNG."""
        width, height = self.size
        return [
            word.text
            for word in self.words
            if word.box[0] < 0 or word.box[1] < 0 or word.box[2] > width or word.box[3] > height
        ]


def _shared(one, other):
    return min(one[1], other[1]) - max(one[0], other[0])


@contextmanager
def recorded(monkeypatch):
    """The drawings of all PNG files that are written meanwhile, in their order."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    drawings, current = [], Drawing()
    draw_text, draw_figure, print_png = Text.draw, Figure.draw, FigureCanvasAgg.print_png

    @wraps(draw_text)
    def draw_and_keep(text, renderer, *more, **options):
        draw_text(text, renderer, *more, **options)
        if isinstance(renderer, RendererAgg) and text.get_visible() and text.get_text().strip():
            current.words.append(Word(text.get_text(), text.get_window_extent(renderer).extents))

    @wraps(draw_figure)
    def start_again(figure, renderer):
        if isinstance(renderer, RendererAgg):  # a figure is drawn several times: what the last pass drew is written
            current.words, current.size = [], (renderer.width, renderer.height)
        return draw_figure(figure, renderer)

    @wraps(print_png)
    def print_and_keep(canvas, *more, **options):
        nonlocal current
        print_png(canvas, *more, **options)
        drawings.append(current)
        current = Drawing()

    with monkeypatch.context() as patch:
        patch.setattr(Text, "draw", draw_and_keep)
        patch.setattr(Figure, "draw", start_again)
        patch.setattr(FigureCanvasAgg, "print_png", print_and_keep)
        yield drawings
