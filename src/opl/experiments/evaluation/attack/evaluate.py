"""Attacks on a finished run: the numbers and the outcome for every image are written to the run's folder."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....errors import OplWarning, OptionError
from ...models import Standardize
from ...recipe import Recipe
from ...run_folder import RunFolder, measure_name
from ...settings import to_json
from ...statistics import wilson
from ...training.progress import Counter
from ...training.provenance import commit
from ..predict import reopen
from . import sanity
from .attacks import PixelClassifier, choose_images, fgsm, is_correct, pgd
from .autoattack import ATTACKS, AttackState, autoattack
from .settings import Attack, Kind


def evaluate_attacks(folder: RunFolder, settings: Sequence[Attack]) -> dict[str, Any]:
    """Return the accuracy in percent under each attack, with Wilson's 95% interval and the number of images.

    Results with the same settings are read from the folder if they exist; an interrupted AutoAttack is resumed.
    """
    fabric, recipe, model = reopen(folder)
    test = recipe.data.load(recipe.seed).test
    if not len(test):
        raise OptionError(f"{recipe.name} has no test images, so there is nothing to attack.")
    attacked = PixelClassifier(model, _before(recipe)).to(fabric.device)
    numbers: dict[str, Any] = {}
    with Counter() as watch:
        for each in settings:
            places = choose_images(test, each)
            pixels, labels = test.take(places)
            images = pixels.to(fabric.device).float().div_(255)
            site = AttackRun(folder, attacked, images, labels.to(fabric.device), places, each)
            outcomes = {kind: site.outcome(kind, watch) for kind in each.kinds}
            numbers |= {name: value for outcome in outcomes.values() for name, value in outcome["numbers"].items()}
            if each.sanity:
                site.check(outcomes)
    return numbers


def _before(recipe: Recipe) -> Standardize | None:
    """Return the normalization for networks that take normalized images, because attacks act on pixels in [0, 1]."""
    return Standardize(recipe.data.mean, recipe.data.std) if recipe.normalize == "data" else None


@dataclass(frozen=True)
class AttackRun:
    """One network, one set of images, one attack setting."""

    folder: RunFolder
    model: PixelClassifier
    images: Tensor
    labels: Tensor
    places: Tensor
    settings: Attack

    def outcome(self, kind: Kind, watch: Counter) -> dict[str, Any]:
        """Return the measure of one attack, computed or read from the folder."""
        name = measure_name(self.settings.metric(kind))
        if self.folder.has_measure(name):
            content = self.folder.measure(name)
            if content["settings"] == self._words(kind):
                return content
        held, more = self._attack(kind, name, watch)
        hits, total = int(held.sum()), len(held)
        low, high = wilson(hits, total)
        metric = self.settings.metric(kind)
        content = {
            "numbers": {
                metric: 100 * hits / total,
                f"{metric}/low": 100 * low,
                f"{metric}/high": 100 * high,
                f"{metric}/images": total,
            },
            "settings": self._words(kind),
            "commit": commit(),
            **more,
        }
        arrays = {"each": 100 * held.float().cpu().numpy(), "places": self.places.numpy()}
        self.folder.write_measure(name, content, arrays)
        self.folder.drop_part(name)
        return content

    def check(self, outcomes: dict[Kind, dict[str, Any]]) -> None:
        """Warn about every result that a sound attack would not show, and save the findings."""
        name = measure_name(f"attack/sanity-{self.settings.name('pgd')}")
        radii = sanity.radii(self.settings.eps, self.settings.norm)
        curve = {each: self._left(replace(self.settings, eps=each)) for each in radii}
        found: dict[str, float] = {kind: each["numbers"][self.settings.metric(kind)] for kind, each in outcomes.items()}
        square = 100 * outcomes.get("autoattack", {}).get("broken by", {}).get("square", 0) / len(self.places)
        said = sanity.suspicions(found, curve, square, len(self.places), max(curve))
        kept = [{"eps": each, "left": left} for each, left in curve.items()]
        self.folder.write_measure(name, {"numbers": {}, "curve": kept, "suspicions": said}, {})
        for sentence in said:
            warnings.warn(f"{self.folder.path}: {sentence}.", OplWarning, stacklevel=2)

    def _attack(self, kind: Kind, name: str, watch: Counter) -> tuple[Tensor, dict[str, Any]]:
        """Return (N,) bool, which images are still classified correctly, and further facts."""
        if kind == "autoattack":
            state = autoattack(
                self.model, self.images, self.labels, self.settings,
                state=self._stopped(name), save=lambda state: self._keep(name, state), watch=watch,
            )  # fmt: skip
            counts = {attack: int((state.broken == number).sum()) for number, attack in enumerate(ATTACKS)}
            return state.robust, {"broken by": counts}
        right = is_correct(self.model, self.images, self.labels, self.settings.batch)
        if kind == "clean":
            return right, {}
        alive = right.nonzero().flatten()
        images, labels = self.images[alive], self.labels[alive]
        if kind == "fgsm":
            moved = fgsm(self.model, images, labels, self.settings)
        else:
            moved = pgd(self.model, images, labels, self.settings, self.places[alive.cpu()].tolist())
        right[alive] = is_correct(self.model, moved, labels, self.settings.batch)
        return right, {}

    def _left(self, settings: Attack) -> float:
        """Return the accuracy in percent under PGD at another radius."""
        held, _ = replace(self, settings=replace(settings, step=0.0))._attack("pgd", "", Counter())
        return 100 * float(held.float().mean())

    def _words(self, kind: Kind) -> dict[str, Any]:
        """Return the settings that determine an outcome."""
        words: dict[str, Any] = to_json(self.settings.alone(kind))
        return words

    def _stopped(self, name: str) -> AttackState | None:
        """Return the state of an interrupted AutoAttack, if it had the same settings."""
        kept = self.folder.part(name)
        if kept is None or str(kept.get("settings")) != json.dumps(self._words("autoattack")):
            return None
        return AttackState(torch.from_numpy(kept["broken"]).long(), int(kept["attack"]), int(kept["batches"]))

    def _keep(self, name: str, state: AttackState) -> None:
        self.folder.write_part(
            name,
            {
                "broken": state.broken.to(torch.int8).numpy(),
                "attack": np.array(state.attack),
                "batches": np.array(state.batches),
                "settings": np.array(json.dumps(self._words("autoattack"))),
            },
        )
