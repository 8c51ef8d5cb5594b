"""Reading files as images and labels: the reader of each layout."""

from collections.abc import Callable

from ....errors import DataError
from . import class_files, domain_files, few_shot_files, hub_files, idx
from .class_source import CLASSES
from .source import DOMAINS, DataSource, SourceReader, unreadable_error

READERS: dict[str, Callable[[DataSource, int], SourceReader]] = {
    "": hub_files.read,
    "idx": idx.read,
    DOMAINS: domain_files.read,
    CLASSES: class_files.read,
}


def read(source: DataSource, rows: int = 512) -> SourceReader:
    """Open a data set, to be read `rows` images at a time.

    Raises:
        DataError: the files cannot be read.
    """
    try:
        return READERS.get(source.layout, few_shot_files.read)(source, rows)
    except DataError:
        raise
    except Exception as error:  # any error that `datasets` or pyarrow raises for a folder
        raise unreadable_error(source, error) from error
