"""One self-contained HTML page from what is on disk; it needs no torch. A plain one for now: tables and run states."""

import html
from pathlib import Path
from typing import Any

from .item import Item
from .results import RunFolder, find_runs
from .tables import cells, lines

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --rule: #ddd; --accent: #2563a8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #16181c; --rule: #383c44; --accent: #7db3e8; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 3rem auto; padding: 0 1.25rem; }
h1, h2 { line-height: 1.2; } h2 { color: var(--accent); margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .45rem .7rem; border-bottom: 1px solid var(--rule); }
.scroll { overflow-x: auto; } .quiet { opacity: .75; } code { font-size: .92em; }
"""


def write_report(folder: Path | str, items: dict[str, Item], target: Path | str | None = None) -> Path:
    """Make the page of a folder of runs; returns where it is."""
    folder = Path(folder)
    target = Path(target) if target else folder / "report.html"
    runs = find_runs(folder)
    parts = [_table(item, folder, scale) for item, scale in _shown(runs, items)]
    parts.append(_section("Runs", ["run", "scale", "state", "seconds", "commit"], [_run(run, folder) for run in runs]))
    body = f"<h1>opl report</h1><p class=quiet>{html.escape(_machine(runs))}</p>{''.join(parts)}"
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>opl report</title><style>{STYLE}</style><body>{body}</body></html>\n"
    )
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.write_text(page)
    temporary.replace(target)
    return target


def _shown(runs: list[RunFolder], items: dict[str, Item]) -> list[tuple[Item, str]]:
    seen = {(run.recipe()["name"], run.recipe()["scale"]) for run in runs}
    scales = ("paper", "small", "tiny")
    return [
        (item, scale)
        for item in items.values()
        for scale in scales
        if any((row.recipe, scale) in seen for row in item.rows)
    ]


def _table(item: Item, folder: Path, scale: str) -> str:
    heading, body = cells(item, lines(item, folder, scale))
    marked = ", made-up data: the numbers mean nothing" if scale == "tiny" else ""
    note = f"<p class=quiet>{html.escape(item.note)}</p>" if item.note else ""
    again = f"opl reproduce {item.name} --scale {scale}"
    title = f"{item.name}: {item.title} (scale {scale}{marked})"
    return _section(title, heading, body) + note + f"<p>Again: <code>{html.escape(again)}</code></p>"


def _run(run: RunFolder, folder: Path) -> list[str]:
    about: dict[str, Any] = run.about()
    error = run.error()
    state = "done" if run.done else f"failed: {error}" if error else "unfinished"
    seconds = f"{run.result()['seconds']:.0f}" if run.done else "-"
    return [run.path.relative_to(folder).as_posix(), about["recipe"]["scale"], state, seconds, about.get("commit", "")]


def _machine(runs: list[RunFolder]) -> str:
    if not runs:
        return "No runs here yet."
    about = runs[0].about()
    machine = about.get("machine", {})
    return (
        f"{len(runs)} runs; first on {machine.get('system', '?')}, {machine.get('cores', '?')} cores, accelerator "
        f"{machine.get('accelerator', '?')}, torch {about.get('versions', {}).get('torch', '?')}."
    )


def _section(title: str, heading: list[str], body: list[list[str]]) -> str:
    head = "".join(f"<th scope=col>{html.escape(cell)}</th>" for cell in heading)
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    return f"<h2>{html.escape(title)}</h2><div class=scroll><table><thead><tr>{head}</tr></thead>{rows}</table></div>"
