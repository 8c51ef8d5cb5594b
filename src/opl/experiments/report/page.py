"""One self-contained HTML page from what is on disk: no torch, no network, at most 6 MB."""

import base64
import hashlib
import os
import time
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from ... import __version__
from ...errors import FolderError
from ..results.runs import Run, read_runs
from ..tables import Item
from . import curves, overview, pictures
from . import feature_space as geometry
from . import rerun as again
from . import result_tables as numbers
from . import sweeps as search
from .charts import Charts
from .groups import Group, group_runs, slug
from .markup import Markup, join, no_break, tag

LARGEST = 6_000_000  # bytes of the page
ROOMS = (800_000, 250_000, 0)  # for the values of its charts; plotly itself takes 4.8 MB
EMPTY = "There are no runs in this folder yet: opl reproduce demo makes some in two minutes."
BARE = "The charts need plotly, which is not installed: pip install plotly, then make this page again."
TINY = "Synthetic data: runs of the scale tiny only show that the code runs. Their numbers mean nothing."


def write_report(folder: Path | str, items: dict[str, Item], target: Path | str | None = None) -> Path:
    """Make the page of a folder of runs.

    Args:
        folder: runs anywhere below it; finished, unfinished and damaged ones are shown as such.
        items: the tables and figures that the runs may belong to, by name.
        target: where the page goes; `report.html` in the folder, where nothing is given.

    Returns:
        Where the page is.
    """
    folder = Path(folder)
    target = Path(target) if target else folder / "report.html"
    page = _page(folder, items)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(page)
        temporary.replace(target)
    except OSError as error:
        raise FolderError(f"cannot write {target} ({error.strerror}): give a folder that can be written to.") from error
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _page(folder: Path, items: dict[str, Item]) -> bytes:
    """With all its charts, or with fewer where it would grow too large."""
    runs = read_runs(folder)
    shown = group_runs(runs, items)
    page = b""
    for room in ROOMS:
        page = _filled(folder, runs, shown, Charts(room)).encode("utf-8", "replace")  # half a letter becomes a "?"
        if len(page) <= LARGEST:
            break
    return page


def _filled(folder: Path, runs: list[Run], shown: list[Group], charts: Charts) -> str:
    sections = _sections(runs, shown, folder, charts) if runs else {}
    body = join(
        tag("a", "Skip to the content", href="#main", class_="skip"),
        _bar(sections),
        tag("main", _hero(runs, shown, charts), *sections.values(), id="main", tabindex="-1"),
        tag("footer", tag("p", f"Made by opl {__version__}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC.")),
        tag("p", id="said", class_="hidden", role="status"),
        *charts.blocks,
    )
    scripts = {"page": _asset("page.js"), "plotly": charts.library if charts.blocks else ""}
    return _document(", ".join(f"{group.item.name} ({group.scale})" for group in shown), body, scripts)


def _sections(runs: list[Run], shown: list[Group], folder: Path, charts: Charts) -> dict[str, Markup]:
    """The sections that have something to show, by the word that leads to them."""
    contents = {
        "Overview": ("What was run", overview.section(runs, shown)),
        "Tables": ("Paper and ours", numbers.section(shown, folder) if shown else None),
        "Curves": ("Learning curves", curves.section(shown, charts)),
        "Geometry": ("Geometry of the features", geometry.section(shown, charts)),
        "Pictures": ("Right with OPL, wrong without", pictures.section(shown)),
        "Settings": ("Accuracy over the settings", search.section(shown, charts)),
        "Run again": ("How to run it again", again.section(runs, shown, folder.resolve().name)),
    }
    return {
        word: tag("section", tag("h2", title), content, id=slug(word), aria_label=title)
        for word, (title, content) in contents.items()
        if content
    }


def _bar(sections: Iterable[str]) -> Markup:
    links = [tag("li", tag("a", word, href=f"#{slug(word)}")) for word in sections]
    button = tag("button", tag("span", "Dark", id="theme-word"), type="button", id="theme", aria_label="Dark theme")
    brand = tag("a", "opl", tag("span", " report"), href="#main", class_="brand")
    nav = tag("nav", tag("ul", *links, role="list"), aria_label="Sections") if links else None
    return tag("header", brand, nav, button, class_="bar")


def _hero(runs: list[Run], shown: list[Group], charts: Charts) -> Markup:
    title = shown[0].item.title if len(shown) == 1 else "Orthogonal Projection Loss, measured"
    named = dict.fromkeys(group.item.name for group in shown)
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
    """The whole file. Its policy lets these scripts run and no other, and nothing be fetched."""
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
    # Plotly waits as plain text until a chart comes into view: the page is there before four megabytes are compiled.
    library = tag("script", Markup(scripts["plotly"]), type="text/plain", id="plotly") if scripts["plotly"] else None
    ending = join(body, tag("script", Markup(scripts["page"])), library)
    return "<!doctype html>\n" + tag("html", head, "\n", tag("body", ending), lang="en") + "\n"


def _asset(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _sum(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
