"""The standard AutoAttack by `pyautoattack`, one attack and one batch at a time, so that it can be stopped and gone on
with: which attack broke each image is told after every batch.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ....errors import OptionError
from ...methods.ascent import check_pixels
from ...models.modes import evaluation_mode, frozen_parameters
from .attacks import Watch, is_correct
from .settings import Attack

ATTACKS = ("apgd-ce", "apgd-t", "fab-t", "square")
NORMS = {"linf": "Linf", "l2": "L2"}
TARGETS = 9  # classes that the targeted attacks try for
ROBUST, WRONG = -1, -2


@dataclass
class AttackState:
    """How far an attack is.

    `broken` (N,) tells for each image which of `ATTACKS` broke it, -1 none so far, -2 none was needed. `attack` and
    `batches` are the attack that is under way and how many of its batches are done.
    """

    broken: Tensor
    attack: int = 0
    batches: int = 0

    @property
    def robust(self) -> Tensor:
        """(N,) bool: not broken so far."""
        return self.broken == ROBUST


def autoattack(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    settings: Attack,
    *,
    state: AttackState | None = None,
    save: Callable[[AttackState], None] = lambda state: None,
    watch: Watch = lambda what, done, of: None,
) -> AttackState:
    """Attack until nothing is left to try; the same images fall as in one call of `pyautoattack`.

    Args:
        model: from (B, C, H, W) pixels in [0, 1] to (B, classes) logits.
        images: (N, C, H, W), on the model's device.
        labels: (N,).
        settings: radius, norm, batch, seed, and what may differ from the standard.
        state: what `save` was last given, to go on from there.
        save: told after every batch.
        watch: told what is done, how much of it, and of how much.
    """
    check_pixels(images)
    if state is None:
        right = is_correct(model, images, labels, settings.batch)
        state = AttackState(torch.where(right.cpu(), ROBUST, WRONG))
        save(state)
    with evaluation_mode(model), frozen_parameters(model), _apart():
        attacker = _attacker(model, images, settings)
        for number in range(state.attack, len(ATTACKS)):
            state.attack = number
            alive = (state.robust | (state.broken == number)).nonzero().flatten()
            portions = [alive[first : first + settings.batch] for first in range(0, len(alive), settings.batch)]
            for rows in portions[state.batches :]:
                held = _holds(attacker, ATTACKS[number], images[rows.to(images.device)], labels[rows.to(labels.device)])
                state.broken[rows[~held]] = number
                state.batches += 1
                save(state)
                watch(ATTACKS[number], state.batches, len(portions))
            state.batches = 0
        state.attack = len(ATTACKS)
        save(state)
    return state


def _holds(attacker: Any, attack: str, images: Tensor, labels: Tensor) -> Tensor:
    """(B,) bool: which images one attack on one batch leaves right."""
    attacker.attacks_to_run = [attack]
    _, answers = attacker.run_standard_evaluation(images, labels, batch_size=len(images))
    held: Tensor = (answers == labels).cpu()
    return held


def _attacker(model: nn.Module, images: Tensor, settings: Attack) -> Any:
    try:
        from pyautoattack import AutoAttack
    except ImportError as error:
        raise OptionError(
            "AutoAttack needs the package pyautoattack: install orthogonal-projection-loss[experiments], or leave it "
            "out with --kinds clean fgsm pgd."
        ) from error
    with torch.no_grad():
        classes = model(images[:1]).shape[1] if len(images) else TARGETS + 1
    if classes < 4:
        raise OptionError(
            f"AutoAttack's targeted loss needs at least 4 classes, and this network has {classes}: take --kinds clean "
            "fgsm pgd."
        )
    attacker = AutoAttack(
        model, eps=settings.eps, norm=NORMS[settings.norm], seed=settings.seed, device=images.device, version="standard"
    )
    return configure(attacker, settings, classes)


def configure(attacker: Any, settings: Attack, classes: int) -> Any:
    """A `pyautoattack.AutoAttack` of the standard version with the settings' lengths, and no more targets than there
    are."""
    targets = min(TARGETS, classes - 1)
    attacker.apgd_targeted.n_target_classes = attacker.fab.n_target_classes = targets
    for part in (attacker.apgd, attacker.apgd_targeted, attacker.fab):
        part.n_iter = settings.iterations
    attacker.square.n_queries = settings.queries
    return attacker


@contextmanager
def _apart() -> Iterator[None]:
    """The attacks seed the global generator and take Python's tracer away: both come back."""
    tracer = sys.gettrace()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        sys.settrace(tracer)
