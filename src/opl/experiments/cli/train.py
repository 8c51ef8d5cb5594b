"""`opl train RECIPE`: one run; every setting of the recipe is a flag."""

import dataclasses
import json
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from ...errors import OptionError
from ..differences import FREE, describe_changes
from ..files import read_limited
from ..recipe import Recipe
from ..scales import SCALES
from ..serialization import to_json
from ..tables import cost_of, recipe
from .flags import HELP, OUT, Parser, read_flags

SETTINGS = "Every setting of the recipe is a flag too: opl train RECIPE --help lists them."


@dataclass(frozen=True)
class Train:
    """One run of a recipe."""

    recipe: Recipe
    out: Path
    dry_run: bool
    until: int = 0
    test: bool = True
    wait: float = 0.0

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
        parser.add_argument("--scale", default=Recipe.scale, choices=SCALES)
        parser.add_argument("--out", type=Path, default=OUT, help="the folder of the runs")
        parser.add_argument("--dry-run", action="store_true", help="print the settings and the cost, and train nothing")
        parser.add_argument("--until", type=int, default=0, metavar="EPOCH", help="stop there; 0: train to the end")
        parser.add_argument("--no-test", dest="test", action="store_false", help="leave the test set alone")
        parser.add_argument(
            "--wait", type=float, default=0.0, metavar="SECONDS", help="for another run of the same folder"
        )
        given, rest = parser.parse_known_args(words)
        if given.name is None and given.recipe is None:
            if HELP & set(rest):
                parser.print_help()
                raise SystemExit(0)
            raise OptionError(
                "opl train needs a recipe, for instance: opl train digits-opl; opl recipes lists them, and --recipe "
                "FILE takes one from a file."
            )
        default = read_recipe(given.recipe) if given.recipe else recipe(given.name, given.scale)
        return cls(change_settings(default, rest), given.out, given.dry_run, given.until, given.test, given.wait)

    def run(self) -> int:
        """Train, or say what would be trained."""
        if self.dry_run:
            print(json.dumps(to_json(self.recipe), indent=1))
            print(f"cost: {cost_of(self.recipe.name) or 'not measured yet'}")
            return 0
        from ..training.ownership import Part
        from ..training.run import run

        result = run(self.recipe, self.out, Part(self.until, self.test, self.wait))
        if result is not None:
            print(json.dumps(result, indent=1))
        return 0


def read_recipe(file: Path) -> Recipe:
    """Read a recipe from a file: `winner.json` of a search, or `recipe.json` of a run."""
    from ..training.build import parse_recipe

    try:
        content = json.loads(read_limited(file))
        return parse_recipe(content["recipe"] if isinstance(content.get("recipe"), dict) else content)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise OptionError(f"{file} holds no recipe ({error}): give winner.json of a search, or recipe.json.") from error


def change_settings(default: Recipe, words: list[str]) -> Recipe:
    """A recipe with the settings that the words change, such as `--method.weight 0.3`."""
    narrow = _narrow(default)
    hidden = tyro.conf.configure(tyro.conf.AvoidSubcommands, tyro.conf.SuppressFixed)
    changed = read_flags(
        hidden(narrow),
        words,
        default=narrow(**_values(default)),
        prog=f"opl train {default.name}",
        description=f"Also: --scale {{{','.join(SCALES)}}}, --out DIR, --dry-run. The settings of the recipe:",
    )
    return _declare_changes(Recipe(**_values(changed)), default)


def _declare_changes(chosen: Recipe, default: Recipe) -> Recipe:
    """The same recipe, which says so if it is no longer that of its name: its runs are in no table."""
    changes = describe_changes(to_json(chosen), to_json(default), FREE)
    if not changes:
        return chosen
    return dataclasses.replace(chosen, scale="custom", changes=(*default.changes, *changes))


def _narrow(default: Recipe) -> type[Recipe]:
    """`Recipe` with the classes of these very settings in place of its protocols, which say nothing of flags.

    It does not check itself: tyro would draw a box around the sentence of an error, which `Recipe` raises afterwards.
    """
    hints = typing.get_type_hints(Recipe)
    fields = [
        (name, type(value) if dataclasses.is_dataclass(value) else hints[name], dataclasses.field(default=value))
        for name, value in _values(default).items()
    ]
    unchecked = {"__post_init__": lambda settings: None}
    return dataclasses.make_dataclass(Recipe.__name__, fields, bases=(Recipe,), frozen=True, namespace=unchecked)


def _values(settings: Recipe) -> dict[str, Any]:
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
