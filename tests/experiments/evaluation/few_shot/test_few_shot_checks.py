"""Supports, labels, queries and options that no classifier of episodes can use."""

import pytest
import torch
from _classifier_episodes import ALL, episodes

from opl import errors
from opl.experiments.evaluation.few_shot.classifiers import (
    CLASSIFIERS,
    logistic,
    nearest,
    prototypes,
    ridge,
    sklearn_logistic,
)

X, Y, Q, _ = episodes(count=2, way=3, shots=1, queries=1)
NAN, TOP = X.clone(), X.clone()
NAN[1, 2, 0], TOP[0, 0, 0] = float("nan"), float("inf")
BAD = {
    "a label too many": ((X, Y + 1, Q, 3), errors.LabelError, ["label 3", "(0 to 2)"]),
    "a negative label": ((X, Y - 1, Q, 3), errors.LabelError, ["label -1"]),
    "a class that is not there": ((X, Y, Q, 4), errors.LabelError, ["class 3", "episode 0"]),
    "one not in the second": ((X, torch.tensor([[0, 1, 2], [0, 0, 2]]), Q, 3), errors.LabelError, ["1", "episode 1"]),
    "float labels": ((X, Y.float(), Q, 3), errors.LabelError, ["torch.float32", "labels.long()"]),
    "a list of labels": ((X, [0, 1, 2], Q, 3), errors.LabelError, ["list"]),
    "too few labels": ((X, Y[:2], Q, 3), errors.LabelError, ["(2,)", "(3,) or (2, 3)"]),
    "labels of other episodes": ((X, Y.expand(3, 3), Q, 3), errors.LabelError, ["(3, 3)", "(3,) or (2, 3)"]),
    "one class": ((X, Y, Q, 1), errors.OptionError, ["way is 1", "at least 2"]),
    "one episode": ((X[0], Y, Q[0], 3), errors.FeatureError, ["(3, 24)", "support[None]"]),
    "queries of one episode": ((X, Y, Q[0], 3), errors.FeatureError, ["(3, 24)", "queries[None]"]),
    "queries of other episodes": ((X, Y, Q[:1], 3), errors.FeatureError, ["(1, 3, 24)", "same episodes"]),
    "shorter queries": ((X, Y, Q[..., :5], 3), errors.FeatureError, ["(2, 3, 5)", "as many numbers"]),
    "features of nothing": ((X[..., :0], Y, Q[..., :0], 3), errors.FeatureError, ["(2, 3, 0)"]),
    "integer features": ((X.long(), Y, Q, 3), errors.FeatureError, ["torch.int64", "support.float()"]),
    "an array": ((X.numpy(), Y, Q, 3), errors.FeatureError, ["ndarray", "torch.Tensor"]),
    "no number in the support": ((NAN, Y, Q, 3), errors.FeatureError, ["the support", "not finite"]),
    "infinity in the support": ((TOP, Y, Q, 3), errors.FeatureError, ["the support", "not finite"]),
    "no number in the queries": ((X, Y, NAN, 3), errors.FeatureError, ["the queries", "not finite"]),
}


@ALL
@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_gets_its_sentence(name, case):
    given, kind, words = BAD[case]
    threads = torch.get_num_threads()
    with pytest.raises(kind) as caught:
        CLASSIFIERS[name](*given)
    for word in words:
        assert word in str(caught.value), caught.value
    assert str(caught.value).endswith(".")
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("classify", [logistic, ridge, nearest, prototypes])
def test_features_too_large_to_multiply_get_their_sentence(classify):
    with pytest.raises(errors.FeatureError, match="too large"):
        classify(X.float() * 1e30, Y, Q.float() * 1e30, 3)


@pytest.mark.parametrize(
    ("classify", "options"),
    [(logistic, {"C": 0.0}), (logistic, {"tol": -1.0}), (ridge, {"alpha": 0.0}), (sklearn_logistic, {"C": -2.0})],
)
def test_options_that_mean_nothing_are_refused(classify, options):
    (name, value), *_ = options.items()
    with pytest.raises(errors.OptionError, match=f"{name} is {value}: give a finite number above 0"):
        classify(X, Y, Q, 3, **options)
