"""What an honest measure of robustness must show; where it does not, the attack is weak or gradients are masked.

Numbers are accuracies in per cent on the same images. A difference of two images, or of one per cent, is chance.
"""

from collections.abc import Mapping
from itertools import pairwise

from ...radius import format_radius

LARGE = {"linf": 0.5, "l2": 30.0}  # where every image of 32 x 32 can become gray: nothing is left to tell
NEARLY_NONE = 5.0


def radii(eps: float, norm: str = "linf") -> tuple[float, ...]:
    """At which PGD is tried: half of eps, eps, twice that, and a radius that leaves nothing.

    Example:
        >>> [round(each, 3) for each in radii(0.1)]
        [0.05, 0.1, 0.2, 0.5]
    """
    most = 1.0 if norm == "linf" else float("inf")  # no pixel can move further
    return tuple(sorted({eps / 2, eps, min(most, 2 * eps), min(most, max(LARGE[norm], 4 * eps))}))


def suspicions(
    found: Mapping[str, float], curve: Mapping[float, float], square: float, images: int, large: float
) -> list[str]:
    """A sentence for everything that an honest attack would not show.

    Args:
        found: accuracy under the attacks that were made, by "clean", "fgsm", "pgd", "autoattack".
        curve: accuracy under PGD, by radius.
        square: the share of images in per cent that Square broke after the white-box attacks of AutoAttack had failed.
        images: how many were attacked.
        large: a radius that should leave nothing.

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
