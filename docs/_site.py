"""What the site adds to Sphinx: MathML, pages of the repository's root, the board, and the help of every command."""

import io
import os
import re
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from latex2mathml.converter import convert
from markupsafe import Markup
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxTranslator

from opl.experiments.charts.board import NOTE, Board, board
from opl.experiments.charts.svg import element
from opl.experiments.cli import COMMANDS
from opl.experiments.cli.help import show_help
from opl.experiments.evaluation.protocols import PROTOCOLS
from opl.experiments.results.measures import ABSENT, describe_change

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGES = {name: ROOT / f"{name.upper()}.md" for name in ("results", "contributing", "changelog", "security")}
"""Pages `project/NAME` whose text is a file in the root of the repository."""
LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)\s]+)(?=\))")
SECTION = re.compile(r"<!-- The section (## .+) of \.\./README\.md -->")
MOVED = {file: DOCS / "project" / f"{name}.md" for name, file in PAGES.items()} | {
    ROOT / "README.md": DOCS / "index.md",
    ROOT / "results": DOCS / "reference" / "records.md",
}
ARGUMENTS = {
    "evaluate": [("RUN", name) for name, protocol in PROTOCOLS.items() if protocol.settings],
    "results": [("add",), ("write",), ("draw",)],
    "train": [("digits-opl",)],
}
"""What a command is given, in addition to nothing, before its help is shown."""
ACCESSIBLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper ': '<div tabindex="0" class="table-wrapper ',
}
"""HTML of the theme, and what it should be."""
SIGNATURE = re.compile(r'<dl>\n((?:<dd><em class="sig-param">.*</dd>\n)+)</dl>')
"""The parameters of a signature, one per line, which Sphinx makes a list of definitions without terms."""
RANGE = re.compile(r"Annotated\[(\w+), Range\([^()]*\)\]")
BETTER, WORSE, NEUTRAL = "128 80 200", "200 110 20", "128 128 128"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything."""
    app.add_html_math_renderer("mathml", (_math, None), (_math_block, None))
    app.config.html_math_renderer = "mathml"  # type: ignore[attr-defined]
    app.connect("source-read", _read_source)
    app.connect("autodoc-process-docstring", _escape_bars)
    app.connect("autodoc-process-signature", _shorten_types)
    app.connect("build-finished", _make_accessible)
    app.add_directive("opl-board", BoardDirective)
    app.add_directive("opl-commands", CommandsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "version": "1"}


def _math(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def _math_block(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def _read_source(app: Sphinx, docname: str, content: list[str]) -> None:
    """Insert the texts of the repository's root, and point links between files to pages."""
    name = docname.removeprefix("project/")
    file = PAGES[name] if docname.startswith("project/") and name in PAGES else DOCS / f"{docname}.md"
    if not file.exists():  # a notebook
        return
    text = file.read_text(encoding="utf-8") if file in PAGES.values() else content[0]
    text = _relink_text(text, file.parent, (DOCS / docname).parent)
    content[0] = SECTION.sub(lambda section: _relink_text(_readme_section(section[1]), ROOT, DOCS), text)


def _relink_text(text: str, origin: Path, page: Path) -> str:
    return LINK.sub(lambda link: link[1] + relink(link[2], origin, page), text)


def _readme_section(heading: str) -> str:
    """A section of README.md, with its heading."""
    _, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"\n{heading}\n")
    text, _, _ = rest.partition("\n## ")
    return f"{heading}\n{text}"


def relink(target: str, origin: Path, page: Path) -> str:
    """A link in a file of `origin`, as seen from a page in the folder `page`.

    Example:
        >>> relink("docs/try.md#input", ROOT, DOCS / "project")
        '../try.md#input'
        >>> relink("../RESULTS.md", DOCS, DOCS)
        'project/results.md'
    """
    path, hash_sign, anchor = target.partition("#")
    file = Path(os.path.normpath(origin / path))
    return f"{Path(os.path.relpath(MOVED.get(file, file), page)).as_posix()}{hash_sign}{anchor}"


