"""CosFace vs pytorch-metric-learning."""

import pytest
from _head_vectors import SEEDS, X, Y, assert_trains_as, batch, build, call, often
from hypothesis import given
from hypothesis import strategies as st

from _said import refuses
from opl import errors
from opl.heads.cosface import CosFaceHead, cosface

pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # of pytorch-metric-learning


@often
@given(SEEDS, st.floats(0, 0.9), st.floats(0.1, 64))
def test_cosface_equals_pytorch_metric_learning(seed, margin, scale):
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    features, weight, labels = batch(seed)
    oracle = losses.CosFaceLoss(7, 3, margin=margin, scale=scale)
    assert_trains_as(oracle, cosface(features, weight, labels, scale=scale, margin=margin), features, weight, labels)


BAD = {
    "a warm-up before the start": (build(CosFaceHead, warmup=-1), errors.OptionError, ["warmup is -1", "at least 0"]),
    "no scale": (build(CosFaceHead, scale=0.0), errors.OptionError, ["scale is 0.0", "above 0"]),
    "features of another width": (
        call(CosFaceHead(6, num_classes=9), X, Y),
        errors.OptionError,
        ["5 numbers", "built for 6"],
    ),
}

test_invalid_input_is_refused_in_one_sentence = refuses(BAD)
