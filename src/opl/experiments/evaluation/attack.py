"""Accuracy under attack: FGSM, PGD and standard AutoAttack on the test images of a finished run, with sanity checks.

Attacks have no side effects: the model's mode and gradients and the global random state are restored. All randomness
depends only on the settings' seed.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...errors import OplWarning, OptionError
from ..methods.ascent import ascend, check_pixels, random_point
from ..models import Network, prepend_standardize
from ..models.modes import evaluation_mode, frozen_parameters
from ..radius import format_radius
from ..run_folder import RunFolder, measure_name
from ..seeds import Purpose
from ..settings import to_json
from ..statistics import wilson
from ..training.build import image_statistics
from ..training.progress import task_bars
from ..types import Images
from .features import Watch, reopen, unwatched, write_numbers
from .protocols import Attack, AttackKind

ATTACKS = ("apgd-ce", "apgd-t", "fab-t", "square")  # the attacks of AutoAttack
NORMS = {"linf": "Linf", "l2": "L2"}
TARGETS = 9  # number of target classes of the targeted attacks
ROBUST, WRONG = -1, -2
GRAY = {"linf": 0.5, "l2": 30.0}  # radii that can turn every 32 x 32 image gray, so that nothing can be recognized
NEARLY_NONE = 5.0  # percent
LABELS = {"fgsm": "FGSM", "pgd": "PGD", "autoattack": "AutoAttack"}


class PixelClassifier(nn.Module):
    """A network in the form that attacks need: from (B, C, H, W) pixels in [0, 1] to logits."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.network(images.contiguous(memory_format=torch.channels_last)).logits
        return logits


def choose_images(part: Images, settings: Attack) -> Tensor:
    """Return the indices of the images to attack within a part, ascending; the same for every network."""
    count = min(settings.images, len(part)) or len(part)
    generator = Purpose.ATTACKED_IMAGES.generator(settings.seed)
    return torch.randperm(len(part), generator=generator)[:count].sort().values


def is_correct(model: nn.Module, images: Tensor, labels: Tensor, batch: int = 250) -> Tensor:
    """Return (N,) bool: whether each image is classified correctly. The model's mode is restored."""
    with evaluation_mode(model), torch.no_grad():
        starts = range(0, len(images), batch)
        predictions = [model(images[start : start + batch]).argmax(1) for start in starts]
    return torch.cat([labels[:0], *predictions]) == labels


def fgsm(model: nn.Module, images: Tensor, labels: Tensor, settings: Attack) -> Tensor:
    """Take one step of length eps from the original images; return the (N, C, H, W) adversarial images."""
    return _perturb(model, images, labels, settings, 1, settings.eps, None)


def pgd(
    model: nn.Module, images: Tensor, labels: Tensor, settings: Attack, numbers: Sequence[int] | None = None
) -> Tensor:
    """Take `settings.steps` steps from a random point in the ball; return the (N, C, H, W) adversarial images.

    `numbers` seed the random start of each image, together with the settings' seed; by default, the index of the image.
    """
    numbers = range(len(images)) if numbers is None else numbers
    starts = [
        random_point(image[None], settings.eps, settings.norm, Purpose.ATTACK_START.generator(settings.seed, number))
        for image, number in zip(images, numbers, strict=True)
    ]
    return _perturb(model, images, labels, settings, settings.steps, settings.stride, starts)


def _perturb(
    model: nn.Module, images: Tensor, labels: Tensor, settings: Attack, steps: int, step: float,
    starts: Sequence[Tensor] | None,
) -> Tensor:  # fmt: skip
    perturbed = [images[:0]]
    with evaluation_mode(model), frozen_parameters(model):
        for first in range(0, len(images), settings.batch):
            batch = slice(first, first + settings.batch)

            def loss(pixels: Tensor, truth: Tensor = labels[batch]) -> Tensor:
                return F.cross_entropy(model(pixels), truth, reduction="sum")

            start = torch.cat(list(starts[batch])) if starts else None
            perturbed.append(
                ascend(loss, images[batch], eps=settings.eps, step=step, steps=steps, norm=settings.norm, start=start)
            )
    return torch.cat(perturbed)


