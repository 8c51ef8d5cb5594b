"""Standard AutoAttack from `pyautoattack`, run one attack and one batch at a time so that it can be resumed.

The attack that broke each image is saved after every batch.
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
TARGETS = 9  # number of target classes of the targeted attacks
ROBUST, WRONG = -1, -2


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
    watch: Watch = lambda what, done, of: None,
) -> AttackState:
    """Run all attacks; the same images are broken as in a single call of `pyautoattack`.

    Args:
        model: maps (B, C, H, W) pixels in [0, 1] to (B, classes) logits.
        images: (N, C, H, W), on the model's device.
        labels: (N,).
        settings: radius, norm, batch size, seed, and the lengths that may differ from the standard.
        state: the state last passed to `save`, to resume from.
        save: called with the state after every batch.
        watch: called with the name of the attack, the number of finished batches, and their total number.
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
    """(B,) bool: images of a batch that are still classified correctly after one attack."""
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
    """Apply the settings' iterations and queries to a standard `AutoAttack`, with at most `classes - 1` targets."""
    targets = min(TARGETS, classes - 1)
    attacker.apgd_targeted.n_target_classes = attacker.fab.n_target_classes = targets
    for part in (attacker.apgd, attacker.apgd_targeted, attacker.fab):
        part.n_iter = settings.iterations
    attacker.square.n_queries = settings.queries
    return attacker


@contextmanager
def _apart() -> Iterator[None]:
    """Restore the global random state, which the attacks seed, and Python's trace function, which they remove."""
    tracer = sys.gettrace()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        sys.settrace(tracer)
