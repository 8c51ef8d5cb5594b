"""Hostile files: whatever tries to run code, to read or write elsewhere, or to use up the machine."""

from . import _hostile_archives, _hostile_runs, _hostile_tables
from ._hostile_case import Case

CASES: tuple[Case, ...] = (*_hostile_tables.cases(), *_hostile_archives.cases(), *_hostile_runs.cases())
__all__ = ["CASES", "Case"]
