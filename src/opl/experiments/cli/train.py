"""`opl train RECIPE`: one run; every setting of the recipe is a flag."""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import OptionError
from ..paper import check_recipe_name, cost_of, recipe, seconds_of
from ..scales import SCALES
from .flags import OUT, Parser, show_status

if TYPE_CHECKING:
    from ..recipe import Recipe

SETTINGS = "Every setting of a recipe is a flag too: opl train RECIPE --help-all lists them."
PRINTED = {"top1": "accuracy {:.2f} %", "loss": "cross-entropy {:.2f}", "s": "s {:.2f}", "d": "d {:.2f}"}
"""The numbers of a result that are printed, in this order."""
LONG = 60.0
"""The cost of a run is announced if it is at least this many seconds."""


@dataclass(frozen=True)
class Train:
    """Train one run of a recipe; a run that was stopped resumes."""

    recipe: "Recipe"
    out: Path
    dry_run: bool
    until: int = 0
    test: bool = True
    wait: float = 0.0
    json: bool = False

    @classmethod
    def parse(cls, argv: list[str]) -> "Train":
        """Read RECIPE or --recipe FILE and the flags named here; all other flags are settings of the recipe."""
        flags, rest = _parser(argv).parse_known_args(argv)
        if flags.name is None and flags.recipe is None:
            raise OptionError(
                "opl train needs a recipe, for example: opl train digits-opl; opl recipes lists them, and --recipe "
                "FILE reads one from a file."
            )
        for flag, value in {"--until": flags.until, "--wait": flags.wait}.items():
            if not 0 <= value < math.inf:
                raise OptionError(f"{flag} is {value} but must be a number of at least 0.")
        chosen = _load(flags.name, flags.scale, flags.recipe, rest)
        return cls(chosen, flags.out, flags.dry_run, flags.until, flags.test, flags.wait, flags.json)

    @classmethod
    def show_help(cls, argv: list[str]) -> None:
        """Print the flags of all recipes or, if one is named, its settings."""
        from .help import ALL, parser_of, print_help, print_settings

        parser = _parser(argv)
        flags, rest = parser.parse_known_args(argv)
        if flags.name is None and flags.recipe is None:
            print_help("train", str(cls.__doc__), parser, [SETTINGS])
            return
        from .flags import as_flags

        chosen = _load(flags.name, flags.scale, flags.recipe, [])
        print_settings(chosen.name, str(cls.__doc__), parser_of(**as_flags(chosen)), everything=ALL in rest)

    def run(self) -> int:
        """Train, or print what would be trained."""
        if self.dry_run:
            from ..settings import to_json

            print(json.dumps(to_json(self.recipe), indent=1))
            if not self.json:
                cost = "" if self.recipe.scale == "custom" else cost_of(self.recipe.name)
                print(f"cost: {cost or 'not measured'}")
            return 0
        seconds = seconds_of(self.recipe.name, self.recipe.scale)
        if seconds >= LONG and sys.stderr.isatty():
            from ..results.text import show_lines
            from ..runner.display import format_seconds

            show_lines([f"one run takes about {format_seconds(seconds)} ({cost_of(self.recipe.name)})"], stderr=True)
        with show_status(f"loading the libraries to train {self.recipe.name}"):
            from ..training.engine import is_first
            from ..training.run import Part, run

        result = run(self.recipe, self.out, Part(self.until, self.test, self.wait))
        if result is None and self.until and is_first():
            print(f"paused: epoch {self.until} is done; the same command without --until finishes the run")
        if result is not None and self.json:
            print(json.dumps(result, indent=1))
        elif result is not None:
            self._show(result)
        return 0

    def _show(self, result: dict[str, Any]) -> None:
        """Print the numbers with two decimals, the folder, and what to do next."""
        from ..results.text import show_lines
        from ..run_folder import RunFolder

        for part, name in (("test", "test"), ("val", "validation")):
            numbers = [PRINTED[key].format(result[f"{part}/{key}"]) for key in PRINTED if f"{part}/{key}" in result]
            if numbers:
                show_lines([f"{name}: {', '.join(numbers)}"])
            elif part == "test" and self.test:
                show_lines(["test: none; the run was finished with --no-test, or the data has no test images"])
        folder = RunFolder.of(self.out, self.recipe.name, self.recipe.seed).path
        epochs, seconds = (result.get(name) or 0 for name in ("epochs", "seconds"))
        show_lines([f"{epochs} epoch{'' if epochs == 1 else 's'} in {seconds:.2f} s, scale {self.recipe.scale}"])
        print(f"run:     {folder}\nnext:    opl report {self.out}\n         opl evaluate {folder} geometry")


def _parser(argv: list[str]) -> Parser:
    """Return the parser of the flags that all recipes have; not tyro's, since the recipe determines what tyro gets."""
    parser = Parser(prog="opl train", add_help=False)
    parser.set_defaults(name=None)
    if not any(argument.partition("=")[0] == "--recipe" for argument in argv):
        parser.add_argument(
            "name", nargs="?", metavar="RECIPE", help="A recipe, such as digits-opl; opl recipes lists them."
        )
    parser.add_argument(
        "--recipe",
        type=Path,
        metavar="FILE",
        help="Read the recipe from winner.json of a search, recipe.json of a run, or a record in results/.",
    )
    parser.add_argument(
        "--scale",
        choices=SCALES,
        help="The paper's protocol, a small version, or a smoke test. (default: the first of them that the recipe has)",
    )
    parser.add_argument("--out", type=Path, default=OUT, metavar="FOLDER", help=f"The output folder. (default: {OUT})")
    parser.add_argument("--dry-run", action="store_true", help="Print the settings and the cost, and train nothing.")
    parser.add_argument("--until", type=int, default=0, metavar="EPOCH", help="Pause after this epoch.")
    parser.add_argument("--no-test", dest="test", action="store_false", help="Skip the test at the end.")
    parser.add_argument(
        "--wait", type=float, default=0.0, metavar="SECONDS", help="How long to wait for a process that uses the run."
    )
    parser.add_argument("--json", action="store_true", help="Print the result as JSON.")
    return parser


def _load(name: str | None, scale: Any, file: Path | None, argv: list[str]) -> "Recipe":
    """Load the recipe of a name or a file, with the settings changed by flags."""
    if name is not None:
        check_recipe_name(name)
    with show_status(f"loading torch and the recipe {name or file}"):
        from .flags import change_settings, read_recipe

        default = read_recipe(file) if file else recipe(str(name), scale)
    return change_settings(default, argv)
