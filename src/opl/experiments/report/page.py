"""One self-contained HTML page from what is on disk: no torch, no network, at most 3 MB."""

import base64
import hashlib
import time
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from ... import __version__
from ...errors import FolderError
from ..files import write_whole
from ..item import Item
from ..results.conformity import Recipes, screen
from ..results.runs import Run, read_runs
from . import glossary, provenance, rerun
from .context import Context, Room
from .experiment import make_experiment, section
from .groups import group_runs, new_rows
from .markup import Markup, join, no_break, tag

LARGEST = 3_000_000  # maximum size of the page in bytes
ROOMS = (2_300_000, 700_000, 0)  # bytes for charts and pictures, tried in order
SCRIPTS = ("page.js", "tables.js", "charts.js", "matrices.js")
STYLES = ("style.css", "parts.css", "narrow.css")
EMPTY = "There are no runs in this folder yet: opl reproduce demo makes some in two minutes."
TINY = "Synthetic data: runs of the scale tiny only show that the code runs. Their numbers mean nothing."


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
    """The page with all its pictures, or with fewer if it would be too large."""
    groups = group_runs(runs, items)
    page = b""
    for room in ROOMS:
        text = _fill(Context(folder, runs, groups, Room(room)))
        page = text.encode("utf-8", "replace")  # lone surrogates become "?"
        if len(page) <= LARGEST:
            break
    return page


def _fill(context: Context) -> str:
    shown = {id(group): rows for group, rows in new_rows(context.groups)}
    links: dict[str, str] = {}
    sections = []
    for group in context.groups:
        made, parts = section(
            make_experiment(group, shown.get(id(group), []), context.runs, context.room), context.runs
        )
        sections.append(made)
        links |= parts if len(context.groups) == 1 else {group.key: f"{group.item.name}, {group.scale}"}
    last = {
        "glossary": ("Glossary", glossary.section()),
        "runs": ("Runs", provenance.section(context)),
        "again": ("Run it again", rerun.section(context)),
    }
    for key, (title, content) in last.items() if context.runs else ():
        sections.append(tag("section", tag("h2", title), content, id=key))
        links[key] = title
    body = join(
        tag("a", "Skip to the content", href="#main", class_="skip"),
        _bar(links),
        tag("main", _hero(context), *sections, id="main", tabindex="-1"),
        tag("footer", tag("p", f"Made by opl {__version__}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC.")),
        tag("div", id="tip", class_="tip", hidden=True),
        tag("p", id="said", class_="hidden", role="status"),
    )
    return _document(", ".join(f"{group.item.name} ({group.scale})" for group in context.groups), body)


def _bar(links: Mapping[str, str]) -> Markup:
    items = [tag("li", tag("a", words, href=f"#{key}")) for key, words in links.items()]
    button = tag("button", tag("span", "Dark", id="theme-word"), type="button", id="theme", aria_label="Dark theme")
    brand = tag("a", "opl", tag("span", " report"), href="#main", class_="brand")
    nav = tag("nav", tag("ul", *items, role="list"), aria_label="Sections") if items else None
    return tag("header", brand, nav, button, class_="bar")


def _hero(context: Context) -> Markup:
    runs, groups = context.runs, context.groups
    title = groups[0].item.title if len(groups) == 1 else "Orthogonal Projection Loss, measured"
    return tag(
        "div",
        tag("h1", no_break(title[:1].upper() + title[1:]), class_="hidden" if len(groups) == 1 else None),
        tag("p", TINY, class_="notice", role="note") if any(run.scale == "tiny" for run in runs) else None,
        None if runs else tag("p", EMPTY, class_="lead"),
        class_="hero",
    )


def _document(title: str, body: Markup) -> str:
    """The whole file; its content security policy allows only its own script and no network requests."""
    script = '(() => {\n"use strict";\n' + "".join(map(_asset, SCRIPTS)) + "})();\n"
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{_sum(script)}'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"opl report: {title}" if title else "opl report"),
        tag("style", Markup("".join(map(_asset, STYLES)))),
    )
    ending = join(body, tag("script", Markup(script)))
    return "<!doctype html>\n" + tag("html", head, "\n", tag("body", ending), lang="en") + "\n"


def _asset(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _sum(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
