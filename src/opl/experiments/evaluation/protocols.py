"""The protocols of `opl evaluate RUN PROTOCOL`: descriptions, settings, and names of results. Does not import torch.

The evaluation of a protocol is in the module that its entry in `PROTOCOLS` names, which is imported only when it runs.
The settings are here because the tables of the paper need them without torch.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import PurePath
from typing import Annotated, Any, Literal, NamedTuple

from ..._ranges import (
    LARGEST_COUNT,
    Count,
    CountOrZero,
    Name,
    NotNegative,
    Positive,
    Range,
    Seed,
    check_settings,
)  # fmt: skip
from ...errors import OptionError, did_you_mean
from ..radius import check_radius, format_radius, parse_radius
from ..settings import to_json


def _describe(settings: Any, default: Any, *start: str) -> str:
    """Return a file name: `start`, then each setting that differs from `default`."""
    names = [field.name for field in fields(settings) if getattr(settings, field.name) != getattr(default, field.name)]
    return "-".join([*start, *(f"{name}-{_format(getattr(settings, name))}" for name in names)])


def _format(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


class Checked:
    """Base class of settings that check themselves."""

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class FewShot(Checked):
    """Few-shot episodes as in RFS: a new classifier on frozen features for every episode."""

    way: Annotated[int, Range(2, LARGEST_COUNT)] = 5
    """Classes per episode."""
    shot: Count = 1
    """Support images per class."""
    queries: Count = 15
    """Query images per class."""
    episodes: Count = 3000
    copies: CountOrZero = 0
    """Augmented copies of each support image; 0 follows the paper's scripts: 5 for one shot, 1 for more."""
    views: CountOrZero = 5
    """Augmented views per image to choose copies from, encoded once; 0 augments and encodes every copy separately."""
    view: Literal["training", "no-jitter", "plain"] = "training"
    """How a copy is augmented: as in training, the same without color jitter (SKD), or not at all."""
    classifier: Literal["logistic", "prototypes", "nearest", "cosine", "ridge", "scikit-learn"] = "logistic"
    """`scikit-learn` is its logistic regression, one episode at a time: the reference for `logistic`."""
    unit: bool = True
    """Divide features by their norm."""
    noise: NotNegative = 0.0
    """Standard deviation of Gaussian noise on support and query images."""
    noise_unit: Literal["pixels", "normalized"] = "pixels"
    """Whether noise is added to pixels in [0, 1], or to images after normalization."""
    clip: bool = True
    """Clamp noisy pixels to [0, 1]; normalized images are never clamped."""
    part: Literal["test", "val"] = "test"
    """The novel classes for testing, or the novel classes for validation."""
    seed: Seed = 0
    """Random seed of the episodes, views and noise; not the seed of the run."""

    @property
    def repeats(self) -> int:
        """Copies of each support image."""
        return self.copies or (5 if self.shot == 1 else 1)

    @property
    def images(self) -> tuple[Any, ...]:
        """The settings that determine the encoded images."""
        return (self.views, self.view, self.unit, self.noise, self.noise_unit, self.clip, self.part, self.seed)

    @property
    def name(self) -> str:
        """A file name that identifies these settings; it does not include the number of episodes.

        Example:
            >>> FewShot(shot=5, noise=0.1).name
            '5-way-5-shot-noise-0.1'
        """
        default = FewShot(way=self.way, shot=self.shot, episodes=self.episodes)
        return _describe(self, default, f"{self.way}-way-{self.shot}-shot")

    @property
    def metric(self) -> str:
        """The name of the mean accuracy among the numbers of a run."""
        return f"episodes/{self.name}"


@dataclass(frozen=True)
class Selection(Checked):
    """Episodes of Meta-Dataset as in SUR: domain weights are fitted on the support set of every episode."""

    target: Name = "omniglot"
    """The source whose classes are tested."""
    episodes: Count = 600
    steps: CountOrZero = 40
    """Steps of Adadelta; 0 leaves all domains at the same weight."""
    rate: Positive = 3000.0
    """Learning rate, divided by the number of classes of an episode."""
    scale: Positive = 10.0
    """Factor of the cosines in the loss."""
    part: Literal["test", "val"] = "test"
    """The test classes of the target, or its validation classes."""
    seed: Seed = 0
    """Random seed of the episodes; not the seed of the run."""

    @property
    def name(self) -> str:
        """A file name that identifies these settings; it does not include the number of episodes.

        Example:
            >>> Selection(target="mnist", steps=0).name
            'mnist-steps-0'
        """
        return _describe(self, Selection(target=self.target, episodes=self.episodes), self.target)

    @property
    def metric(self) -> str:
        """The name of the mean accuracy among the numbers of a run."""
        return f"selection/{self.name}"


