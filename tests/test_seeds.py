"""Seeds: what is drawn for one purpose says nothing about another, and a purpose keeps its seeds for ever."""

import hashlib
from itertools import product

from opl.experiments.seeds import Purpose


def by_hand(*numbers: int) -> int:
    """The definition, with the integers written out."""
    data = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little") // 2


def test_purposes_have_the_seeds_that_results_were_made_with():
    assert Purpose.MODEL.seed(7) == by_hand(7, 1)
    assert Purpose.OBJECTIVE.seed(7) == by_hand(7, 2)
    assert Purpose.ORDER.seed(7, 3) == by_hand(1, 7, 3)
    assert Purpose.AUGMENT.seed(7, 3, 5) == by_hand(2, 7, 3, 5)
    assert Purpose.DROPOUT.seed(7, 3, 5, 0) == by_hand(3, 7, 3, 5, 0)
    assert Purpose.LABEL_NOISE.seed(7) == by_hand(4, 7)
    assert Purpose.EPISODE.seed(7, 9) == by_hand(4, 7, 9)
    assert Purpose.ATTACK_START.seed(7, 9) == by_hand(7, 10, 9)


def test_no_two_purposes_are_one():
    assert len({*Purpose}) == len(Purpose.__members__) == 14


def test_as_they_are_used_no_two_purposes_ever_share_a_seed():
    further = {
        "MODEL": 0, "OBJECTIVE": 0, "ORDER": 1, "AUGMENT": 2, "DROPOUT": 3, "LABEL_NOISE": 0, "QUERY_IMAGES": 1,
        "SUPPORT_VIEWS": 2, "SUPPORT_COPIES": 1, "PIXEL_NOISE": 2, "ATTACKED_IMAGES": 0, "ATTACK_START": 1,
        "EPISODE": 1, "DOMAIN_SPLIT": 1,
    }  # fmt: skip
    assert {*further} == {*Purpose.__members__}
    owner: dict[int, str] = {}
    for name, count in further.items():
        for numbers in product(range(13), *[range(5)] * count):
            seed = Purpose[name].seed(*numbers)
            assert owner.setdefault(seed, f"{name} {numbers}") == f"{name} {numbers}"