def _escape_bars(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Docstrings are Markdown, in which |cos| is text and not a substitution."""
    for index, line in enumerate(lines):
        if "|" in line and ">>>" not in line and not line.lstrip().startswith("..."):
            parts = re.split(r"(`[^`]*`)", line)
            lines[index] = "".join(part if part.startswith("`") else part.replace("|", r"\|") for part in parts)


def _shorten_types(
    app: Sphinx, what: str, name: str, value: object, options: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Show the type of a setting without its range."""
    return RANGE.sub(r"\1", signature) if signature else signature, returns


def _make_accessible(app: Sphinx, error: Exception | None) -> None:
    """Complete what the theme leaves out for screen readers and the keyboard."""
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for before, after in ACCESSIBLE.items():
            text = text.replace(before, after)
        text = SIGNATURE.sub(lambda found: f'<span class="sig-lines">{found[1].replace("dd>", "span>")}</span>', text)
        page.write_text(text, encoding="utf-8")


class BoardDirective(Directive):
    """The board of the records in `results/`, as a table that scripts sort."""

    def run(self) -> list[nodes.Node]:
        """Return the table and a sentence per loss; without records, a sentence that says so."""
        from opl.experiments.paper import ITEMS
        from opl.experiments.results.document import read_comparable
        from opl.experiments.results.runs import select_runs

        runs = read_comparable(ROOT / "results", ITEMS)
        rows = [(row, select_runs(runs, row.recipe, "small")) for row in ITEMS["board"].at("small")]
        rows = [(row, chosen) for row, chosen in rows if chosen]
        values = board(rows)
        if not values.labels or not values.infos:
            return [nodes.paragraph(text="There are no records of the board in results/ yet.")]
        lines = [Markup("<li>{}</li>").format(sentence) for sentence in values.sentences()]
        seeds = sorted({run.seed for _, chosen in rows for run in chosen})
        note = Markup("<p>{} Seeds: {}.</p>").format(f"{NOTE[0].upper()}{NOTE[1:]}.", ", ".join(map(str, seeds)))
        return [
            nodes.raw("", heat_map(values) + note + Markup("<ul>{}</ul>").format(Markup("").join(lines)), format="html")
        ]


def heat_map(values: Board) -> Markup:
    """Differences from the baseline as an HTML table: one row per loss, one sortable column per measure."""
    titles = ("loss", *(f"{info.title} {info.arrow}".strip() for info in values.infos))
    heads = [element("th", element("button", title, type="button"), scope="col") for title in titles]
    rows = []
    for label, cells, shades in zip(values.labels, values.cells, values.shades(), strict=True):
        row = [element("th", label, scope="row")]
        for info, cell, shade in zip(values.infos, cells, shades, strict=True):
            if cell is None:
                row.append(element("td", ABSENT))
                continue
            color = NEUTRAL if not info.better else BETTER if shade > 0 else WORSE
            row.append(
                element(
                    "td",
                    f"{cell.difference.mean:+.{info.digits}f}",
                    data_value=f"{cell.difference.mean:.6g}",
                    title=describe_change(info, cell.difference, cell.decision),
                    class_="significant" if cell.significant else None,
                    style=f"background: rgb({color} / {0.5 * abs(shade):.2f})",
                )
            )
        rows.append(element("tr", *row))
    caption = element("caption", f"Difference from {values.baseline}; a heading sorts its column.")
    head, body = element("thead", element("tr", *heads)), element("tbody", *rows)
    table = element("table", caption, head, body, class_="board")
    return element("div", table, class_="board-frame", tabindex="0", role="region", aria_label="The board")


class CommandsDirective(Directive):
    """The help of every command, as the commands print it."""

    def run(self) -> list[nodes.Node]:
        """Return one section per command."""
        sections = []
        for name, command in COMMANDS.items():
            section = nodes.section(ids=[f"opl-{name}"], names=[f"opl {name}"])
            section += nodes.title(text=f"opl {name}")
            section += nodes.paragraph(text=f"{command.does[0].upper()}{command.does[1:]}.")
            for argv in ((), *ARGUMENTS.get(name, ())):
                section += nodes.literal_block(text=help_of(name, *argv), language="text")
            sections.append(section)
        return sections


def help_of(name: str, *argv: str) -> str:
    """What `opl NAME ... --help` prints, 88 columns wide."""
    command, printed = COMMANDS[name], io.StringIO()
    before = {key: os.environ.get(key) for key in ("COLUMNS", "NO_COLOR")}
    os.environ |= {"COLUMNS": "88", "NO_COLOR": "1"}
    try:
        with redirect_stdout(printed), suppress(SystemExit):
            kind = getattr(import_module(f"opl.experiments.cli.{command.module}"), command.name)
            show_help(name, kind, list(argv))
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})
    text = printed.getvalue().strip()
    if not text:
        raise ExtensionError(f"opl {name} {' '.join(argv)} --help printed nothing.")
    return text