BASE_METRIC = "selection/base"
"""The name of the accuracy of the first network of a family on held-out images of its training classes."""


def average_metric(settings: Sequence[Selection]) -> str:
    """Return the name of the mean over several targets.

    Example:
        >>> average_metric([Selection(target="mnist"), Selection(target="omniglot")])
        'selection/average-of-2'
    """
    return replace(settings[0], target=f"average-of-{len(settings)}").metric


def average_settings(settings: Sequence[Selection]) -> dict[str, Any]:
    """Return the settings of the mean over several targets, as written to disk."""
    return {"average": [to_json(protocol) for protocol in settings]}


def base_settings(source: str) -> dict[str, Any]:
    """Return the settings of `BASE_METRIC`, as written to disk: the data whose held-out images were tested."""
    return {"base": source}


AttackKind = Literal["clean", "fgsm", "pgd", "autoattack"]
STANDARD = {"iterations": 100, "queries": 5000}  # of AutoAttack's standard version


@dataclass(frozen=True)
class Attack(Checked):
    """White-box attacks on a random subset of the test images, the same for every network."""

    eps: Positive = 8 / 255
    """Maximum change of a pixel (with norm l2, of the whole image); pixels range from 0 to 1."""
    images: CountOrZero = 1000
    """Number of test images to attack; 0 attacks all."""
    kinds: tuple[AttackKind, ...] = ("clean", "fgsm", "pgd", "autoattack")
    """The attacks to run. AutoAttack is the standard version: APGD-CE, targeted APGD, targeted FAB, Square."""
    norm: Literal["linf", "l2"] = "linf"
    steps: Count = 20
    """Steps of PGD."""
    step: NotNegative = 0.0
    """Step size of PGD; 0 uses a quarter of eps."""
    iterations: Count = STANDARD["iterations"]
    """Iterations of APGD and FAB; only with the default is the result named as standard AutoAttack."""
    queries: Count = STANDARD["queries"]
    """Queries of Square; only with the default is the result named as standard AutoAttack."""
    batch: Count = 250
    """Images that are attacked together; in rare cases it affects AutoAttack's outcome for an image."""
    seed: Seed = 0
    """Random seed of the image selection and of the attacks; not the seed of the run."""
    sanity: bool = True
    """Run the sanity checks, which run PGD at further radii."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_radius(self.eps, self.norm)

    @property
    def stride(self) -> float:
        """The step size of PGD."""
        return self.step or self.eps / 4

    def name(self, kind: AttackKind) -> str:
        """Return a file name that identifies an attack; it does not include the number of images.

        Example:
            >>> Attack().name("autoattack"), Attack(eps=0.5, norm="l2", steps=7).name("pgd")
            ('autoattack-linf-8-255', 'pgd-7-l2-0.5')
        """
        if kind == "clean":
            return "clean"
        standard = (self.iterations, self.queries) == (STANDARD["iterations"], STANDARD["queries"])
        version = "autoattack" if standard else f"short-autoattack-{self.iterations}-{self.queries}"
        start = {"fgsm": "fgsm", "pgd": f"pgd-{self.steps}", "autoattack": version}[kind]
        end = f"-step-{self.step:g}" if kind == "pgd" and self.step else ""
        return f"{start}-{self.norm}-{format_radius(self.eps).replace('/', '-')}{end}"

    def metric(self, kind: AttackKind) -> str:
        """Return the name of the accuracy under an attack among the numbers of a run."""
        return f"attack/{self.name(kind)}"

    def alone(self, kind: AttackKind) -> "Attack":
        """Return the settings that determine the outcome of one attack, with all others at their defaults."""
        names = ("images", "batch", "seed", *_ATTACK_SETTINGS[kind])
        return Attack(**{name: getattr(self, name) for name in names}, kinds=(kind,))


_ATTACK_SETTINGS: dict[AttackKind, tuple[str, ...]] = {
    "clean": (),
    "fgsm": ("eps", "norm"),
    "pgd": ("eps", "norm", "steps", "step"),
    "autoattack": ("eps", "norm", "iterations", "queries"),
}


@dataclass(frozen=True)
class OpenSet(Checked):
    """Detection of images that belong to none of the classes of a run, by scores of its network."""

    outside: str = "default"
    """Images outside of the run's classes: `novel` (classes that it was not trained on), a data set such as `cifar10`,
    or a folder with one subfolder of images per class; `default` uses all that suit the run and are on this machine."""
    images: CountOrZero = 0
    """Random images per data set; 0 uses all."""
    neighbors: Count = 20
    """The score `knn` is the cosine similarity to the nearest training image of this rank."""
    seed: Seed = 0
    """Random seed of the choice of images; not the seed of the run."""

    @property
    def metric(self) -> str:
        """The prefix of the names of its numbers in a run's results.

        Example:
            >>> OpenSet(outside="/data/my cats").metric
            'open-set/my-cats'
        """
        return f"open-set/{_describe(self, OpenSet(outside=self.outside), outside_name(self.outside))}"


@dataclass(frozen=True)
class Transfer(Checked):
    """Retrieval and few-shot episodes on classes and data sets that a run was not trained on."""

    target: str = "default"
    """`novel` (classes that the run was not trained on), a data set such as `mini-imagenet`, or a folder with
    one subfolder of images per class; `default` uses all that suit the run and are on this machine."""
    images: CountOrZero = 0
    """Random images per data set; 0 uses all."""
    episodes: Count = 600
    """Episodes of 5 classes, with 15 queries per class."""
    seed: Seed = 0
    """Random seed of the choice of images and of the episodes; not the seed of the run."""

    @property
    def metric(self) -> str:
        """The prefix of the names of its numbers in a run's results."""
        default = Transfer(target=self.target, episodes=self.episodes)
        return f"transfer/{_describe(self, default, outside_name(self.target))}"


