"""Test pictures that OPL gets right and CE wrong, each with the top-5 predictions of both."""

from collections.abc import Sequence
from typing import Any

from ..figures import gallery
from ..item import Row
from ..results.runs import BROKEN, Run
from .context import Context
from .groups import Group, badge, new_rows
from .markup import Markup, join, no_break, tag

BUDGET = 200_000  # maximum bytes for the pictures of a group
NONE = "Among the pictures that were kept, there is none that the second model gets right and the first wrong."


def section(context: Context) -> Markup | None:
    """The pictures of each group that has a baseline and a row compared with it, both with saved outputs."""
    pairs = [(group, pair) for group, rows in new_rows(context.groups) if (pair := group.pair()) and pair[1] in rows]
    parts = [part for group, pair in pairs if (part := _article(group, *pair))]
    return join(*parts) if parts else None


def _article(group: Group, base: Row, own: Row) -> Markup | None:
    for before, after in gallery.pair_by_seed(group.finished(base), group.finished(own)):
        if "pixels" in before.arrays() and "pixels" in after.arrays():
            words = f"{own.label} against {base.label}, seed {after.seed}; what {own.label} is surest of comes first."
            head = [tag("h3", no_break(group.title)), badge(group.scale), tag("p", words, class_="quiet")]
            return tag("article", *head, _cards(before, after, (base.label, own.label)))
    return None


def _cards(before: Run, after: Run, names: tuple[str, str]) -> Markup:
    try:
        found = gallery.corrections(before, after)
        shown = gallery.page(found) if found else []
    except BROKEN as error:
        return tag("p", f"The pictures cannot be shown: {error}", class_="absent")
    room, cards = BUDGET, []
    for picture in shown:
        room -= len(picture["image"])
        cards += [_card(picture, names)] if room > 0 else []
    return tag("ul", *cards, class_="gallery", role="list") if cards else tag("p", NONE, class_="absent")


def _card(picture: dict[str, Any], names: tuple[str, str]) -> Markup:
    truth = str(picture["truth"])
    image = tag("img", src=picture["image"], alt=f"Test picture of the class {truth}", width=96, height=96)
    lists = [_guesses(name, picture[side], truth) for name, side in zip(names, ("before", "after"), strict=True)]
    return tag("li", tag("div", image, tag("p", truth, class_="truth"), class_="face"), *lists)


def _guesses(name: str, guesses: Sequence[tuple[str, float | None]], truth: str) -> Markup:
    lines = []
    for guess, probability in guesses:
        percent = 100 * min(1.0, max(0.0, probability or 0.0))
        words = [tag("span", guess, class_="guess"), tag("span", f"{percent:.0f} %", class_="number")]
        right = guess == truth
        mark = tag("span", " (right)", class_="hidden") if right else None
        style = f"--p:{percent:.0f}%"
        lines.append(tag("li", *words, mark, class_="right" if right else None, style=style))
    return tag("div", tag("p", name, class_="who"), tag("ol", *lines, role="list"), class_="guesses")
