"""The digits of scikit-learn."""

import numpy as np
import pytest
import torch

from opl.experiments.data import Digits

pytestmark = pytest.mark.usefixtures("apart")


def test_digits_are_scikit_learns_half_for_testing():
    from sklearn.datasets import load_digits

    splits, raw = Digits().load(0), load_digits()
    assert (len(splits.train), len(splits.val), len(splits.test)) == (899, 0, 898)
    everything = torch.cat([splits.train.rows, splits.test.rows])
    assert torch.equal(everything.sort().values, torch.arange(1797))
    np.testing.assert_array_equal(splits.train.pixels[:, 0].numpy(), np.rint(raw.images * 255 / 16))
    shares = splits.test.labels[splits.test.rows].bincount() / torch.from_numpy(raw.target).bincount()
    assert (shares - 0.5).abs().max() < 0.005
    floats = splits.train.pixels / 255
    assert (float(floats.mean()), float(floats.std())) == pytest.approx((*Digits.mean, *Digits.std), abs=1e-4)
    assert torch.equal(Digits().load(1).test.rows, splits.test.rows)
    assert len(Digits(val=99).load(0).val) == 99
