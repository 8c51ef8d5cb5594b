"""The trials of a search: one panel per setting, each trial a point."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...errors import OptionError
from .style import color, paper, print_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORD = 24  # letters of a word below an axis
ROOM = 26  # letters of all words below an axis; with more, they are turned
LETTER = 0.07  # inches of a letter


def draw(
    settings: Mapping[str, Sequence[str]],
    values: Sequence[float],
    winner: int,
    metric: str,
    importance: Mapping[str, float],
    log: Sequence[str] = (),
) -> "Figure":
    """A matplotlib figure: what each trial reached over each of its settings.

    Args:
        settings: by name, the value of each trial as a word; numbers are drawn to scale.
        values: what each trial reached.
        winner: the place of the best trial, which is marked.
        metric: name of the values.
        importance: by setting; may be empty.
        log: the settings that are drawn on a logarithmic axis.

    Example:
        >>> draw({"gamma": ["0.5", "1"]}, [70.0, 71.0], 1, "val/top1", {}).axes[0].get_xlabel()
        'gamma'
    """
    from matplotlib.figure import Figure

    if not settings or not values:
        raise OptionError("no trial is finished, so there is nothing to draw: run more trials.")
    turned = {name for name, words in settings.items() if not _are_numbers(words) and _letters(words) > ROOM}
    longest = max((min(WORD, len(word)) for name in turned for word in settings[name]), default=0)
    with paper():
        size = (2.6 * len(settings) + 0.6, 2.9 + LETTER * longest)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(1, len(settings), squeeze=False, sharey=True)[0]
        for axes, (name, words) in zip(grid, settings.items(), strict=True):
            places = _places(words)
            axes.plot(places, values, "o", color=color(1), alpha=0.6, markersize=4, label="trial")
            axes.plot(places[winner], values[winner], "*", color=color(2), markersize=11, label="winner")
            if name in log:
                axes.set_xscale("log")
                axes.xaxis.set_major_formatter(_plain_number)
                axes.xaxis.set_minor_formatter("")
            elif not _are_numbers(words):
                names = [print_label(word, WORD) for word in dict.fromkeys(words)]
                axes.set_xticks(range(len(names)), names, rotation=90 if name in turned else 0)
                axes.set_xlim(-0.5, len(names) - 0.5)
            axes.set_xlabel(print_label(name))
            if name in importance:
                axes.set_title(f"importance {importance[name]:.0%}", loc="left")
        grid[0].set_ylabel(print_label(metric))
        figure.legend(*grid[-1].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _letters(words: Sequence[str]) -> int:
    """The letters of all different words."""
    return sum(min(WORD, len(word)) for word in dict.fromkeys(words))


def _plain_number(value: float, _: int | None = None) -> str:
    return f"{value:g}"


def _are_numbers(words: Sequence[str]) -> bool:
    try:
        return bool([float(word) for word in words])
    except ValueError:
        return False


def _places(words: Sequence[str]) -> list[float]:
    """Where values lie on an axis: numbers at their value, words one after another."""
    if _are_numbers(words):
        return [float(word) for word in words]
    names = list(dict.fromkeys(words))
    return [float(names.index(word)) for word in words]
