"""The commands: a dataclass each, whose fields are the flags and whose `run()` does the job, with an exit code."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ...errors import FolderError, OptionError

Scale = Literal["paper", "small", "tiny"]


@dataclass(frozen=True)
class Train:
    """One run of a recipe."""

    recipe: Any
    out: Path
    dry_run: bool

    @classmethod
    def parse(cls, words: list[str]) -> "Train":
        """RECIPE, --scale, --out and --dry-run; every other flag is a setting of the recipe itself."""
        from ..recipe import Recipe
        from ..recipes import recipe

        parser = argparse.ArgumentParser(prog="opl train", add_help=False)
        parser.add_argument("recipe", nargs="?")
        parser.add_argument("--scale", default="paper", choices=["paper", "small", "tiny"])
        parser.add_argument("--out", type=Path, default=Path("runs"))
        parser.add_argument("--dry-run", action="store_true")
        given, rest = parser.parse_known_args(words)
        if given.recipe is None:
            raise OptionError("opl train needs a recipe, for instance: opl train digits-opl; opl recipes lists them.")
        default = recipe(given.recipe, given.scale)
        hidden = tyro.conf.configure(tyro.conf.AvoidSubcommands, tyro.conf.SuppressFixed)
        chosen = tyro.cli(
            hidden(Recipe),
            default=default,
            args=rest,
            prog=f"opl train {given.recipe}",
            description="Also: --scale {paper,small,tiny}, --out DIR, --dry-run. The settings of the recipe:",
        )
        return cls(chosen, given.out, given.dry_run)

    def run(self) -> int:
        """Train, or say what would be trained."""
        from ..recipe import to_json
        from ..tables import cost_of

        if self.dry_run:
            print(json.dumps(to_json(self.recipe), indent=1))
            print(f"cost: {cost_of(self.recipe.name) or 'not measured yet'}")
            return 0
        from ..training.run import run

        result = run(self.recipe, self.out)
        if result is not None:
            print(json.dumps(result, indent=1))
        return 0


@dataclass(frozen=True)
class Reproduce:
    """All runs of a table or figure, then the paper's numbers and ours side by side."""

    item: tyro.conf.Positional[str]
    """For instance table-s1; `opl recipes` lists them."""
    scale: Scale = "small"
    seeds: int = 0
    """Runs of each row; 0 takes the table's own number."""
    out: Path = Path("runs")
    jobs: int = 1
    """Runs at a time; cores and accelerators are shared out among them."""
    json: bool = False
    """Print the table as JSON."""
    order: Literal["class", "cluster", "superclass"] = "class"
    """Of the classes in a similarity matrix (figures 4 and s3); the other items have none."""

    def run(self) -> int:
        """Run what is not finished, then print the table, or draw the figure."""
        from ..cluster.local import jobs_of, measure_all, run_all
        from ..recipes import recipe
        from ..report.page import write_report
        from ..results.comparisons import compare, describe_comparison, runs_below
        from ..results.shares import shares
        from ..results.tables import as_json, lines, markdown, show
        from ..tables import ITEMS, item

        chosen = item(self.item)
        if self.jobs < 1 or self.seeds < 0:
            raise OptionError("--jobs takes a whole number from 1 up, and --seeds one from 0 up (0: the table's own).")
        seeds = self.seeds or chosen.seeds
        if not chosen.at(self.scale):
            raise OptionError(f"{chosen.name} has no runs at scale {self.scale}: give another --scale.")
        out = self.out / self.scale / (chosen.home or chosen.name)
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FolderError(f"cannot write to {out} ({error.strerror}): give another folder with --out.") from error
        jobs = jobs_of(chosen, self.scale, seeds, out, lambda name: recipe(name, self.scale))
        failed = run_all(jobs, self.scale, out, self.jobs)
        if not failed:
            failed = measure_all(chosen, jobs, self.jobs, self.scale)
        rows, runs = lines(chosen, out, self.scale), runs_below(out, self.scale)
        below = [*shares(chosen, self.scale, runs), *map(describe_comparison, compare(chosen, self.scale, runs))]
        stem = chosen.name if chosen.home else "table"  # the runs of another item keep their own table
        text = "\n".join([markdown(chosen, rows), *(f"\n{line}" for line in below)])
        (out / f"{stem}.md").write_text(text + "\n")
        (out / f"{stem}.json").write_text(json.dumps(as_json(chosen, rows, self.scale), indent=1) + "\n")
        page = write_report(out, ITEMS)
        if self.json:
            print(json.dumps(as_json(chosen, rows, self.scale), indent=1))
        else:
            show(chosen, rows, self.scale)
            for line in below:
                print(line)
            print(f"{stem}.md, {stem}.json and report.html are in {page.parent}")
        if chosen.figure and not failed:
            from ..figures.paper import draw

            files, words = draw(chosen, out, self.scale, self.order)
            if not self.json:
                print("\n".join(words))
                print(f"{', '.join(file.name for file in files)} are there too")
        return 1 if failed else 0


@dataclass(frozen=True)
class Demo:
    """CE against CE+OPL on scikit-learn's digits, three seeds: a table with intervals and a page."""

    seeds: int = 3
    out: Path = Path("runs")
    jobs: int = 2

    def run(self) -> int:
        """Reproduce the demo's table."""
        return Reproduce("demo", "small", self.seeds, self.out, self.jobs).run()


@dataclass(frozen=True)
class Recipes:
    """Every recipe: its table or figure, data set, cost and the paper's number."""

    def run(self) -> int:
        """Print the list."""
        from ..recipes import RECIPES
        from ..tables import ITEMS

        listed = {row.recipe for item in ITEMS.values() for row in item.rows}
        for item in ITEMS.values():
            print(f"{item.name}: {item.title}\n  data: {item.dataset}; a run: {item.cost or 'not measured'}")
            if item.home:
                print(f"  takes runs of {item.home} where it has them")
            for row in item.rows:
                paper = ", ".join(f"{value:.2f}" for value in row.paper.values())
                print(f"  {row.recipe:<46}{f'paper: {paper}' if paper else ''}".rstrip())
        print("in no table")
        for name in RECIPES:
            if name not in listed:
                print(f"  {name}")
        return 0


@dataclass(frozen=True)
class Data:
    """Which data sets are here, from where, and how to get the rest."""

    def run(self) -> int:
        """Print the list."""
        from rich.console import Console
        from rich.table import Table

        from ..data import describe

        rows = describe()
        table = Table(title="data sets")
        for name in rows[0]:
            table.add_column(name)
        for row in rows:
            table.add_row(*(str(value) for value in row.values()))
        Console().print(table)
        return 0


@dataclass(frozen=True)
class Report:
    """One self-contained HTML page from what is on disk."""

    folder: Annotated[Path, tyro.conf.Positional]

    def run(self) -> int:
        """Write it."""
        from ..report.page import write_report
        from ..tables import ITEMS

        if not self.folder.is_dir():
            raise OptionError(
                f"there is no folder {self.folder}: give one that `opl train` or `opl reproduce` wrote to."
            )
        print(write_report(self.folder, ITEMS))
        return 0
