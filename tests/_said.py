"""What a bad call must get: its named exception, and one sentence with what was wrong."""

from collections.abc import Callable, Iterable

import pytest


def says(call: Callable[[], object], kind: type[Exception], words: Iterable[str]) -> None:
    """`call` raises `kind` with one sentence that has all of the words."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    for word in words:
        assert word in message, message
    assert "\n" not in message
    assert message.endswith(".")