@dataclass
class AttackState:
    """The progress of AutoAttack.

    `broken` (N,) is the index in `ATTACKS` of the attack that broke each image, -1 if none has so far, and -2 if the
    image was misclassified without an attack. `attack` is the current attack, and `batches` the number of its finished
    batches.
    """

    broken: Tensor
    attack: int = 0
    batches: int = 0

    @property
    def robust(self) -> Tensor:
        """(N,) bool: images that are not broken so far."""
        return self.broken == ROBUST


def autoattack(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    settings: Attack,
    *,
    state: AttackState | None = None,
    save: Callable[[AttackState], None] = lambda state: None,
    watch: Watch = unwatched,
) -> AttackState:
    """Run standard AutoAttack from `pyautoattack`, one attack and one batch at a time so that it can be resumed.

    The same images are broken as in a single call of `pyautoattack`. The model maps pixels in [0, 1] to logits; `save`
    is called with the state after every batch, and the state passed last resumes the attack.
    """
    check_pixels(images)
    if state is None:
        correct = is_correct(model, images, labels, settings.batch)
        state = AttackState(torch.where(correct.cpu(), ROBUST, WRONG))
        save(state)
    with evaluation_mode(model), frozen_parameters(model), _global_state_restored():
        attacker = _attacker(model, images, settings)
        for number in range(state.attack, len(ATTACKS)):
            state.attack = number
            attacker.attacks_to_run = [ATTACKS[number]]
            remaining = (state.robust | (state.broken == number)).nonzero().flatten()
            chunks = [remaining[first : first + settings.batch] for first in range(0, len(remaining), settings.batch)]
            for rows in chunks[state.batches :]:
                truth = labels[rows.to(labels.device)]
                _, predictions = attacker.run_standard_evaluation(
                    images[rows.to(images.device)], truth, batch_size=len(rows)
                )
                state.broken[rows[(predictions != truth).cpu()]] = number
                state.batches += 1
                save(state)
                watch(ATTACKS[number], state.batches, len(chunks))
            state.batches = 0
        state.attack = len(ATTACKS)
        save(state)
    return state


def _attacker(model: nn.Module, images: Tensor, settings: Attack) -> Any:
    try:
        from pyautoattack import AutoAttack
    except ImportError as error:
        raise OptionError(
            "AutoAttack needs the package pyautoattack: install orthogonal-projection-loss[experiments], or choose "
            "--kinds clean fgsm pgd."
        ) from error
    with torch.no_grad():
        classes = model(images[:1]).shape[1] if len(images) else TARGETS + 1
    if classes < 4:
        raise OptionError(
            f"AutoAttack's targeted loss needs at least 4 classes, but this network has {classes}: choose --kinds "
            "clean fgsm pgd."
        )
    attacker = AutoAttack(
        model, eps=settings.eps, norm=NORMS[settings.norm], seed=settings.seed, device=images.device, version="standard"
    )
    return configure(attacker, settings, classes)


def configure(attacker: Any, settings: Attack, classes: int) -> Any:
    """Apply the settings' iterations and queries to a standard `AutoAttack`, with at most `classes - 1` targets."""
    targets = min(TARGETS, classes - 1)
    attacker.apgd_targeted.n_target_classes = attacker.fab.n_target_classes = targets
    for attack in (attacker.apgd, attacker.apgd_targeted, attacker.fab):
        attack.n_iter = settings.iterations
    attacker.square.n_queries = settings.queries
    return attacker


@contextmanager
def _global_state_restored() -> Iterator[None]:
    """Restore the global random state, which the attacks seed, and Python's trace function, which they remove."""
    tracer = sys.gettrace()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        sys.settrace(tracer)


def sanity_radii(eps: float, norm: str = "linf") -> tuple[float, ...]:
    """Return the radii at which PGD is run: half of eps, eps, twice eps, and one that should leave no accuracy.

    Example:
        >>> [round(radius, 3) for radius in sanity_radii(0.1)]
        [0.05, 0.1, 0.2, 0.5]
    """
    largest = 1.0 if norm == "linf" else float("inf")  # no pixel can move farther
    return tuple(sorted({eps / 2, eps, min(largest, 2 * eps), min(largest, max(GRAY[norm], 4 * eps))}))


