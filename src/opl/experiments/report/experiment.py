"""One experiment of the page: its verdict, every comparison on one axis and two pictures; then part after part."""

from collections.abc import Callable, Sequence
from functools import partial

from ..item import Row
from ..results.comparisons import lines
from ..results.runs import BROKEN, Run
from ..results.text import count_verdicts, describe_effect
from . import curves, features, forest, matrices, pictures, result_tables, seeds, settings, sweeps
from .context import Experiment, Room
from .figure import absent
from .glossary import explain
from .groups import Group, badge
from .markup import Markup, join, no_break, tag
from .provenance import count_states
from .thumbnails import thumbnails

PAIRS = 6  # comparisons that are looked at closely
FEW = 2  # comparisons: of more, the pictures stand at their side

Part = Callable[[Experiment], Markup | None]


def make_experiment(group: Group, rows: Sequence[Row], runs: Sequence[Run], room: Room) -> Experiment:
    """Read what the parts of an experiment share."""
    try:
        found = lines(group.item, runs, group.scale) if group.item.metrics else []
    except BROKEN:
        found = []
    pairs = [(base, own) for base, own in group.pairs() if own in rows]
    return Experiment(group, rows, found, pairs[:PAIRS], room)


def section(experiment: Experiment, runs: Sequence[Run]) -> tuple[Markup, dict[str, str]]:
    """The whole experiment, and its parts by id, in a word each."""
    parts: dict[str, tuple[str, str, Part]] = {
        "table": ("Table", "Paper and ours", lambda each: result_tables.section(each, runs)),
        "seeds": ("Seeds", "Seed by seed", seeds.section),
        "features": (
            "Features",
            "Features before and after",
            lambda each: _closely(each, (features.section, features.novel)),
        ),
        "classes": ("Classes", "Classes against each other", lambda each: _closely(each, (matrices.section,))),
        "curves": ("Curves", "Learning curves", curves.section),
        "pictures": ("Fixed, broken", "Fixed and broken test images", lambda each: _closely(each, (pictures.section,))),
        "sweeps": ("Sweeps", "Accuracy over the settings", sweeps.section),
        "settings": ("Settings", "Settings", settings.section),
    }
    made, titles = [], {}
    for name, (word, title, make) in parts.items():
        content = _made(experiment, make)
        if content:
            key = f"{experiment.key}-{name}"
            titles[key] = word
            made.append(tag("div", tag("h3", title), content, id=key, class_="part"))
    return tag("section", _first(experiment, runs), *made, id=experiment.key, class_="experiment"), titles


def _made(experiment: Experiment, make: Part) -> Markup | None:
    try:
        return make(experiment)
    except BROKEN as error:
        return absent(f"This part cannot be made: {error}")


def _first(experiment: Experiment, runs: Sequence[Run]) -> Markup:
    """What can be seen at once."""
    group = experiment.group
    plot, small = _made(experiment, forest.figure), _made(experiment, thumbnails)
    return tag(
        "div",
        tag("h2", no_break(group.title), " ", badge(group.scale)),
        tag("p", _verdict(group, runs), class_="verdict"),
        tag("p", count_verdicts(experiment.lines), class_="tally"),
        _missing(group),
        tag("div", plot, small, class_="first many" if len(forest.comparisons(experiment)) > FEW else "first"),
        class_="opening",
    )


def _verdict(group: Group, runs: Sequence[Run]) -> Markup:
    try:
        return explain(describe_effect(group.item, runs, group.scale))
    except BROKEN:
        return join("The results of these runs cannot be compared: see below.")


def _missing(group: Group) -> Markup | None:
    """Runs that are in no number of this experiment."""
    missing = [run for run in group.runs if run.state != "done"]
    if not missing:
        return None
    words = f"{len(missing)} of {len(group.runs)} runs are not in these numbers: {count_states(missing)}. "
    return tag("p", words, tag("a", "Why", href="#runs"), class_="notice")


def _closely(experiment: Experiment, makes: Sequence[Callable[[Experiment, int], Markup | None]]) -> Markup | None:
    """The same part for every comparison, of which one is visible; a menu chooses it in all parts alike."""
    found = []
    for place in range(len(experiment.pairs)):
        content = join(*(_made(experiment, partial(_at, make, place)) for make in makes))
        found += [(place, content)] if content else []
    if not found:
        return None
    first = found[0][0]
    boxes = [
        tag("div", content, data_pair=experiment.name_pair(place), data_of=experiment.key, hidden=place != first)
        for place, content in found
    ]
    return join(_menu(experiment, [place for place, _ in found]), *boxes)


def _at(make: Callable[[Experiment, int], Markup | None], place: int, experiment: Experiment) -> Markup | None:
    return make(experiment, place)


def _menu(experiment: Experiment, places: Sequence[int]) -> Markup | None:
    if len(places) < 2:
        return None
    options = [
        tag("option", f"{own.label} against {base.label}", value=experiment.name_pair(place))
        for place, (base, own) in enumerate(experiment.pairs)
        if place in places
    ]
    menu = tag("select", *options, data_compare=experiment.key, aria_label="Comparison that is looked at closely")
    return tag("div", menu, class_="controls")
