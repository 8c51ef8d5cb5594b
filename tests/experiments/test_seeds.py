"""Seeds: purposes have independent random streams, and their seeds never change."""

import hashlib
from itertools import product

import numpy as np
from scipy import stats

from opl.experiments.seeds import Purpose, mix


def by_hand(*numbers: int) -> int:
    """The definition, with the integers written out."""
    data = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little") // 2


def test_seeds_of_purposes_equal_the_stored_ones():
    assert Purpose.MODEL.seed(7) == by_hand(7, 1)
    assert Purpose.OBJECTIVE.seed(7) == by_hand(7, 2)
    assert Purpose.ORDER.seed(7, 3) == by_hand(1, 7, 3)
    assert Purpose.AUGMENT.seed(7, 3, 5) == by_hand(2, 7, 3, 5)
    assert Purpose.DROPOUT.seed(7, 3, 5, 0) == by_hand(3, 7, 3, 5, 0)
    assert Purpose.LABEL_NOISE.seed(7) == by_hand(4, 7)
    assert Purpose.EPISODE.seed(7, 9) == by_hand(4, 7, 9)
    assert Purpose.ATTACK_START.seed(7, 9) == by_hand(7, 10, 9)
    assert Purpose.CROP.seed(7, 3, 5) == by_hand(12, 7, 3, 5)
    assert Purpose.FLIP.seed(7) == by_hand(13, 7)
    assert Purpose.OUTSIDE_IMAGES.seed(7) == by_hand(7, 14)


def test_purposes_are_distinct():
    assert len({*Purpose}) == len(Purpose.__members__) == 17


def test_with_one_seed_no_two_purposes_share_a_stream():
    further = {
        "MODEL": 0, "OBJECTIVE": 0, "ORDER": 1, "AUGMENT": 2, "DROPOUT": 3, "LABEL_NOISE": 0, "QUERY_IMAGES": 1,
        "SUPPORT_VIEWS": 2, "SUPPORT_COPIES": 1, "PIXEL_NOISE": 2, "ATTACKED_IMAGES": 0, "ATTACK_START": 1,
        "EPISODE": 1, "DOMAIN_SPLIT": 1, "CROP": 2, "FLIP": 0, "OUTSIDE_IMAGES": 0,
    }  # fmt: skip
    assert {*further} == {*Purpose.__members__}
    for seed in range(13):
        owner: dict[int, str] = {}
        for name, count in further.items():
            for numbers in product(range(5), repeat=count):
                mixed = Purpose[name].seed(seed, *numbers)
                assert owner.setdefault(mixed, f"{name} {numbers}") == f"{name} {numbers}"


def test_seeds_are_63_bits_that_depend_on_every_number_and_on_their_order():
    seeds = {mix(*numbers) for numbers in [(), (0,), (0, 0), (1, 0), (0, 1), (-1,), (2**70,)]}
    assert len(seeds) == 7
    many = np.array([mix(0, epoch, step) for epoch in range(40) for step in range(100)])
    assert many.min() >= 0
    assert stats.kstest(many / 2.0**63, "uniform").pvalue > 1e-3
