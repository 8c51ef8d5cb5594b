"""Seeds of everything that is drawn: a function of what it is for and of plain numbers, never of history."""

import hashlib
from enum import Enum

import torch


class Purpose(Enum):
    """What is drawn. Two purposes never share a stream of random numbers.

    The value is the number that is mixed with the seed, and on which side of it: together they are unique. They are
    part of what a seed means, so they never change.

    Example:
        >>> Purpose.ORDER.seed(0, 3) == Purpose.ORDER.seed(0, 3), Purpose.ORDER.seed(0, 3) == Purpose.AUGMENT.seed(0, 3)
        (True, False)
    """

    MODEL = ("after", 1)
    """First weights of the model."""
    OBJECTIVE = ("after", 2)
    """First values of what an objective learns."""
    ORDER = ("before", 1)
    """Order of the images in an epoch."""
    AUGMENT = ("before", 2)
    """Augmentation of a batch."""
    DROPOUT = ("before", 3)
    """Dropout and everything else inside a training step."""
    LABEL_NOISE = ("before", 4)
    """Which labels become wrong."""
    QUERY_IMAGES = ("after", 5)
    """Query images of few-shot episodes."""
    SUPPORT_VIEWS = ("after", 6)
    """Augmented views of support images."""
    SUPPORT_COPIES = ("after", 7)
    """Augmented copies of support images, drawn anew for each episode."""
    PIXEL_NOISE = ("after", 8)
    """Gaussian noise on images of episodes."""
    ATTACKED_IMAGES = ("after", 9)
    """Which test images are attacked."""
    ATTACK_START = ("after", 10)
    """Where an attack begins."""
    EPISODE = ("before", 11)
    """Classes and images of an episode."""
    DOMAIN_SPLIT = ("before", 12)
    """Held-out images of a domain."""

    def __init__(self, side: str, number: int) -> None:
        self.side, self.number = side, number

    def seed(self, seed: int, *numbers: int) -> int:
        """A seed of 63 bits for this purpose, from a seed and for instance an epoch and a step."""
        first = (self.number, seed) if self.side == "before" else (seed, self.number)
        return mix(*first, *numbers)

    def generator(self, seed: int, *numbers: int) -> torch.Generator:
        """A CPU generator with that seed."""
        return torch.Generator().manual_seed(self.seed(seed, *numbers))


def mix(*numbers: int) -> int:
    """Mix integers into a seed of 63 bits: BLAKE2b of the numbers, each as 16 bytes.

    Other numbers, another order or another count of them give an unrelated seed, without the collisions of
    `seed + epoch`. The same on every machine and in every version of Python.

    Example:
        >>> mix(0, 1) == mix(0, 1), mix(0, 1) == mix(1, 0)
        (True, False)
    """
    digest = hashlib.blake2b(b"".join(int(n).to_bytes(16, "little", signed=True) for n in numbers), digest_size=8)
    return int.from_bytes(digest.digest(), "little") >> 1
