"""How a finished network is attacked: the settings, and the names of what comes out. No torch in here."""

from dataclasses import dataclass
from typing import Literal, get_args

from ....errors import OptionError, did_you_mean
from ...radius import check_radius, format_radius

Kind = Literal["clean", "fgsm", "pgd", "autoattack"]
STANDARD = {"iterations": 100, "queries": 5000}  # of AutoAttack's standard version


@dataclass(frozen=True)
class Attack:
    """White-box attacks on a random choice of test images, the same for every network."""

    eps: float = 8 / 255
    """How far a pixel (or with norm l2 an image) may move; pixels reach from 0 to 1."""
    images: int = 1000
    """How many test images are attacked; 0 takes all."""
    kinds: tuple[Kind, ...] = ("clean", "fgsm", "pgd", "autoattack")
    """Which attacks. AutoAttack is its standard version: APGD-CE, targeted APGD, targeted FAB, Square."""
    norm: Literal["linf", "l2"] = "linf"
    steps: int = 20
    """Of PGD."""
    step: float = 0.0
    """Of PGD; 0 takes a quarter of eps."""
    iterations: int = STANDARD["iterations"]
    """Of APGD and FAB; with another number it is not the standard AutoAttack, and is named so."""
    queries: int = STANDARD["queries"]
    """Of Square; with another number it is not the standard AutoAttack, and is named so."""
    batch: int = 250
    """Images that are attacked at once; AutoAttack's outcome may depend on it in rare images."""
    seed: int = 0
    """Of the choice of images and of the attacks; not that of the run."""
    sanity: bool = True
    """Check what an honest attack must show (see `sanity`): PGD at other radii too."""

    def __post_init__(self) -> None:
        check_radius(self.eps, self.norm)
        for kind in self.kinds:
            if kind not in get_args(Kind):
                raise OptionError(did_you_mean("attack", kind, get_args(Kind)))
        for least, names in ((0, ("images", "step", "seed")), (1, ("steps", "iterations", "queries", "batch"))):
            for name in names:
                if getattr(self, name) < least:
                    raise OptionError(f"{name} is {getattr(self, name)}: give a number from {least} up.")

    @property
    def stride(self) -> float:
        """The length of a step of PGD."""
        return self.step or self.eps / 4

    def name(self, kind: Kind) -> str:
        """What tells this attack from others, as a name of a file; how many images there were is not in it.

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

    def metric(self, kind: Kind) -> str:
        """The name of the accuracy under this attack among the numbers of a run."""
        return f"attack/{self.name(kind)}"
