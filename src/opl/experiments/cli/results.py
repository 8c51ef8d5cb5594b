"""`opl results add DIR`, `write` and `draw ITEM`: records of finished runs, and the text and figures made from them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from ...errors import FolderError, OptionError, did_you_mean
from ..files import read_limited
from .flags import Parser, existing_runs, read_flags

RECORDS, DOCUMENT, PAGES, PLOT = Path("results"), Path("RESULTS.md"), Path("docs/results"), "forest.svg"


@dataclass(frozen=True)
class Add:
    """Add a record of every finished run below a folder; adding a run twice changes nothing."""

    folder: Positional[Path]
    """A folder of runs, such as runs/small/table-1."""
    to: Path = RECORDS
    """The folder of records."""
    replace: bool = False
    """Replace existing records of the same recipe, scale and seed that have other results."""

    def run(self) -> int:
        """Add the records, and print the outcome for each run."""
        from ..paper import ITEMS
        from ..results.records import KEPT, add_runs, mark_uncommitted
        from ..results.runs import read_runs

        existing_runs(self.folder)
        runs = mark_uncommitted(read_runs(self.folder), Path())
        outcomes = add_runs(runs, self.to, ITEMS.values(), substitute=self.replace)
        for outcome in outcomes:
            print(f"{outcome.where}: {outcome.status}" + (f", {outcome.sentence}" if outcome.sentence else ""))
        return 0 if any(outcome.status in KEPT for outcome in outcomes) else 2


@dataclass(frozen=True)
class Write:
    """Render the tables of RESULTS.md and its pages from the records; text outside the markers is unchanged."""

    records: Path = RECORDS
    """The folder of records."""
    file: Path = DOCUMENT
    """The file to update: `<!-- opl results: ITEM SCALE -->` marks the start of a table, `<!-- end -->` its end."""
    readme: Path = Path("README.md")
    """Another file with such markers; skipped if it does not exist."""
    pages: Path = PAGES
    """A folder of further files (*.md) with such markers, and of the forest plot; skipped if it does not exist."""
    check: bool = False
    """Write nothing; exit with 1 if a file would change."""

    def run(self) -> int:
        """Render all files, then write the files that change."""
        from ..files import write_whole

        introduction = [self.readme] if self.readme.exists() else []
        texts = {file: _read_text(file) for file in (self.file, *introduction, *sorted(self.pages.glob("*.md")))}
        rendered = self._render(texts)
        stale = [file for file, text in rendered.items() if text != texts.get(file, "")]
        if not stale:
            print(f"up to date with the records in {self.records}: {_describe_files(list(rendered))}")
            return 0
        if self.check:
            print(f"out of date: {_describe_files(stale)}; run `opl results write`.")
            return 1
        for file in stale:
            try:
                write_whole(file, rendered[file])
            except OSError as error:
                raise FolderError(f"cannot write {file} ({error.strerror}): check the disk and permissions.") from error
        print(f"written from the records in {self.records}: {_describe_files(stale)}")
        return 0

    def _render(self, texts: dict[Path, str]) -> dict[Path, str]:
        """Return the new content of every file, with the forest plot if there is a folder for it."""
        from ..charts.board import render_differences, render_expectations, render_headline
        from ..charts.effects import draw_effects
        from ..paper import ITEMS
        from ..results.document import read_comparable, render_document
        from ..results.summary import collect_settings

        runs = read_comparable(self.records, ITEMS)
        blocks = {
            "differences": render_differences,
            "expectations": render_expectations,
            "headline": render_headline,
        }
        rendered = {}
        for file, text in texts.items():
            try:
                rendered[file] = render_document(text, runs, ITEMS, blocks)
            except OptionError as error:
                raise OptionError(f"{file}: {error}") from error
        plot = self.pages / PLOT
        settings = collect_settings(ITEMS.values(), runs, "small") if self.pages.is_dir() else []
        if settings:
            texts[plot] = _read_text(plot) if plot.exists() else ""
            rendered[plot] = draw_effects(settings, ITEMS)
        return rendered


def _describe_files(files: list[Path]) -> str:
    """Return the name of the first file, and the number of further files.

    Example:
        >>> _describe_files([Path("a"), Path("b"), Path("c")])
        'a and 2 more'
    """
    return f"{files[0]} and {len(files) - 1} more" if len(files) > 1 else str(files[0])


def _read_text(file: Path) -> str:
    try:
        return read_limited(file).decode()
    except (OSError, ValueError) as error:
        if not file.exists():
            raise OptionError(f"there is no file {file}: run this in a clone of opl, or pass --file.") from error
        raise OptionError(f"{file} cannot be read as text: choose another file with --file.") from error


@dataclass(frozen=True)
class Draw:
    """Draw a figure of final numbers from the records, with all recorded seeds."""

    item: Positional[str]
    """A table or figure, such as figure-6."""
    scale: Literal["paper", "small"] = "small"
    records: Path = RECORDS
    """The folder of records."""
    to: Path = Path()
    """The folder of the PDF, the PNG and the text."""

    def run(self) -> int:
        """Draw the figure, and print its description."""
        from ..charts.figure import FROM_RECORDS, draw_item
        from ..paper import ITEMS
        from ..paper import item as find_item
        from ..results.document import read_comparable

        chosen = find_item(self.item)
        if chosen.figure not in FROM_RECORDS:
            others = ", ".join(name for name, item in ITEMS.items() if item.figure in FROM_RECORDS)
            raise OptionError(
                f"{chosen.name} cannot be drawn from records (only {others} can): draw it from its runs with "
                f"opl reproduce {chosen.name}."
            )
        try:
            self.to.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"cannot create the folder {self.to} ({error.strerror}): choose another --to.") from error
        files, sentences = draw_item(chosen, read_comparable(self.records, ITEMS), self.to, self.scale)
        print("\n".join([*sentences, f"drawn: {', '.join(map(str, files))}"]))
        return 0


JOBS: dict[str, type[Add] | type[Write] | type[Draw]] = {"add": Add, "write": Write, "draw": Draw}


@dataclass(frozen=True)
class Results:
    """Keep records of finished runs, and render text and figures from them."""

    job: Add | Write | Draw

    @classmethod
    def parse(cls, argv: list[str]) -> "Results":
        """Read the job and its flags."""
        name = argv[0] if argv else "-"
        if name.startswith("-"):
            raise OptionError(f"opl results needs one of {', '.join(JOBS)}; run opl results --help.")
        if name not in JOBS:
            raise OptionError(did_you_mean("job", name, JOBS))
        return cls(read_flags(JOBS[name], argv[1:], prog=f"opl results {name}"))

    @classmethod
    def show_help(cls, argv: list[str]) -> None:
        """Print the jobs or, if one is named, its flags."""
        from .help import parser_of, print_help

        job = next((name for name in argv if name in JOBS), "")
        if job:
            print_help(f"results {job}", str(JOBS[job].__doc__), parser_of(JOBS[job]))
        else:
            listed = [f"opl results {name}: {kind.__doc__}" for name, kind in JOBS.items()]
            print_help("results", str(cls.__doc__), Parser(add_help=False), listed)

    def run(self) -> int:
        """Run the job."""
        return self.job.run()
