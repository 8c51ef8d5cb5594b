"""What all tables share: a method as a value, and one recipe at every scale."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..item import Item, Revision, Row
from ..scales import SCALES, Scale

if TYPE_CHECKING:
    from ..recipe import Recipe

Build = Callable[..., Any]


@dataclass(frozen=True)
class Variant:
    """One method of a table; every table says what `method` takes, usually the package `opl.experiments.methods`."""

    label: str
    method: Build
    """Builds the settings of the method, when torch is loaded."""
    baseline: str = ""
    """The key of the variant that it is compared with; empty for a baseline."""
    paper: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The paper's numbers, by the columns of the table, such as networks or data sets; empty if not reported."""
    scales: tuple[Scale, ...] = SCALES
    after: str = ""
    """The key of the variant whose finished run it needs."""

    def numbers(self, column: str, metrics: Iterable[str]) -> dict[str, float]:
        """The paper's numbers of a column by metric; empty if it has none."""
        return dict(zip(metrics, self.paper.get(column, ()), strict=False))

    def row(self, prefix: str, key: str, name_of: Callable[[str], str], **fields: Any) -> Row:
        """The row of the variant with a key; the prefix of its label, such as a network or data set, names its group.

        `name_of` is the name of the recipe of a variant by its key, for the row and its baseline.
        """
        baseline = name_of(self.baseline) if self.baseline else ""
        given = {"paper": {}, "scales": self.scales, "group": prefix.rstrip(", ")} | fields
        return Row(prefix + self.label, name_of(key), baseline=baseline, **given)


def with_methods(
    base: "Recipe", variants: Mapping[str, Variant], name_of: Callable[[str], str], *arguments: Any
) -> "list[Recipe]":
    """One recipe per variant, whose method takes `opl.experiments.methods` and the arguments."""
    from .. import methods

    return [
        replace(base, name=name_of(key), method=variant.method(methods, *arguments))
        for key, variant in variants.items()
    ]


def item_of_runs(item: Item, name: str, title: str, rows: tuple[Row, ...], **fields: Any) -> Item:
    """An item beside another that holds the runs, without the notes, averages and quoted lines of the other."""
    given = {"note": "", "setting": "", "quoted": (), "averages": (), "others": (), "home": item.home or item.name}
    return replace(item, name=name, title=title, rows=rows, **(given | fields))


def revised_d(recipes: Iterable[str]) -> Revision:
    """The change of `test/d` to what OPL penalizes, for recipes whose features have both signs."""
    return Revision(
        "2026-11-18T05:00:00Z",
        "their d is |mean cos|, not mean |cos|, which OPL penalizes and which is larger on features with both signs.",
        tuple(recipes),
        ("test/d",),
    )


def at_scales(paper: "Recipe", *, small: "Recipe | None" = None, tiny: "Recipe | None" = None) -> "tuple[Recipe, ...]":
    """The recipe of the paper's scale and its smaller versions, each with its scale; None leaves a scale out."""
    smaller: dict[Scale, Recipe | None] = {"small": small, "tiny": tiny}
    return paper, *(replace(recipe, scale=scale) for scale, recipe in smaller.items() if recipe is not None)
