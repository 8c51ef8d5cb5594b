"""One self-contained HTML page from what is on disk: no torch, no network, at most 3 MB."""

import base64
import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from ... import __version__
from ...errors import FolderError
from ..files import write_whole
from ..item import Item
from ..results.conformity import screen
from ..results.runs import Run, read_runs
from . import provenance
from .experiment import Budget, make_experiment, render_experiment
from .glossary import TERMS
from .groups import Group, group_runs, new_rows
from .templates import read_asset, render, render_page

LARGEST = 3_000_000  # maximum size of the page in bytes
BUDGETS = (2_300_000, 700_000, 0)  # bytes for charts and pictures, tried in order
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; "


def write_report(folder: Path | str, items: Mapping[str, Item], runs: Sequence[Run] | None = None) -> Path:
    """Write the report page of a folder that has runs at any depth; unfinished and damaged runs are marked.

    Args:
        folder: the folder of the runs.
        items: the tables and figures that the runs may belong to, by name.
        runs: the runs of the folder, if they have been read and screened already.
    """
    folder = Path(folder)
    target = folder / "report.html"
    screened = screen(read_runs(folder), items.values()) if runs is None else runs
    page = _encode(folder.resolve().name, screened, items)
    try:
        write_whole(target, page)
    except OSError as error:
        raise FolderError(
            f"cannot write {target} ({error.strerror}): choose a folder with write permission."
        ) from error
    return target


def _encode(folder: str, runs: Sequence[Run], items: Mapping[str, Item]) -> bytes:
    """Encode the page with all its pictures, or with fewer if it would be too large."""
    groups = group_runs(runs, items)
    page = b""
    for left in BUDGETS:
        page = _fill(folder, runs, groups, Budget(left)).encode("utf-8", "replace")  # lone surrogates become "?"
        if len(page) <= LARGEST:
            break
    return page


def _fill(folder: str, runs: Sequence[Run], groups: Sequence[Group], budget: Budget) -> str:
    links: dict[str, str] = {}
    sections: list[Markup] = []
    for group, rows in new_rows(groups):
        section, parts = render_experiment(make_experiment(group, rows, runs, budget))
        sections.append(section)
        links |= parts if len(groups) == 1 else {group.key: f"{group.item.name}, {group.scale}"}
    if runs:
        last = {
            "glossary": ("Glossary", render("glossary", meanings=TERMS)),
            "runs": ("Runs", provenance.runs_section(runs)),
            "again": ("Run it again", provenance.rerun_section(folder, runs, groups)),
        }
        for key, (title, content) in last.items():
            sections.append(render("section", key=key, title=title, content=content))
            links[key] = title
    script = Markup('(() => {\n"use strict";\n') + read_asset("page.js") + Markup("})();\n")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    title = groups[0].item.title if len(groups) == 1 else "Orthogonal Projection Loss, measured"
    return render_page(
        policy=f"{POLICY}script-src 'sha256-{digest}'",
        name=", ".join(f"{group.item.name} ({group.scale})" for group in groups),
        heading=title[:1].upper() + title[1:],
        alone=len(groups) == 1,
        tiny=any(run.scale == "tiny" for run in runs),
        links=links,
        sections=sections,
        style=read_asset("style.css"),
        script=script,
        version=__version__,
        time=time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
    )
