"""One check of all fields of a settings dataclass: their types, and the ranges that stand in them."""

import math
import re
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest

from opl._ranges import Count, FolderName, Fraction, Multiple, Name, OneOf, Positive, Range, check_settings
from opl.errors import OptionError


@dataclass(frozen=True)
class Inner:
    share: Fraction = 0.5


@dataclass(frozen=True)
class Outer:
    rate: Positive = 1.0
    count: Count = 1
    word: Literal["one", "two"] = "one"
    flag: bool = False
    name: Name = "name"
    free: float = 0.0
    maybe: Positive | None = None
    widths: tuple[Count, ...] = (1, 2)
    pair: tuple[Count, Count] = (1, 2)
    inner: Inner = field(default_factory=Inner)
    inners: tuple[Inner, ...] = ()
    depth: Annotated[int, Multiple(6, 8, 2, 200)] = 8
    size: Annotated[int, OneOf((18, 34))] = 18
    half_open: Annotated[float, Range(0, 1, below=True)] = 0.0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"rate": 0.0}, "rate is 0.0 but must be a number above 0."),
        ({"rate": math.nan}, "rate is nan but must be a finite number."),
        ({"rate": math.inf}, "rate is inf but must be a finite number."),
        ({"rate": 10**400}, "must be a finite number."),
        ({"rate": True}, "rate is True but must be a number."),
        ({"rate": "1"}, "rate is '1' but must be a number."),
        ({"free": -math.inf}, "free is -inf but must be a finite number."),
        ({"count": 0}, "count is 0 but must be a whole number between 1 and 2,147,483,647."),
        ({"count": 1.0}, "count is 1.0 but must be a whole number."),
        ({"count": True}, "count is True but must be a whole number."),
        ({"count": 2**31}, "count is 2147483648 but must be a whole number between 1 and 2,147,483,647."),
        ({"word": "three"}, "word 'three' does not exist: did you mean"),
        ({"word": []}, "word [] does not exist: did you mean"),
        ({"flag": 1}, "flag is 1 but must be true or false."),
        ({"name": "../x"}, "name is '../x' but must be a word of letters"),
        ({"name": "x\0"}, "must not contain a null character"),
        ({"name": None}, "name is None but must be a word."),
        ({"maybe": -1.0}, "maybe is -1.0 but must be a number above 0."),
        ({"widths": (1, 0)}, "widths.1 is 0 but must be a whole number"),
        ({"widths": [1]}, "widths is [1] but must be a list of values."),
        ({"pair": (1, 2, 3)}, "pair has 3 values but must have 2."),
        ({"inner": Inner(1.5)}, "inner.share is 1.5 but must be a number between 0 and 1."),
        ({"inner": {"share": 1}}, "inner is {'share': 1} but must be a group of settings"),
        ({"inners": (Inner(), Inner(-1.0))}, "inners.1.share is -1.0 but must be a number between 0 and 1."),
        ({"depth": 9}, "depth is 9 but must be a whole number between 8 and 200 of the form 6n + 2, such as 8 or 14."),
        ({"size": 19}, "size is 19 but must be a whole number out of 18, 34."),
        ({"half_open": 1.0}, "half_open is 1.0 but must be a number of at least 0 and below 1."),
    ],
)
def test_a_wrong_setting_is_named_with_its_value_and_range(settings, sentence):
    with pytest.raises(OptionError, match=re.escape(sentence)):
        check_settings(Outer(**settings))


def test_nested_settings_are_named_by_their_flag():
    with pytest.raises(OptionError, match=r"^method\.share is 2 but must be a number between 0 and 1\.$"):
        check_settings(Inner(2), "method.")


def test_valid_settings_pass():
    check_settings(Outer(rate=1, maybe=0.1, widths=(), inners=(Inner(0), Inner(1)), half_open=0.999, depth=20))


@pytest.mark.parametrize("name", ["digits-opl", "a", "a.b", "x" * 200, "cifar100_resnet", "é", "-a", "a b"])
def test_ordinary_names_are_accepted_for_folders(name):
    assert FolderName().allows(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/", "\\", "a\n", "x" * 201, "C:", "\udcff", ".a", "é" * 101]
)
def test_names_that_lead_elsewhere_are_refused_for_folders(name):
    assert not FolderName().allows(name)
