"""The trials of a search: one panel per setting, one point per trial."""

from collections.abc import Mapping, Sequence

from ...errors import OptionError
from .figure import Figure, new_figure
from .style import color, print_label

NAME = 24  # characters of a name below an axis
LEVEL_NAMES = 26  # characters of all names below an axis; with more, they are rotated
CHARACTER = 0.07  # inches per character


def draw(
    settings: Mapping[str, Sequence[str]],
    values: Sequence[float],
    winner: int,
    metric: str,
    importance: Mapping[str, float],
    log: Sequence[str] = (),
) -> Figure:
    """Draw a matplotlib figure: the result of each trial over each of its settings.

    Args:
        settings: by name, the value of each trial as text; numbers are drawn to scale.
        values: the result of each trial.
        winner: the index of the best trial, which is marked.
        metric: name of the values.
        importance: by setting; may be empty.
        log: the settings that are drawn on a logarithmic axis.
    """
    if not settings or not values:
        raise OptionError("no trial is finished, so there is nothing to draw: run more trials.")
    rotated = {
        name
        for name, texts in settings.items()
        if not _are_numbers(texts) and sum(min(NAME, len(text)) for text in {*texts}) > LEVEL_NAMES
    }
    longest = max((min(NAME, len(text)) for name in rotated for text in settings[name]), default=0)
    size = (2.6 * len(settings) + 0.6, 2.9 + CHARACTER * longest)
    with new_figure(*size, columns=len(settings), sharey=True) as (figure, [grid]):
        for axes, (name, texts) in zip(grid, settings.items(), strict=True):
            positions = _positions(texts)
            axes.plot(positions, values, "o", color=color(1), alpha=0.6, markersize=4, label="trial")
            axes.plot(positions[winner], values[winner], "*", color=color(2), markersize=11, label="winner")
            if name in log:
                axes.set_xscale("log")
                axes.xaxis.set_major_formatter("{x:g}")
                axes.xaxis.set_minor_formatter("")
            elif not _are_numbers(texts):
                names = [print_label(text, NAME) for text in dict.fromkeys(texts)]
                axes.set_xticks(range(len(names)), names, rotation=90 if name in rotated else 0)
                axes.set_xlim(-0.5, len(names) - 0.5)
            axes.set_xlabel(print_label(name))
            if name in importance:
                axes.set_title(f"importance {importance[name]:.0%}", loc="left")
        grid[0].set_ylabel(print_label(metric))
        figure.legend(*grid[-1].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _are_numbers(texts: Sequence[str]) -> bool:
    try:
        return bool([float(text) for text in texts])
    except ValueError:
        return False


def _positions(texts: Sequence[str]) -> list[float]:
    """Return the positions of values on an axis: numbers at their value, other texts one after another."""
    if _are_numbers(texts):
        return [float(text) for text in texts]
    names = list(dict.fromkeys(texts))
    return [float(names.index(text)) for text in texts]
