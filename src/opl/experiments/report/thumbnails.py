"""The two pictures of the first screen: features and classes, before and after, small, as links to the large ones."""

from ..item import Row
from .context import Experiment
from .features import SIDE, has_features
from .images import heat_map
from .markup import Markup, join, tag
from .matrices import CLASSES, average, panels


def thumbnails(experiment: Experiment) -> Markup | None:
    """What of the first comparison that has pictures can be shown."""
    for place in range(len(experiment.pairs)):
        found = [part for part in (_features(experiment, place), _classes(experiment, place)) if part]
        if found:
            return tag("div", *found, class_="thumbnails")
    return None


def _features(experiment: Experiment, place: int) -> Markup | None:
    if not has_features(experiment, place):
        return None
    key = f"features-{experiment.name_pair(place)}"
    sides = []
    for side, row in enumerate(experiment.pairs[place]):
        copy = tag("use", href=f"#{key}-{side}")
        sides.append(_side(row, tag("svg", copy, viewBox=f"0 0 {SIDE} {SIDE}", aria_hidden="true")))
    return _link(f"{experiment.key}-features", "Features of test images, a color for each class", sides)


def _classes(experiment: Experiment, place: int) -> Markup | None:
    found = [average(row, experiment.group.finished(row)) for row in experiment.pairs[place]]
    if found[0] is None or found[1] is None or not 1 < len(found[0][0].class_names) <= CLASSES:
        return None
    if found[0][0].class_names != found[1][0].class_names:
        return None
    sides = []
    for row, panel in zip(experiment.pairs[place], panels(found[0], found[1]), strict=False):
        image = tag("img", src=heat_map(panel.values, panel.low, panel.high, panel.stops), alt="")
        sides.append(_side(row, image))
    return _link(f"{experiment.key}-classes", "Cosines between classes: off the diagonal, 0 is best", sides)


def _side(row: Row, picture: Markup) -> Markup:
    return tag("span", picture, tag("span", row.label, class_="quiet"))


def _link(target: str, words: str, sides: list[Markup]) -> Markup:
    return tag(
        "a", join(tag("span", *sides, class_="sides"), tag("span", words)), href=f"#{target}", class_="thumbnail"
    )
