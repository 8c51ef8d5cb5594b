"""The board: paired differences from a baseline as a heat map, one row per loss and one column per measure."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ...errors import OptionError
from ..item import Item
from ..results.measures import ABSENT, BOARD, MeasureInfo, describe_change, describe_verdict, format_difference
from ..results.runs import Rows, Run, number, select_runs
from ..results.text import markdown_table
from .figure import DIVERGING, Figure, Order, Rendering, new_figure, write_cell
from .forest import Contrast, pair_rows
from .style import Array, print_label, shorten
from .svg import DataTable, drawing, element, short

NOTE = (
    "mean difference from the baseline over seeds; purple: better, orange: worse; gray columns have no good direction; "
    "color: relative to the largest difference of the column; frame: significant after Holm's adjustment for the column"
)
BETTER, WORSE, NEUTRAL = (84, 39, 136), (179, 88, 6), (110, 110, 110)
WIDTH, HEIGHT, LEFT, TOP = 66, 24, 170, 64  # pixels of a cell, and of the labels


@dataclass(frozen=True)
class Board:
    """Differences of losses from a baseline in several measures."""

    labels: tuple[str, ...]
    infos: tuple[MeasureInfo, ...]
    cells: tuple[tuple[Contrast | None, ...], ...]
    """One row per loss with one cell per measure; None where no seed has been measured with both."""
    means: Array
    """The mean of every loss in every measure, NaN if unknown; the first row is the baseline."""
    baseline: str = "CE"

    @property
    def differences(self) -> Array:
        """The mean differences, one row per loss; NaN if unknown."""
        values = [cell.difference.mean if cell else math.nan for row in self.cells for cell in row]
        return np.reshape(np.array(values), (len(self.labels), len(self.infos)))

    def shades(self) -> Array:
        """Return values from -1 (worse) to 1 (better) relative to the largest difference of a column; NaN if unknown.

        In columns without a good direction, 1 is the largest increase.
        """
        largest = np.nanmax(np.abs(np.nan_to_num(self.differences)), axis=0, initial=1e-12)
        shades: Array = self.differences / largest * np.array([info.better or 1 for info in self.infos])
        return shades

    def sentences(self) -> list[str]:
        """Return one sentence per loss: where it is best and worst of all, and what differs significantly.

        Losses are ranked by their difference from the baseline, which is 0 for the baseline itself: they may have
        different seeds. Measures without a good direction are not ranked, and of several losses with the same
        difference none is the best.
        """
        with_baseline = np.vstack([np.zeros(len(self.infos)), self.differences])
        ranked = with_baseline * np.array([info.better or math.nan for info in self.infos])
        ends = {"best": np.nanmax, "worst": np.nanmin}
        extremes = {name: [_only_index(column, end) - 1 for column in ranked.T] for name, end in ends.items()}
        return [self._sentence(row, extremes) for row in range(len(self.labels))]

    def _sentence(self, row: int, extremes: Mapping[str, Sequence[int]]) -> str:
        titles, cells = [info.title.removesuffix(" %") for info in self.infos], self.cells[row]
        parts = [
            f"{name} {_join([title for title, index in zip(titles, indices, strict=True) if index == row])}"
            for name, indices in extremes.items()
            if row in indices
        ]
        titles_by_verdict: dict[str, list[str]] = {}
        for title, info, cell in zip(titles, self.infos, cells, strict=True):
            if cell and cell.significant:
                titles_by_verdict.setdefault(describe_verdict(info, cell.decision), []).append(title)
        verdicts = "; ".join(f"{verdict} {_join(names)}" for verdict, names in titles_by_verdict.items())
        compared = (
            f"significantly {verdicts} than {self.baseline}" if verdicts else f"nothing significant vs {self.baseline}"
        )
        if not any(cells):
            compared = "not measured"
        return f"{self.labels[row]}: {'; '.join([', '.join(parts), compared] if parts else [compared])}."


def board(rows: Rows) -> Board:
    """Compute the board of a table whose rows share a baseline; every measure is a family of tests."""
    names = [name for name in BOARD if any(name in run.result for _, runs in rows for run in runs)]
    compared = [row for row, _ in rows if row.baseline]
    by_name = {name: _column(rows, name) for name in names}
    base = next((row.label for row, _ in rows if not row.baseline), "")
    ordered = sorted(rows, key=lambda pair: bool(pair[0].baseline))
    means = np.array([[_mean([run.result.get(name) for run in runs]) for name in names] for _, runs in ordered])
    cells = tuple(tuple(by_name[name].get(row.recipe) for name in names) for row in compared)
    infos = tuple(BOARD[name] for name in names)
    return Board(tuple(row.label for row in compared), infos, cells, means.reshape(len(rows), len(names)), base)


def _column(rows: Rows, name: str) -> dict[str, Contrast]:
    """Return the cells of a measure by recipe; runs without the measure are left out."""
    measured = [(row, [run for run in runs if math.isfinite(number(run.result.get(name)))]) for row, runs in rows]
    pairs = pair_rows([(row, runs) for row, runs in measured if runs], name)
    return {row.recipe: contrast for row, _, contrast in pairs if contrast.pairs}


def _of_item(item: Item, runs: Sequence[Run], scale: str) -> Board:
    return board([(row, select_runs(runs, row.recipe, scale)) for row in item.at(scale)])


def _headline(item: Item, scale: str) -> int:
    """Return the index of the headline row of an item on its board."""
    return [row.recipe for row in item.at(scale) if row.baseline].index(item.headline)


def render_differences(item: Item, runs: Sequence[Run], scale: str) -> str:
    """Render every difference from the baseline in Markdown, significant ones in bold, and one sentence per loss."""
    values = _of_item(item, runs, scale)
    heading = ("loss", *(f"{info.title} {info.arrow}".strip() for info in values.infos))
    means = [f"{mean:.{info.digits}f}" for mean, info in zip(values.means[0], values.infos, strict=True)]
    rows = [
        (
            label,
            *(
                f"**{_text(cell, info)}**" if cell and cell.significant else _text(cell, info)
                for cell, info in zip(cells, values.infos, strict=True)
            ),
        )
        for label, cells in zip(values.labels, values.cells, strict=True)
    ]
    table = markdown_table(heading, [(values.baseline, *means), *rows])
    return "\n\n".join([table, "\n".join(f"- {sentence}" for sentence in values.sentences())])


def render_headline(item: Item, runs: Sequence[Run], scale: str) -> str:
    """Return the sentence about the headline row of an item."""
    return _of_item(item, runs, scale).sentences()[_headline(item, scale)]


def render_expectations(item: Item, runs: Sequence[Run], scale: str) -> str:
    """Render what the headline row of an item improves, worsens and leaves unchanged, in three rows of Markdown."""
    values, index = _of_item(item, runs, scale), _headline(item, scale)
    texts: dict[str, list[str]] = {"better": [], "worse": [], "": []}
    for cell, info, mean in zip(values.cells[index], values.infos, values.means[0], strict=True):
        if cell and info.better:
            verdict = describe_verdict(info, cell.decision)
            change = f"{mean:.{info.digits}f}, {format_difference(info, cell.difference)}"
            equal = f" ({verdict})" if cell.decision.equivalent else ""
            texts[verdict if verdict in texts else ""].append(f"{info.title.removesuffix(' %')}: {change}{equal}")
    titles = {"better": "**buys**", "worse": "**costs**", "": "**no clear change**"}
    rows = [(titles[verdict], "<br>".join(lines) or "nothing significant") for verdict, lines in texts.items()]
    minus = f"{values.labels[index]} minus {values.baseline}"
    return markdown_table(("", f"value of {values.baseline}, then {minus}"), rows)


def _text(cell: Contrast | None, info: MeasureInfo) -> str:
    return f"{cell.difference.mean:+.{info.digits}f}" if cell else ABSENT


def draw(values: Board) -> Figure:
    """Draw the board as a matplotlib figure."""
    if not values.labels or not values.infos:
        raise OptionError("there is no difference to draw: pass at least one loss with a baseline and one measure.")
    shades = values.shades()
    size = (2.0 + 0.78 * len(values.infos), 1.3 + 0.28 * len(values.labels))
    with new_figure(*size) as (figure, [[axes]]):
        signed = np.array([bool(info.better) for info in values.infos])
        axes.imshow(np.where(signed, shades, np.nan), cmap=DIVERGING, vmin=-1.8, vmax=1.8, aspect="auto")
        gray = np.where(signed, np.nan, np.abs(shades))
        axes.imshow(gray, cmap="Greys", vmin=0, vmax=2.2, aspect="auto")
        for row, cells in enumerate(values.cells):
            for column, cell in enumerate(cells):
                framed = cell is not None and cell.significant
                write_cell(axes, row, column, _text(cell, values.infos[column]), framed)
        titles = [print_label(f"{info.title} {info.arrow}".strip(), width=13) for info in values.infos]
        axes.set_xticks(range(len(titles)), titles, fontsize=7)
        axes.set_yticks(range(len(values.labels)), [print_label(label) for label in values.labels])
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        figure.supxlabel(textwrap.fill(NOTE, int(size[0] * 18)), fontsize=6)
    return figure


def to_svg(values: Board) -> Markup:
    """Draw the board as a chart of the page."""
    parts, shades = [], values.shades()
    for column, info in enumerate(values.infos):
        x = LEFT + (column + 0.5) * WIDTH
        for line, text in enumerate((*textwrap.wrap(info.title, 11)[:3], info.arrow)):
            parts.append(element("text", text, x=short(x), y=14 + 13 * line, text_anchor="middle", class_="name"))
    for row, (label, cells) in enumerate(zip(values.labels, values.cells, strict=True)):
        y = TOP + row * HEIGHT
        middle = y + HEIGHT / 2
        parts.append(element("text", shorten(label, 28), x=LEFT - 8, y=middle, dy=".32em", text_anchor="end"))
        for column, cell in enumerate(cells):
            parts.append(_cell_svg(cell, values.infos[column], shades[row, column], LEFT + column * WIDTH, y))
    width, height = LEFT + WIDTH * len(values.infos) + 4, TOP + HEIGHT * len(values.labels) + 4
    return drawing(f"Differences from {values.baseline} by loss and measure.", width, height, *parts)


def _cell_svg(cell: Contrast | None, info: MeasureInfo, shade: float, x: float, y: float) -> Markup:
    red, green, blue = NEUTRAL if not info.better else BETTER if shade > 0 else WORSE
    strength = 0.0 if not math.isfinite(shade) else 0.6 * abs(shade)
    box = {"x": x + 1, "y": y + 1, "width": WIDTH - 2, "height": HEIGHT - 2, "fill": f"rgb({red} {green} {blue})"}
    frame = {"stroke": "currentColor", "stroke_width": 2} if cell and cell.significant else {}
    middle = {"x": short(x + WIDTH / 2), "y": short(y + HEIGHT / 2), "dy": ".32em", "text_anchor": "middle"}
    title = element("title", describe_change(info, cell.difference, cell.decision)) if cell else None
    drawn = element("rect", **box, **frame, fill_opacity=f"{strength:.2f}")
    return element("g", drawn, element("text", _text(cell, info), **middle), title)


def data_table(values: Board) -> DataTable:
    """Return every difference with its interval."""
    rows = [
        (
            label,
            *(
                describe_change(info, cell.difference, cell.decision) if cell else ABSENT
                for info, cell in zip(values.infos, cells, strict=True)
            ),
        )
        for label, cells in zip(values.labels, values.cells, strict=True)
    ]
    titles = tuple(info.title for info in values.infos)
    return DataTable(f"Differences from {values.baseline}", ("loss", *titles), rows, titles)


def render(rows: Rows, order: Order) -> Rendering:
    """Render the heat map and, as text, one sentence per loss."""
    values = board(rows)
    return Rendering({"": draw(values)}, [*values.sentences(), NOTE])


def _only_index(column: Array, end: Callable[[Array], float]) -> int:
    """Return the only row with the largest or smallest value; -1 if there is none, or fewer than three values."""
    if np.isfinite(column).sum() < 3:
        return -1
    [rows] = np.nonzero(column == end(column))
    return int(rows[0]) if len(rows) == 1 else -1


def _mean(values: Sequence[object]) -> float:
    known = [number(value) for value in values if math.isfinite(number(value))]
    return sum(known) / len(known) if known else math.nan


def _join(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
