"""Test images that one of two models gets right and the other wrong: how many each way, and some of them."""

from collections.abc import Sequence

from ..charts import gallery
from ..charts._picture import Guesses, Picture
from ..results.runs import BROKEN, Run
from ..statistics import sign_test
from . import confusion
from .context import Experiment
from .figure import absent
from .html_table import cell, heading, row, scroll_box
from .images import enlarged
from .markup import Markup, join, tag

EACH = 6  # pictures each way
BUDGET = 150_000  # maximum bytes for the pictures of one direction
NONE = "None of the images that were kept."


def section(experiment: Experiment, place: int) -> Markup | None:
    """The counts of every seed, the pictures of the first seed that has some, and what changed in the confusions."""
    base, own = experiment.pairs[place]
    pairs = [
        pair
        for pair in gallery.pair_by_seed(experiment.group.finished(base), experiment.group.finished(own))
        if confusion.comparable(*pair)
    ]
    if not pairs:
        return None
    names = (base.label, own.label)
    try:
        parts = [_counts(pairs, names), _galleries(pairs, names), confusion.table(pairs, names)]
    except BROKEN as error:
        return absent(f"The pictures cannot be shown: {error}")
    return experiment.room.take(join(*parts), "The gallery of test images")


def _counts(pairs: Sequence[tuple[Run, Run]], names: tuple[str, str]) -> Markup:
    found = [(after.seed, *gallery.count_changes(before, after)) for before, after in pairs]
    seed, fixed, broken, total = found[0]
    words = (
        f"{fixed} fixed, {broken} broken of {total:,} test images by {names[1]} against {names[0]} (seed {seed}; exact "
        f"sign test, p {sign_test(fixed, broken):.2g})"
    )
    if len(found) == 1:
        return tag("p", words, ".", class_="count")
    head = [heading(word) for word in ("seed", "fixed", "broken", "of", "p, sign test")]
    body = [
        row(
            seed,
            cell("fixed", fixed),
            cell("broken", broken),
            cell("of", f"{total:,}"),
            cell("p, sign test", f"{sign_test(fixed, broken):.2g}"),
        )
        for seed, fixed, broken, total in found
    ]
    label = f"Fixed and broken images, {names[1]} against {names[0]}"
    return join(tag("p", words, ". Every seed:", class_="count"), scroll_box(label, [head], body, "narrow"))


def _galleries(pairs: Sequence[tuple[Run, Run]], names: tuple[str, str]) -> Markup | None:
    for before, after in pairs:
        if all("pixels" in run.arrays() for run in (before, after)):
            fixed = gallery.corrections(before, after, EACH)
            broken = gallery.regressions(before, after, EACH)
            return join(
                tag("h4", f"Fixed: right with {names[1]}, wrong with {names[0]}"),
                _cards(fixed, names),
                tag("h4", f"Broken: right with {names[0]}, wrong with {names[1]}"),
                _cards(broken, names),
                tag("p", f"Seed {after.seed}; what the model in the right is surest of comes first.", class_="note"),
            )
    return None


def _cards(found: Sequence[Picture], names: tuple[str, str]) -> Markup:
    room, cards = BUDGET, []
    for picture in found:
        image = enlarged(picture.pixels)
        room -= len(image)
        cards += [_card(picture, image, names)] if room > 0 else []
    return tag("ul", *cards, class_="gallery", role="list") if cards else tag("p", NONE, class_="note")


def _card(picture: Picture, source: str, names: tuple[str, str]) -> Markup:
    truth = picture.truth
    image = tag("img", src=source, alt=f"Test picture of the class {truth}", width=96, height=96)
    guesses = zip(names, (picture.before, picture.after), strict=True)
    lists = [_guesses(name, some, truth) for name, some in guesses]
    return tag("li", tag("div", image, tag("p", truth, class_="truth"), class_="face"), *lists)


def _guesses(name: str, guesses: Guesses, truth: str) -> Markup:
    lines = []
    for guess, probability in guesses:
        percent = 100 * min(1.0, max(0.0, probability))  # NaN becomes 0
        words = [tag("span", guess, class_="guess"), tag("span", f"{percent:.0f} %", class_="number")]
        right = guess == truth
        mark = tag("span", " (right)", class_="hidden") if right else None
        style = f"--p:{percent:.0f}%"
        lines.append(tag("li", *words, mark, class_="right" if right else None, style=style))
    return tag("div", tag("p", name, class_="who"), tag("ol", *lines, role="list"), class_="guesses")
