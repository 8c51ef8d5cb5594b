"""One self-contained HTML page from what is on disk: no torch, no network, at most 6 MB."""

import base64
import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from pathlib import Path

from ... import __version__
from ...errors import FolderError
from ..files import write_whole
from ..item import Item
from ..results.conformity import Recipes, screen
from ..results.runs import Run, read_runs
from . import curves, feature_space, overview, pictures, rerun, result_tables, sweeps
from .charts import Charts
from .context import Context
from .groups import group_runs, slug
from .markup import Markup, join, no_break, tag

LARGEST = 6_000_000  # maximum size of the page in bytes
ROOMS = (800_000, 250_000, 0)  # bytes for the chart data, tried in order; plotly itself takes 4.8 MB
EMPTY = "There are no runs in this folder yet: opl reproduce demo makes some in two minutes."
BARE = "The charts need plotly, which is not installed: pip install plotly, then make this page again."
TINY = "Synthetic data: runs of the scale tiny only show that the code runs. Their numbers mean nothing."

SECTIONS: tuple[tuple[str, str, Callable[[Context], Markup | None]], ...] = (
    ("Overview", "What was run", overview.section),
    ("Tables", "Paper and ours", result_tables.section),
    ("Curves", "Learning curves", curves.section),
    ("Geometry", "Geometry of the features", feature_space.section),
    ("Pictures", "Right with OPL, wrong without", pictures.section),
    ("Settings", "Accuracy over the settings", sweeps.section),
    ("Run again", "How to run it again", rerun.section),
)
"""Navigation link, title and function of each section; a section whose function returns None is omitted."""


def write_report(
    folder: Path | str,
    items: dict[str, Item],
    target: Path | str | None = None,
    runs: Sequence[Run] | None = None,
    recipes: Recipes | None = None,
) -> Path:
    """Write the report page of a folder of runs.

    Args:
        folder: contains runs at any depth; finished, unfinished and damaged ones are marked as such.
        items: the tables and figures that the runs may belong to, by name.
        target: path of the page; `report.html` in the folder by default.
        runs: the runs of the folder, if they have been read and screened already.
        recipes: what runs must be like to be compared; without it they are only compared with each other.

    Returns:
        The path of the page.
    """
    folder = Path(folder)
    target = Path(target) if target else folder / "report.html"
    found = screen(read_runs(folder), items.values(), recipes) if runs is None else runs
    page = _encode(folder.resolve().name, found, items)
    try:
        write_whole(target, page)
    except OSError as error:
        raise FolderError(f"cannot write {target} ({error.strerror}): give a folder that can be written to.") from error
    return target


def _encode(folder: str, runs: Sequence[Run], items: dict[str, Item]) -> bytes:
    """The page with all its charts, or with fewer if it would be too large."""
    groups = group_runs(runs, items)
    page = b""
    for room in ROOMS:
        text = _fill(Context(folder, runs, groups, Charts(room)))
        page = text.encode("utf-8", "replace")  # lone surrogates become "?"
        if len(page) <= LARGEST:
            break
    return page


def _fill(context: Context) -> str:
    sections = _sections(context) if context.runs else {}
    charts = context.charts
    body = join(
        tag("a", "Skip to the content", href="#main", class_="skip"),
        _bar(sections),
        tag("main", _hero(context), *sections.values(), id="main", tabindex="-1"),
        tag("footer", tag("p", f"Made by opl {__version__}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC.")),
        tag("p", id="said", class_="hidden", role="status"),
        *charts.blocks,
    )
    scripts = {"page": _asset("page.js"), "plotly": charts.library if charts.blocks else ""}
    return _document(", ".join(f"{group.item.name} ({group.scale})" for group in context.groups), body, scripts)


def _sections(context: Context) -> dict[str, Markup]:
    """The sections that have content, by their navigation link."""
    return {
        word: tag("section", tag("h2", title), content, id=slug(word), aria_label=title)
        for word, title, make in SECTIONS
        if (content := make(context))
    }


def _bar(sections: Iterable[str]) -> Markup:
    links = [tag("li", tag("a", word, href=f"#{slug(word)}")) for word in sections]
    button = tag("button", tag("span", "Dark", id="theme-word"), type="button", id="theme", aria_label="Dark theme")
    brand = tag("a", "opl", tag("span", " report"), href="#main", class_="brand")
    nav = tag("nav", tag("ul", *links, role="list"), aria_label="Sections") if links else None
    return tag("header", brand, nav, button, class_="bar")


def _hero(context: Context) -> Markup:
    runs, groups, charts = context.runs, context.groups, context.charts
    title = groups[0].item.title if len(groups) == 1 else "Orthogonal Projection Loss, measured"
    named = dict.fromkeys(group.item.name for group in groups)
    return tag(
        "div",
        tag("p", " · ".join(named), class_="over") if named else None,
        tag("h1", no_break(title[:1].upper() + title[1:])),
        tag("p", TINY, class_="notice", role="note") if any(run.scale == "tiny" for run in runs) else None,
        tag("noscript", tag("p", "The charts need JavaScript.", class_="notice")) if charts.blocks else None,
        None if charts.library else tag("p", BARE, class_="notice", role="note"),
        None if runs else tag("p", EMPTY, class_="lead"),
        class_="hero",
    )


def _document(title: str, body: Markup, scripts: dict[str, str]) -> str:
    """The whole file; its content security policy allows only these scripts and no network requests."""
    hashes = " ".join(f"'sha256-{_sum(text)}'" for text in scripts.values() if text)
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src {hashes}"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"opl report: {title}" if title else "opl report"),
        tag("style", Markup(_asset("style.css"))),
    )
    # Plotly is stored as plain text until a chart comes into view, so the page appears before 4 MB are compiled.
    library = tag("script", Markup(scripts["plotly"]), type="text/plain", id="plotly") if scripts["plotly"] else None
    ending = join(body, tag("script", Markup(scripts["page"])), library)
    return "<!doctype html>\n" + tag("html", head, "\n", tag("body", ending), lang="en") + "\n"


def _asset(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _sum(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
