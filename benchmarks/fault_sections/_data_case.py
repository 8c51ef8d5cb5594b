"""A data folder to try."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Expect = Literal["refused", "right", "same", "any"]


@dataclass(frozen=True)
class DataCase:
    """A data folder, who reads it, and what is expected of it.

    `refused`: with a sentence, or used with a warning. `right`: refused too, or used with as many images as `make`
    returns. `same`: refused too, or the same numbers as the plain folder. `any`: nothing but a sentence or a success,
    for damage that nobody can see, such as another pixel.
    """

    name: str
    reader: str
    make: Callable[[Path], object]
    expect: Expect = "refused"
    flags: tuple[str, ...] = ()
