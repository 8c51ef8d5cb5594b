"""Radii of attacks, read and spelled."""

import pytest

from opl.errors import OptionError
from opl.experiments.radius import format_radius, parse_radius


def test_radii_are_read_and_spelled_as_people_write_them():
    assert parse_radius("8/255") == 8 / 255
    assert parse_radius("0.031") == 0.031
    assert (format_radius(8 / 255), format_radius(0.031), format_radius(1 / 1000)) == ("8/255", "0.031", "0.001")
    for word in ("eight", "8/0", "", "8/255/2"):
        with pytest.raises(OptionError, match="8/255"):
            parse_radius(word)
