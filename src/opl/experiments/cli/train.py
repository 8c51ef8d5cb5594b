"""`opl train RECIPE`: one run; every setting of the recipe is a flag."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import OptionError
from ..paper import check_recipe_name, cost_of, recipe, seconds_of
from ..scales import FULL, SCALES
from .flags import HELP, OUT, Parser
from .waiting import waiting

if TYPE_CHECKING:
    from ..recipe import Recipe

SETTINGS = "Every setting of the recipe is a flag too: opl train RECIPE --help lists them."
SHOWN = {"top1": "accuracy {:.2f} %", "loss": "cross-entropy {:.2f}", "s": "s {:.2f}", "d": "d {:.2f}"}
"""The numbers of a result that are printed, in this order."""
LONG = 60.0
"""Seconds from which on a run is long."""


@dataclass(frozen=True)
class Train:
    """One run of a recipe."""

    recipe: "Recipe"
    out: Path
    dry_run: bool
    until: int = 0
    test: bool = True
    wait: float = 0.0
    json: bool = False

    @classmethod
    def parse(cls, words: list[str]) -> "Train":
        """RECIPE or --recipe FILE and the flags named here; every other flag is a setting of the recipe itself."""
        # argparse, since the recipe named here decides which flags tyro gets to know
        parser = Parser(prog="opl train", description=f"{cls.__doc__} {SETTINGS}", add_help=False)
        parser.add_argument(
            "--recipe", type=Path, metavar="FILE", help="winner.json of a search, or recipe.json of a run"
        )
        parser.set_defaults(name=None)
        if not any(word == "--recipe" or word.startswith("--recipe=") for word in words):
            parser.add_argument("name", nargs="?", help="for instance digits-opl; opl recipes lists them")
        parser.add_argument("--scale", default=FULL, choices=SCALES)
        parser.add_argument("--out", type=Path, default=OUT, help="the folder of the runs")
        parser.add_argument("--dry-run", action="store_true", help="print the settings and the cost, and train nothing")
        parser.add_argument("--until", type=int, default=0, metavar="EPOCH", help="stop there; 0: train to the end")
        parser.add_argument("--no-test", dest="test", action="store_false", help="leave the test set alone")
        parser.add_argument(
            "--wait", type=float, default=0.0, metavar="SECONDS", help="for another run of the same folder"
        )
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        given, rest = parser.parse_known_args(words)
        if given.name is None and given.recipe is None:
            if HELP & set(rest):
                parser.print_help()
                raise SystemExit(0)
            raise OptionError(
                "opl train needs a recipe, for instance: opl train digits-opl; opl recipes lists them, and --recipe "
                "FILE takes one from a file."
            )
        if given.name is not None:
            check_recipe_name(given.name)
        chosen = _load(given.name, given.scale, given.recipe, rest)
        return cls(chosen, given.out, given.dry_run, given.until, given.test, given.wait, given.json)

    def run(self) -> int:
        """Train, or say what would be trained."""
        if self.dry_run:
            from ..settings import to_json

            print(json.dumps(to_json(self.recipe), indent=1))
            print(f"cost: {cost_of(self.recipe.name) or 'not measured yet'}")
            return 0
        self._announce()
        with waiting(f"loading the libraries that train {self.recipe.name}"):
            from ..training.run import Part, run

        result = run(self.recipe, self.out, Part(self.until, self.test, self.wait))
        if result is not None and self.json:
            print(json.dumps(result, indent=1))
        elif result is not None:
            self._show(result)
        return 0

    def _announce(self) -> None:
        """Say on a terminal what long work costs before it starts."""
        seconds = seconds_of(self.recipe.name, self.recipe.scale)
        if seconds >= LONG and sys.stderr.isatty():
            from ..results.text import show_lines
            from ..runner.estimate import about

            show_lines([f"a run takes about {about(seconds)} ({cost_of(self.recipe.name)})"], stderr=True)

    def _show(self, result: dict[str, Any]) -> None:
        """Print the numbers in two decimals, the folder, and what to do next."""
        from ..results.text import show_lines
        from ..run_folder import RunFolder

        for part, name in (("test", "test"), ("val", "validation")):
            numbers = [SHOWN[key].format(result[f"{part}/{key}"]) for key in SHOWN if f"{part}/{key}" in result]
            if numbers:
                show_lines([f"{name}: {', '.join(numbers)}"])
        folder = RunFolder.of(self.out, self.recipe.name, self.recipe.seed).path
        show_lines([f"{result['epochs']} epochs in {result['seconds']:.2f} s, scale {self.recipe.scale}"])
        print(f"the run: {folder}\nnext:    opl report {self.out}\n         opl evaluate {folder} geometry")


def _load(name: str | None, scale: Any, file: Path | None, words: list[str]) -> "Recipe":
    """The recipe of a name or a file, with the settings that the words change."""
    with waiting(f"loading torch and the recipe {name or file}"):
        from .flags import change_settings, read_recipe

        default = read_recipe(file) if file else recipe(str(name), scale)
    return change_settings(default, words)
