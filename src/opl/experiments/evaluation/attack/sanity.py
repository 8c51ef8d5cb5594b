"""Sanity checks of robustness results; a failed check suggests a weak attack or masked gradients.

Numbers are accuracies in percent on the same images. Differences of up to two images or one percentage point are
attributed to chance.
"""

from collections.abc import Mapping
from itertools import pairwise

from ...radius import format_radius

LARGE = {"linf": 0.5, "l2": 30.0}  # large enough to turn every 32 x 32 image gray, so that nothing can be recognized
NEARLY_NONE = 5.0


def radii(eps: float, norm: str = "linf") -> tuple[float, ...]:
    """Return the radii at which PGD is run: half of eps, eps, twice eps, and one that should leave no accuracy.

    Example:
        >>> [round(each, 3) for each in radii(0.1)]
        [0.05, 0.1, 0.2, 0.5]
    """
    most = 1.0 if norm == "linf" else float("inf")  # no pixel can move farther
    return tuple(sorted({eps / 2, eps, min(most, 2 * eps), min(most, max(LARGE[norm], 4 * eps))}))


def suspicions(
    found: Mapping[str, float], curve: Mapping[float, float], square: float, images: int, large: float
) -> list[str]:
    """Return a sentence for each result that a sound attack would not show.

    Args:
        found: accuracy by attack that was run: "clean", "fgsm", "pgd", "autoattack".
        curve: accuracy under PGD, by radius.
        square: percentage of images that Square broke after AutoAttack's white-box attacks had failed.
        images: number of attacked images.
        large: a radius that should leave no accuracy.

    Example:
        >>> suspicions({"fgsm": 20.0, "pgd": 40.0}, {}, 0.0, 500, 0.5)
        ['PGD leaves 40.0 % and FGSM only 20.0 %: many steps should be stronger than one']
    """
    chance = max(200 / max(1, images), 1.0)
    said = []
    ordered = sorted(curve)
    for low, high in pairwise(ordered):
        if curve[high] > curve[low] + chance:
            said.append(
                f"PGD leaves {curve[high]:.1f} % at {format_radius(high)} and {curve[low]:.1f} % at "
                f"{format_radius(low)}: accuracy should fall with the radius"
            )
    if curve.get(large, 0.0) > max(NEARLY_NONE, chance):
        said.append(f"PGD leaves {curve[large]:.1f} % at {format_radius(large)}, where nearly nothing should be left")
    stronger = {("fgsm", "pgd"): "many steps should be stronger than one", ("pgd", "autoattack"): "it is the stronger"}
    for (weak, strong), why in stronger.items():
        if weak in found and strong in found and found[strong] > found[weak] + chance:
            said.append(
                f"{_NAMES[strong]} leaves {found[strong]:.1f} % and {_NAMES[weak]} only {found[weak]:.1f} %: {why}"
            )
    if square > chance:
        said.append(
            f"Square, which sees no gradients, broke {square:.1f} % that the white-box attacks had not: gradients may "
            "be masked"
        )
    return said


_NAMES = {"fgsm": "FGSM", "pgd": "PGD", "autoattack": "AutoAttack"}