def suspicions(
    accuracies: Mapping[str, float], curve: Mapping[float, float], square: float, images: int, large: float
) -> list[str]:
    """Return a sentence for each result that suggests a weak attack or masked gradients.

    Numbers are accuracies in percent on the same images. Differences of up to two images or one percentage point are
    attributed to chance.

    Args:
        accuracies: by attack that was run: "clean", "fgsm", "pgd", "autoattack".
        curve: accuracy under PGD, by radius.
        square: percentage of images that Square broke after AutoAttack's white-box attacks had failed.
        images: number of attacked images.
        large: a radius that should leave no accuracy.

    Example:
        >>> suspicions({"fgsm": 20.0, "pgd": 40.0}, {}, 0.0, 500, 0.5)
        ['accuracy is 40.0 % under PGD but 20.0 % under FGSM: many steps should be stronger than one']
    """
    tolerance = max(200 / max(1, images), 1.0)
    sentences = []
    for low, high in pairwise(sorted(curve)):
        if curve[high] > curve[low] + tolerance:
            sentences.append(
                f"accuracy under PGD is {curve[high]:.1f} % at {format_radius(high)} but {curve[low]:.1f} % at "
                f"{format_radius(low)}: it should fall with the radius"
            )
    if curve.get(large, 0.0) > max(NEARLY_NONE, tolerance):
        sentences.append(
            f"accuracy under PGD is {curve[large]:.1f} % at {format_radius(large)}, where it should be nearly 0"
        )
    order = {("fgsm", "pgd"): "many steps should be stronger than one", ("pgd", "autoattack"): "it should be stronger"}
    for (weak, strong), reason in order.items():
        if weak in accuracies and strong in accuracies and accuracies[strong] > accuracies[weak] + tolerance:
            sentences.append(
                f"accuracy is {accuracies[strong]:.1f} % under {LABELS[strong]} but {accuracies[weak]:.1f} % under "
                f"{LABELS[weak]}: {reason}"
            )
    if square > tolerance:
        sentences.append(
            f"Square, which uses no gradients, broke {square:.1f} % of the images after all white-box attacks had "
            "failed on them: gradients may be masked"
        )
    return sentences


def evaluate_attacks(folder: RunFolder, settings: Sequence[Attack]) -> dict[str, Any]:
    """Return the accuracy in percent under each attack, with Wilson's 95% interval and the number of images.

    Results with the same settings are read from the folder if they exist; an interrupted AutoAttack is resumed.
    """
    fabric, recipe, model = reopen(folder)
    test = recipe.data.load(recipe.seed).test
    if not len(test):
        raise OptionError(f"{recipe.name} has no test images to attack: choose a run that holds out test images.")
    if recipe.normalize == "data":  # attacks act on pixels in [0, 1]
        model = prepend_standardize(model, *image_statistics(recipe))
    classifier = PixelClassifier(model).to(fabric.device)
    numbers: dict[str, Any] = {}
    with task_bars() as watch:
        for attack in settings:
            rows = choose_images(test, attack)
            pixels, labels = test.take(rows)
            images = pixels.to(fabric.device).float().div_(255)
            run = AttackRun(folder, classifier, images, labels.to(fabric.device), rows, attack)
            outcomes = {kind: run.outcome(kind, watch) for kind in attack.kinds}
            numbers |= {name: value for outcome in outcomes.values() for name, value in outcome["numbers"].items()}
            if attack.sanity:
                run.check(outcomes)
    return numbers


