"""Table S2: the widths of each network layer by layer, from the uniform one to what the search found."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...errors import OptionError
from ..results.runs import Rows, Run, inner
from ..widths import SCALING, uniform_widths
from .rendering import Order, Rendering
from .style import BELOW, color, glyph, paper, print_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEEDS: tuple[str, ...] = ()  # only the results
Lines = Mapping[str, Sequence[Sequence[int]]]
"""For each stage of a search, by its name: the widths of every layer, for one seed after another."""


def draw(networks: Mapping[str, Lines]) -> "Figure":
    """A matplotlib figure: one panel per network, one line per stage of the search, a dot per seed and layer.

    Args:
        networks: the stages of each network, by its name.

    Example:
        >>> draw({"VGG-11": {"uniform": [(64, 128)], "search 1": [(90, 120), (92, 118)]}}).axes[0].get_xlabel()
        'layer'
    """
    from matplotlib.figure import Figure

    if not networks or not all(networks.values()):
        raise OptionError("a network has no widths to draw: give at least one network, with at least one stage.")
    with paper():
        figure = Figure(figsize=(3.6 * len(networks), 3.0), layout="constrained")
        for axes, (name, lines) in zip(
            figure.subplots(1, len(networks), squeeze=False)[0], networks.items(), strict=True
        ):
            for look, (stage, seeds) in enumerate(lines.items()):
                layers = range(1, len(seeds[0]) + 1)
                means = [sum(each) / len(each) for each in zip(*seeds, strict=True)]
                axes.plot(layers, means, color=color(look), marker=glyph(look), markersize=4, label=print_label(stage))
                for widths in seeds if len(seeds) > 1 else ():
                    axes.plot(layers, widths, ".", color=color(look), markersize=3, alpha=0.6)
            axes.set_title(print_label(name), loc="left")
            axes.set(xlabel="layer", ylabel="filters", ylim=(0, None))
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.legend(**BELOW, ncols=3)
    return figure


def stages_of(runs: Sequence[Run]) -> dict[str, list[tuple[int, ...]]]:
    """By seed, the widths of the uniform network, then those after each search, or the published ones."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for run in runs:
        scaling = inner(run.result, SCALING)
        path = [tuple(each) for each in (*scaling["history"], scaling["widths"])]
        names = ["uniform", *(f"search {place}" for place in range(1, len(path)))]
        if len(path) == 1:
            path = [uniform_widths(scaling["network"], inner(run.recipe, "model")["ratio"]), *path]
            names = ["uniform", "published"]
        for name, widths in zip(names, path, strict=True):
            found.setdefault(name, []).append(widths)
    return found


def render(rows: Rows, order: Order) -> Rendering:
    """One panel per network, from the runs without OPL, which have the same widths as those with it."""
    networks = {row.label: stages_of(runs) for row, runs in rows if not row.baseline}
    words = [
        f"{name}, {stage}, seed {runs[place].seed}: {', '.join(map(str, widths))}"
        for (name, stages), (_, runs) in zip(
            networks.items(), (each for each in rows if not each[0].baseline), strict=True
        )
        for stage, seeds in stages.items()
        for place, widths in enumerate(seeds)
    ]
    return Rendering({"": draw(networks)}, words)
