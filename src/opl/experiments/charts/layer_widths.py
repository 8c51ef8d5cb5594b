"""Table S2: the widths of each network by layer, from the uniform network to the result of the search."""

from collections.abc import Mapping, Sequence

from ..results.runs import Rows, Run, inner
from ..widths import SCALING, uniform_widths
from .figure import BELOW, Figure, Order, Rendering, new_figure
from .style import color, glyph, print_label

Lines = Mapping[str, Sequence[Sequence[int]]]
"""For each stage of a search, by its name: the widths of every layer, one sequence per seed."""


def draw(networks: Mapping[str, Lines]) -> Figure:
    """Draw a matplotlib figure: one panel per network, one line per stage of the search, one dot per seed and layer."""
    with new_figure(3.6 * len(networks), 3.0, columns=len(networks)) as (figure, [grid]):
        for axes, (name, lines) in zip(grid, networks.items(), strict=True):
            for index, (stage, seeds) in enumerate(lines.items()):
                layers = range(1, len(seeds[0]) + 1)
                means = [sum(layer) / len(layer) for layer in zip(*seeds, strict=True)]
                label = print_label(stage)
                axes.plot(layers, means, color=color(index), marker=glyph(index), markersize=4, label=label)
                for widths in seeds if len(seeds) > 1 else ():
                    axes.plot(layers, widths, ".", color=color(index), markersize=3, alpha=0.6)
            axes.set_title(print_label(name), loc="left")
            axes.set(xlabel="layer", ylabel="filters", ylim=(0, None))
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.legend(**BELOW, ncols=3)
    return figure


def stages_of(runs: Sequence[Run]) -> dict[str, list[tuple[int, ...]]]:
    """Return the widths of the uniform network, then after each search or as published; one sequence per seed."""
    stages: dict[str, list[tuple[int, ...]]] = {}
    for run in runs:
        scaling = inner(run.result, SCALING)
        path = [tuple(widths) for widths in (*scaling["history"], scaling["widths"])]
        names = ["uniform", *(f"search {index}" for index in range(1, len(path)))]
        if len(path) == 1:
            path = [uniform_widths(scaling["network"], inner(run.recipe, "model")["ratio"]), *path]
            names = ["uniform", "published"]
        for name, widths in zip(names, path, strict=True):
            stages.setdefault(name, []).append(widths)
    return stages


def render(rows: Rows, order: Order) -> Rendering:
    """Render one panel per network, from the runs without OPL, which have the same widths as the runs with OPL."""
    baselines = [(row, runs) for row, runs in rows if not row.baseline]
    networks = {row.label: stages_of(runs) for row, runs in baselines}
    text = [
        f"{row.label}, {stage}, seed {run.seed}: {', '.join(map(str, widths))}"
        for row, runs in baselines
        for stage, seeds in networks[row.label].items()
        for run, widths in zip(runs, seeds, strict=True)
    ]
    return Rendering({"": draw(networks)}, text)