@dataclass(frozen=True)
class AttackRun:
    """One network, one set of images, one attack setting."""

    folder: RunFolder
    model: PixelClassifier
    images: Tensor
    labels: Tensor
    rows: Tensor
    settings: Attack

    def outcome(self, kind: AttackKind, watch: Watch) -> dict[str, Any]:
        """Return the measure of one attack, computed or read from the folder."""
        metric, settings = self.settings.metric(kind), to_json(self.settings.alone(kind))
        name = measure_name(metric)
        if self.folder.has_measure(name):
            content = self.folder.measure(name)
            if content["settings"] == settings:
                return content
        correct, details = self._attack(kind, name, watch)
        hits, total = int(correct.sum()), len(correct)
        low, high = wilson(hits, total)
        numbers = {
            metric: 100 * hits / total,
            f"{metric}/low": 100 * low,
            f"{metric}/high": 100 * high,
            f"{metric}/images": total,
        }
        arrays = {"each": 100 * correct.float().cpu().numpy(), "places": self.rows.numpy()}
        content = write_numbers(self.folder, metric, numbers, settings, arrays, **details)
        self.folder.drop_part(name)
        return content

    def check(self, outcomes: dict[AttackKind, dict[str, Any]]) -> None:
        """Run the sanity checks, save their results, and warn about each suspicion."""
        radii = sanity_radii(self.settings.eps, self.settings.norm)
        curve = {radius: self._accuracy_at(radius) for radius in radii}
        accuracies: dict[str, float] = {
            kind: outcome["numbers"][self.settings.metric(kind)] for kind, outcome in outcomes.items()
        }
        square = 100 * outcomes.get("autoattack", {}).get("broken by", {}).get("square", 0) / len(self.rows)
        sentences = suspicions(accuracies, curve, square, len(self.rows), max(curve))
        points = [{"eps": radius, "left": accuracy} for radius, accuracy in curve.items()]
        content = {"numbers": {}, "curve": points, "suspicions": sentences}
        self.folder.write_measure(measure_name(f"attack/sanity-{self.settings.name('pgd')}"), content, {})
        for sentence in sentences:
            warnings.warn(f"{self.folder.path}: {sentence}.", OplWarning, stacklevel=2)

    def _attack(self, kind: AttackKind, name: str, watch: Watch) -> tuple[Tensor, dict[str, Any]]:
        """Return (N,) bool, which images are still classified correctly, and further contents of the measure."""
        if kind == "autoattack":
            state = autoattack(
                self.model, self.images, self.labels, self.settings,
                state=self._load(name), save=lambda state: self._save(name, state), watch=watch,
            )  # fmt: skip
            counts = {attack: int((state.broken == number).sum()) for number, attack in enumerate(ATTACKS)}
            return state.robust, {"broken by": counts}
        correct = is_correct(self.model, self.images, self.labels, self.settings.batch)
        if kind == "clean":
            return correct, {}
        remaining = correct.nonzero().flatten()
        images, labels = self.images[remaining], self.labels[remaining]
        if kind == "fgsm":
            perturbed = fgsm(self.model, images, labels, self.settings)
        else:
            perturbed = pgd(self.model, images, labels, self.settings, self.rows[remaining.cpu()].tolist())
        correct[remaining] = is_correct(self.model, perturbed, labels, self.settings.batch)
        return correct, {}

    def _accuracy_at(self, eps: float) -> float:
        """Return the accuracy in percent under PGD at another radius."""
        correct, _ = replace(self, settings=replace(self.settings, eps=eps, step=0.0))._attack("pgd", "", unwatched)
        return 100 * float(correct.float().mean())

    def _load(self, name: str) -> AttackState | None:
        """Return the state of an interrupted AutoAttack, if it had the same settings."""
        part = self.folder.part(name)
        if part is None or str(part.get("settings")) != json.dumps(to_json(self.settings.alone("autoattack"))):
            return None
        return AttackState(torch.from_numpy(part["broken"]).long(), int(part["attack"]), int(part["batches"]))

    def _save(self, name: str, state: AttackState) -> None:
        arrays = {
            "broken": state.broken.to(torch.int8).numpy(),
            "attack": np.array(state.attack),
            "batches": np.array(state.batches),
            "settings": np.array(json.dumps(to_json(self.settings.alone("autoattack")))),
        }
        self.folder.write_part(name, arrays)