def outside_name(outside: str) -> str:
    """Return a data set's name, or the name of a folder, as part of a file name."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", PurePath(outside).name).strip("-") or "images"


RESIZING = (
    "Images of other data sets are resized to the size of the run's images (bilinear, antialiased); images of a folder "
    "are cropped to their central square. Gray images are repeated for each channel; color images become gray by "
    "0.299 R + 0.587 G + 0.114 B."
)


class Protocol(NamedTuple):
    """An evaluation of a finished run: a function of its folder, and of settings if the protocol has any."""

    function: str
    """`module:name` in this package; called as `evaluate(folder)` or `evaluate(folder, list_of_settings)`."""
    summary: str
    writes: str = ""
    """The arrays of the run that it writes, such as `test` for `test.npz`; empty for protocols that write a measure."""
    settings: type[Any] | None = None
    """The dataclass of its settings, whose fields become command-line flags."""
    several: str = ""
    """A field of the settings whose flag accepts several values."""
    parse: Callable[[str], Any] = int
    """Parses a value of that flag."""
    note: str = ""
    """What a reader of the numbers must know; printed with them."""

    def load(self) -> Callable[..., dict[str, Any]]:
        """Import the function."""
        module, _, name = self.function.partition(":")
        function: Callable[..., dict[str, Any]] = getattr(import_module(f".{module}", __package__), name)
        return function


PROTOCOLS = {
    "geometry": Protocol(
        "features:evaluate_geometry",
        "s, d and other measures of the test features, and predictions for figures (test.npz)",
        "test",
    ),
    "novel": Protocol(
        "features:evaluate_novel", "the same for classes that the run was not trained on (novel.npz)", "novel"
    ),
    "noise": Protocol("label_noise:evaluate_label_noise", "which wrong labels the network memorized (measures/)"),
    "episodes": Protocol(
        "episodes:evaluate_episodes",
        "few-shot episodes of classes that the run was not trained on (measures/)",
        settings=FewShot,
        several="shot",
    ),
    "selection": Protocol(
        "selection:evaluate_selection",
        "Meta-Dataset episodes on the features of a run and its members (measures/)",
        settings=Selection,
        several="target",
        parse=str,
    ),
    "open-set": Protocol(
        "open_set:evaluate_open_set",
        "detection of images from other data sets or held-out classes (measures/)",
        settings=OpenSet,
        several="outside",
        parse=str,
        note=RESIZING,
    ),
    "transfer": Protocol(
        "transfer:evaluate_transfer",
        "retrieval and episodes on classes and data sets that the run was not trained on (measures/)",
        settings=Transfer,
        several="target",
        parse=str,
        note=RESIZING,
    ),
    "attack": Protocol(
        "attack:evaluate_attacks",
        "accuracy under FGSM, PGD and AutoAttack (measures/)",
        settings=Attack,
        several="eps",
        parse=parse_radius,
    ),
}


def protocol(name: str) -> Protocol:
    """Return the protocol with this name; the error for an unknown name suggests the closest one."""
    if name not in PROTOCOLS:
        raise OptionError(did_you_mean("protocol", name, PROTOCOLS))
    return PROTOCOLS[name]


def protocol_of(arrays: str) -> str:
    """Return the name of the protocol that writes these arrays of a run.

    Example:
        >>> protocol_of("test")
        'geometry'
    """
    return next(name for name, entry in PROTOCOLS.items() if entry.writes == arrays)
