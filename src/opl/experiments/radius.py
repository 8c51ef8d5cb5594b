"""The radius of an attack: parsing, formatting and validation. Does not import torch."""

from ..errors import OptionError


def check_radius(eps: float, norm: str) -> None:
    """Refuse a radius above the range of pixels: 8 is often written where 8/255 is meant."""
    if norm == "linf" and eps > 1:
        raise OptionError(f"eps is {eps:g}, but pixels range from 0 to 1: use a fraction, such as {eps:g}/255.")


def format_radius(eps: float) -> str:
    """Format a radius, as a fraction of 255 if it is a whole number of 255ths.

    Example:
        >>> format_radius(8 / 255), format_radius(0.031)
        ('8/255', '0.031')
    """
    parts = round(eps * 255)
    return f"{parts}/255" if parts and abs(eps * 255 - parts) < 1e-6 else f"{eps:g}"


def parse_radius(text: str) -> float:
    """Parse a radius from the command line, such as `8/255` or `0.031`.

    Example:
        >>> parse_radius("8/255") == 8 / 255, parse_radius("0.031")
        (True, 0.031)
    """
    try:
        top, _, bottom = text.partition("/")
        return float(top) / float(bottom or 1)
    except (ValueError, ZeroDivisionError) as error:
        raise OptionError(f"eps is {text!r}: use a number or a fraction, such as 0.031 or 8/255.") from error
