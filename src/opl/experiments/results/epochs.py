"""The records of a run's epochs, a column for each number: a million of them take 60 MB, as dicts 1 GB."""

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class EpochRecords(Sequence[dict[str, float]]):
    """The numbers of `metrics.jsonl`: record n is that of epoch n. What is not a number is left out.

    Example:
        >>> records = EpochRecords([{"epoch": 0, "s": 0.5}, {"epoch": 1, "s": 0.75, "val/top1": 60}])
        >>> len(records), records[0], records.column("val/top1").tolist()
        (2, {'epoch': 0.0, 's': 0.5}, [nan, 60.0])
    """

    def __init__(self, records: Iterable[dict[str, Any]] = ()) -> None:
        self._columns: dict[str, array[float]] = {}
        self._size = 0
        for record in records:
            for name, value in record.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    self._add(name, value)
            self._size += 1

    def _add(self, name: str, value: float) -> None:
        """Add the value of the present epoch to a column, after NaN for all epochs that do not have it."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = array("d")
        if len(column) < self._size:
            column.extend([math.nan] * (self._size - len(column)))
        try:
            column.append(value)
        except OverflowError:  # an integer that no float holds
            column.append(math.nan)

    def column(self, name: str) -> "NDArray[np.float64]":
        """The value of every epoch; NaN where an epoch has none."""
        import numpy as np

        found = np.full(self._size, np.nan)
        stored = self._columns.get(name, ())
        found[: len(stored)] = stored
        return found

    def total(self, name: str) -> float:
        """The sum of a number over all epochs, without what is not finite."""
        return math.fsum(value for value in self._columns.get(name, ()) if math.isfinite(value))

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, place: int) -> dict[str, float]: ...
    @overload
    def __getitem__(self, place: slice) -> list[dict[str, float]]: ...
    def __getitem__(self, place: int | slice) -> dict[str, float] | list[dict[str, float]]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(self._size))]
        epoch = range(self._size)[place]
        values = {name: column[epoch] for name, column in self._columns.items() if epoch < len(column)}
        return {name: value for name, value in values.items() if not math.isnan(value)}
