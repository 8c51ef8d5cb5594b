"""Random seeds as a function of their purpose and plain numbers, independent of what was drawn before."""

import hashlib
from enum import Enum

import torch


class Purpose(Enum):
    """What random numbers are used for. Under one seed, two purposes never share a random stream.

    Each purpose has a number that is mixed with the seed, before or after it. These pairs define the meaning of a
    seed and must never change.

    Example:
        >>> Purpose.ORDER.seed(0, 3) == Purpose.ORDER.seed(0, 3), Purpose.ORDER.seed(0, 3) == Purpose.AUGMENT.seed(0, 3)
        (True, False)
    """

    MODEL = ("after", 1)
    """Initial weights of the model."""
    OBJECTIVE = ("after", 2)
    """Initial values of the objective's learnable parameters."""
    ORDER = ("before", 1)
    """Order of the images in an epoch."""
    AUGMENT = ("before", 2)
    """Augmentation of a batch."""
    DROPOUT = ("before", 3)
    """Dropout and any other randomness inside a training step."""
    LABEL_NOISE = ("before", 4)
    """Which labels are corrupted."""
    QUERY_IMAGES = ("after", 5)
    """Query images of few-shot episodes."""
    SUPPORT_VIEWS = ("after", 6)
    """Augmented views of support images."""
    SUPPORT_COPIES = ("after", 7)
    """Augmented copies of support images, redrawn for each episode."""
    PIXEL_NOISE = ("after", 8)
    """Gaussian noise on the images of episodes."""
    ATTACKED_IMAGES = ("after", 9)
    """Which test images are attacked."""
    ATTACK_START = ("after", 10)
    """Random starting points of attacks."""
    EPISODE = ("before", 4)  # noqa: PIE796
    """Classes and images of an episode, whose index is mixed in: LABEL_NOISE mixes fewer numbers, so they differ."""
    DOMAIN_SPLIT = ("before", 11)
    """Held-out images of a domain."""
    CROP = ("before", 12)
    """Random crops of pictures, made while they are decoded."""
    FLIP = ("before", 13)
    """Which images are flipped in the first epoch, where flips alternate."""
    OUTSIDE_IMAGES = ("after", 14)
    """Which images of other data sets a network is tested on."""

    def __new__(cls, side: str, number: int) -> "Purpose":
        """Create a purpose with a unique value, because numbers repeat."""
        member = object.__new__(cls)
        member._value_ = len(cls.__members__)
        return member

    def __init__(self, side: str, number: int) -> None:
        self.side, self.number = side, number

    def seed(self, seed: int, *numbers: int) -> int:
        """Return a 63-bit seed for this purpose, from a seed and further numbers such as an epoch and a step."""
        first = (self.number, seed) if self.side == "before" else (seed, self.number)
        return mix(*first, *numbers)

    def generator(self, seed: int, *numbers: int) -> torch.Generator:
        """Return a CPU generator with the seed from `seed`."""
        return torch.Generator().manual_seed(self.seed(seed, *numbers))


def mix(*numbers: int) -> int:
    """Mix integers into a 63-bit seed: BLAKE2b of the numbers, each encoded as 16 bytes.

    Different numbers, a different order or a different count yield an unrelated seed, without the collisions of
    `seed + epoch`. The result is the same on every machine and Python version.

    Example:
        >>> mix(0, 1) == mix(0, 1), mix(0, 1) == mix(1, 0)
        (True, False)
    """
    digest = hashlib.blake2b(b"".join(int(n).to_bytes(16, "little", signed=True) for n in numbers), digest_size=8)
    return int.from_bytes(digest.digest(), "little") >> 1
