"""Settings of attacks on a finished network, and the names of their results. Does not import torch."""

from dataclasses import dataclass
from typing import Literal

from ...._ranges import Count, CountOrZero, NotNegative, Positive, Seed, check_settings
from ...radius import check_radius, format_radius

Kind = Literal["clean", "fgsm", "pgd", "autoattack"]
STANDARD = {"iterations": 100, "queries": 5000}  # of AutoAttack's standard version


@dataclass(frozen=True)
class Attack:
    """White-box attacks on a random subset of the test images, the same for every network."""

    eps: Positive = 8 / 255
    """Maximum change of a pixel (with norm l2, of the whole image); pixels range from 0 to 1."""
    images: CountOrZero = 1000
    """Number of test images to attack; 0 attacks all."""
    kinds: tuple[Kind, ...] = ("clean", "fgsm", "pgd", "autoattack")
    """The attacks to run. AutoAttack is the standard version: APGD-CE, targeted APGD, targeted FAB, Square."""
    norm: Literal["linf", "l2"] = "linf"
    steps: Count = 20
    """Steps of PGD."""
    step: NotNegative = 0.0
    """Step size of PGD; 0 uses a quarter of eps."""
    iterations: Count = STANDARD["iterations"]
    """Iterations of APGD and FAB; with any other value the result is not named as the standard AutoAttack."""
    queries: Count = STANDARD["queries"]
    """Queries of Square; with any other value the result is not named as the standard AutoAttack."""
    batch: Count = 250
    """Images that are attacked at once; in rare cases it affects AutoAttack's outcome for an image."""
    seed: Seed = 0
    """Random seed of the image selection and of the attacks; not the seed of the run."""
    sanity: bool = True
    """Run the sanity checks (see `sanity`), which run PGD at further radii."""

    def __post_init__(self) -> None:
        check_settings(self)
        check_radius(self.eps, self.norm)

    @property
    def stride(self) -> float:
        """The step size of PGD."""
        return self.step or self.eps / 4

    def name(self, kind: Kind) -> str:
        """Return a file name that identifies this attack; it does not include the number of images.

        Example:
            >>> Attack().name("autoattack"), Attack(eps=0.5, norm="l2", steps=7).name("pgd")
            ('autoattack-linf-8-255', 'pgd-7-l2-0.5')
        """
        if kind == "clean":
            return "clean"
        words = {"fgsm": ["fgsm"], "pgd": ["pgd", str(self.steps)], "autoattack": [self._version]}[kind]
        stride = [f"step-{self.step:g}"] if kind == "pgd" and self.step else []
        return "-".join([*words, self.norm, format_radius(self.eps).replace("/", "-"), *stride])

    @property
    def _version(self) -> str:
        standard = (self.iterations, self.queries) == (STANDARD["iterations"], STANDARD["queries"])
        return "autoattack" if standard else f"short-autoattack-{self.iterations}-{self.queries}"

    def alone(self, kind: Kind) -> "Attack":
        """The settings that determine the outcome of one attack; those that do not have their default."""
        return Attack(**{name: getattr(self, name) for name in (*_COMMON, *_SPECIFIC[kind])}, kinds=(kind,))

    def metric(self, kind: Kind) -> str:
        """Return the name of the accuracy under this attack among the numbers of a run."""
        return f"attack/{self.name(kind)}"


_COMMON = ("images", "batch", "seed")
_SPECIFIC: dict[Kind, tuple[str, ...]] = {
    "clean": (),
    "fgsm": ("eps", "norm"),
    "pgd": ("eps", "norm", "steps", "step"),
    "autoattack": ("eps", "norm", "iterations", "queries"),
}
