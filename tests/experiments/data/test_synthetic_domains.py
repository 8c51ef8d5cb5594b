"""Synthetic data with domains."""

import pytest

from opl.errors import OptionError
from opl.experiments.data import SyntheticDomains


@pytest.mark.parametrize("target", ["art_painting", "cartoon", "photo", "sketch"])
def test_made_up_domains_leave_their_target_out(target):
    splits = SyntheticDomains(target=target).load(0)
    assert [len(part) for part in splits[:3]] == [3 * 42, 3 * 14, 56]
    number = splits.domain_names.index(target)
    assert (splits.test.domains[splits.test.rows] == number).all()
    for part in (splits.train, splits.val):
        assert (part.domains[part.rows] != number).all()
        assert set(part.labels[part.rows].tolist()) == set(range(7))
    with pytest.raises(OptionError, match="domain 'paint' does not exist"):
        SyntheticDomains(target="paint").load(0)
