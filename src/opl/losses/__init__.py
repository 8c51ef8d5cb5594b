"""Losses, one file each: the formula as a pure function, then its thin module."""

from .projection import OrthogonalProjectionLoss

__all__ = ["OrthogonalProjectionLoss"]
