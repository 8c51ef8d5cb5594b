"""What an invalid call must get: a named exception, and one sentence with the cause and the cure."""

from collections.abc import Callable, Iterable

import pytest


def says(call: Callable[[], object], kind: type[Exception], words: Iterable[str]) -> None:
    """Assert that `call` raises `kind` with one sentence that contains all `words`."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    for word in words:
        assert word in message, message
    assert "\n" not in message
    assert message.endswith(".")


def refuses(table: dict[str, tuple[Callable[[], object], type[Exception], Iterable[str]]]) -> Callable[[str], None]:
    """Make a test that checks each entry of a table with `says`."""

    @pytest.mark.parametrize("case", table)
    def test(case: str) -> None:
        says(*table[case])

    return test
