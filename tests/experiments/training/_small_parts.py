"""The digits with as few images as a test wants, and a run that something happens to at a step."""

import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest import mock

from opl.experiments import paper
from opl.experiments.data import Digits
from opl.experiments.recipe import Recipe
from opl.experiments.training.progress import Progress


@dataclass(frozen=True)
class FewDigits(Digits):
    """The digits, cut down to some images of each part."""

    train_images: int = 5
    val_images: int = 1
    test_images: int = 1

    def load(self, seed):
        splits = super().load(seed)
        wanted = {"train": self.train_images, "val": self.val_images, "test": self.test_images}
        source = {"train": splits.train, "val": splits.test, "test": splits.test}
        return splits._replace(
            **{part: replace(source[part], rows=source[part].rows[:count]) for part, count in wanted.items()}
        )


def few(train: int, val: int = 0, test: int = 0, **changes) -> Recipe:
    settings = {"epochs": 1, "batch_size": 4, "data": FewDigits(train_images=train, val_images=val, test_images=test)}
    return replace(paper.recipe("digits-opl", "small"), **{**settings, **changes})


@contextmanager
def at_step(epoch: int, step: int, act):
    """Call `act` after a step of the runs inside the block."""
    real = Progress.step

    def patched(bar, at, number, images, loss):
        real(bar, at, number, images, loss)
        if (at, number) == (epoch, step):
            act()

    with mock.patch.object(Progress, "step", patched):
        yield


def send(signum: int):
    return lambda: os.kill(os.getpid(), signum)


TERM = send(signal.SIGTERM)
