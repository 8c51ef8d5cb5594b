"""The matplotlib renderer: from the runs of a figure to PDF, PNG and text files, with a footer that names the runs."""

import io
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ...errors import FolderError
from ..files import write_whole
from ..item import Item
from ..results.runs import Run, inner, list_seeds, select_runs
from ..results.tables import count_of, describe_network

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Axes: TypeAlias = "matplotlib.axes.Axes"
Figure: TypeAlias = "matplotlib.figure.Figure"
Order = Literal["class", "cluster", "superclass"]
"""The order of the classes in a similarity matrix; the other figures ignore it."""
FROM_RECORDS = ("board", "forest", "weight_grid", "sweeps", "layer_widths")
"""Charts of final numbers, which can be drawn from the records in `results/`."""
ARRAYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("features", "plane", "similarity", "neighbors", "gallery"), ("test",)),
    "lda": ("test", "novel"),
}
"""The arrays that a chart reads, by its name; other charts read only numbers."""

SCALE = "cividis"  # perceptually uniform, color-blind safe, and linear in grayscale
DIVERGING = "PuOr"  # color-blind safe, white in the middle: for values of both signs
BELOW: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.22)}  # a legend below its panel
TRIMMED: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.05}  # no label is clipped at the edge
NAMED = 3  # distinct data sets, networks or commits that a footer names; the rest is counted
FOOTER_SIZE = 6  # points
FOOTER_CHARACTERS = 20  # per inch at that size
FOOTER_GAP = 0.06  # inches between a figure and its footer

_PAPER: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "pdf.fonttype": 42,  # embed TrueType fonts, so that text stays text in the PDF
}


class Rendering(NamedTuple):
    """Figures by the suffix of their file names, and what they show as lines of text."""

    figures: dict[str, Figure]
    text: list[str]
    runs: Mapping[str, Sequence[Run]] = {}
    """The runs behind a figure, by the same suffix, where these are not all runs of the rows."""


def draw_item(
    item: Item, runs: Sequence[Run], folder: Path, scale: str, order: Order = "class"
) -> tuple[list[Path], list[str]]:
    """Draw a figure from the finished runs of its rows; return the files written and its content as text.

    The files are `NAME.pdf`, `NAME.png` and `NAME.txt`; `item.figure` is the name of a module of this package.
    """
    rows = [(row, select_runs(runs, row.recipe, scale)) for row in item.at(scale)]
    if not rows or not all(finished for _, finished in rows):
        missing = ", ".join(row.recipe for row, finished in rows if not finished) or f"any run at scale {scale}"
        raise FolderError(f"{item.name} cannot be drawn without {missing}: finish them with opl reproduce {item.name}.")
    rendered: Rendering = import_module(f"{__package__}.{item.figure}").render(rows, order)
    all_runs = [run for _, finished in rows for run in finished]
    written = []
    for suffix, figure in rendered.figures.items():
        add_footer(figure, describe_runs(rendered.runs.get(suffix, all_runs)))
        written += save(figure, folder / f"{item.name}{suffix}")
    text = folder / f"{item.name}.txt"
    write_whole(text, "\n".join(rendered.text) + "\n")
    return [*written, text], rendered.text


@contextmanager
def paper() -> Iterator[None]:
    """Use matplotlib's defaults with our settings instead of the user's matplotlibrc; restore everything afterwards."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_PAPER)
        yield


@contextmanager
def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, **grid: Any
) -> Iterator[tuple[Figure, Any]]:
    """Yield an empty figure of a size in inches, and its axes as an array (rows, columns), to draw in the block."""
    import matplotlib.figure

    with paper():
        figure = matplotlib.figure.Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False, **grid)


def write_cell(axes: Axes, row: int, column: int, text: str, framed: bool) -> None:
    """Write into a cell of a heat map, with a frame around it if it is significant."""
    from matplotlib.patches import Rectangle

    axes.text(column, row, text, ha="center", va="center", fontsize=7)
    if framed:
        corner = (column - 0.46, row - 0.44)
        axes.add_patch(Rectangle(corner, 0.92, 0.88, fill=False, linewidth=1.4, edgecolor="black"))


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write `stem.pdf` and `stem.png`; equal figures yield equal bytes. A missing folder is created.

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
            _fix_layout(figure)
            _write(figure, pdf, metadata={"CreationDate": None}, **TRIMMED)
            _write(figure, png, metadata={"Software": None}, dpi=200, **TRIMMED)
    except OSError as error:
        raise FolderError(f"cannot write to {stem.parent} ({error.strerror}): choose another folder.") from error
    return [pdf, png]


def describe_runs(runs: Sequence[Run]) -> str:
    """Describe data, network, scale, seeds and commit of the runs behind a figure in one line; empty without runs.

    Synthetic data are marked as such, because their numbers mean nothing.
    """
    if not runs:
        return ""
    data = _list_some(_describe_data(run) for run in runs)
    networks = _list_some(describe_network(inner(run.recipe, "model")) for run in runs)
    scales = _list_some(f"{run.scale or 'unknown'} scale" for run in runs)
    commits = _list_some(str(run.about.get("commit") or "unknown") for run in runs)
    noun = "commit" if len({run.about.get("commit") for run in runs}) == 1 else "commits"
    return " · ".join((data, networks, scales, list_seeds(run.seed for run in runs), f"{noun} {commits}"))


def add_footer(figure: Figure, line: str) -> None:
    """Write a line below a figure, wrapped to its width.

    Example:
        >>> from matplotlib.figure import Figure
        >>> figure = Figure(figsize=(2, 1))
        >>> add_footer(figure, "Digits, 10 classes · DigitsNet (width 32) · small scale · seed 0 · commit 06f8644cf3")
        >>> print(figure.texts[0].get_text())
        Digits, 10 classes · DigitsNet (width
        32) · small scale · seed 0 · commit
        06f8644cf3
    """
    width, height = figure.get_size_inches()
    text = textwrap.fill(line, max(30, int(width * FOOTER_CHARACTERS))).replace("$", r"\$")
    figure.text(0.01, -FOOTER_GAP / height, text, fontsize=FOOTER_SIZE, color="0.35", va="top", ha="left")


def _list_some(texts: Iterable[str]) -> str:
    """Join distinct texts in the order of their first appearance; of many, the first and the number of the rest."""
    distinct = list(dict.fromkeys(texts))
    if len(distinct) > NAMED:
        return f"{distinct[0]} and {len(distinct) - 1} more"
    return " / ".join(distinct)


def _describe_data(run: Run) -> str:
    data = inner(run.recipe, "data")
    kind, like, source = (str(data.get(key) or "") for key in ("kind", "like", "of"))
    name = f"{kind} of {source}" if source else kind or "unknown data"
    if kind.startswith("Synthetic") or source == "synthetic":
        name = f"synthetic data like {like}" if like else "synthetic data"
    target: list[str] = [f"target {data['target']}"] if data.get("target") else []
    classes = count_of(run.splits().get("class_names"))
    return ", ".join([name, *target, *([f"{classes} classes"] if classes else [])])


def _fix_layout(figure: Figure) -> None:
    """Compute the layout once: computed again it shifts slightly, and files of the same figure would differ.

    Legends are anchored to the area of the figure: by default they would move when the file is trimmed.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, 0, 1, 1), figure.transFigure)


def _write(figure: Figure, target: Path, **options: Any) -> None:
    data = io.BytesIO()
    figure.savefig(data, format=target.suffix[1:], **options)
    write_whole(target, data.getvalue())
