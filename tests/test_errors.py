"""What cannot be used is refused in one sentence that says what was wrong and what to do."""

import torch

import opl
from _said import refuses
from opl import errors

X, Y = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
NAN, INF = X.clone(), X.clone()
NAN[1, 2], INF[0, 0] = float("nan"), float("-inf")
BELOW = torch.tensor([[1.5, -0.5]] + [[0.5, 0.5]] * 3)


def loss(*arguments, **options):
    return lambda: opl.orthogonal_projection(*arguments, **options)


TABLE = {
    "features of one dimension": (loss(X[0], Y), errors.FeatureError, ["(3,)", "(B, D)"]),
    "a feature map": (loss(torch.randn(4, 3, 8, 8), Y), errors.FeatureError, ["(4, 3, 8, 8)", "mean((2, 3))"]),
    "a sequence of tokens": (loss(torch.randn(4, 9, 3), Y), errors.FeatureError, ["(4, 9, 3)", "pool"]),
    "features without numbers": (loss(torch.randn(4, 0), Y), errors.FeatureError, ["(4, 0)"]),
    "integer features": (loss(torch.ones(4, 3, dtype=torch.int64), Y), errors.FeatureError, ["int64", "float()"]),
    "features that are no tensor": (loss([[1.0]], Y), errors.FeatureError, ["list", "torch.Tensor"]),
    "a NaN feature": (loss(NAN, Y), errors.FeatureError, ["NaN", "learning rate"]),
    "an infinite feature": (loss(INF, Y), errors.FeatureError, ["infinite", "learning rate"]),
    "too few labels": (loss(X, Y[:3]), errors.LabelError, ["3 labels for 4 features"]),
    "float class ids": (loss(X, Y.float()), errors.LabelError, ["float32", "labels.long()"]),
    "a column of float class ids": (loss(X, Y[:, None].float()), errors.LabelError, ["(4, 1)", "labels.long()"]),
    "labels of three dimensions": (loss(X, torch.zeros(4, 2, 2)), errors.LabelError, ["(4, 2, 2)"]),
    "complex labels": (loss(X, Y.to(torch.complex64)), errors.LabelError, ["complex64"]),
    "labels that are no tensor": (loss(X, [0, 1, 0, 1]), errors.LabelError, ["list", "torch.Tensor"]),
    "a negative label": (
        loss(X, torch.tensor([0, -1, 0, 1])),
        errors.LabelError,
        ["label -1", "(-100)", "pass ignore_index=-1."],
    ),
    "another ignore_index": (loss(X, torch.tensor([0, -100, 1, 1]), ignore_index=-1), errors.LabelError, ["-100"]),
    "a negative soft label": (loss(X, BELOW), errors.LabelError, ["row 0", "-0.5", "must not be negative"]),
    "labels elsewhere": (loss(X, Y.to("meta")), errors.LabelError, ["meta", "labels.to(features.device)"]),
    "an unknown form": (loss(X, Y, form="abs-mean"), errors.OptionError, ["'abs-mean'", "did you mean 'abs_mean'"]),
    "gamma not finite": (loss(X, Y, gamma=float("nan")), errors.OptionError, ["gamma", "0.5"]),
    "gamma no number": (loss(X, Y, gamma="0.5"), errors.OptionError, ["gamma", "'0.5'"]),
    "gamma a truth value": (loss(X, Y, gamma=True), errors.OptionError, ["gamma", "True"]),
    "ignore_index no integer": (loss(X, Y, ignore_index=1.5), errors.OptionError, ["ignore_index", "1.5"]),
    "an unknown algorithm": (loss(X, Y, algorithm="tile"), errors.OptionError, ["'tile'", "did you mean 'tiled'"]),
    "class sums of signed features": (
        loss(X, Y, algorithm="class_sums"),
        errors.OptionError,
        ["negative", "algorithm='auto'"],
    ),
    "class sums of few soft rows": (
        loss(X.abs(), torch.rand(4, 9).softmax(1), algorithm="class_sums"),
        errors.OptionError,
        ["fewer than two rows per class", "algorithm='auto'"],
    ),
    "module with an unknown form": (lambda: opl.OrthogonalProjectionLoss(form="x"), errors.OptionError, ["'x'"]),
    "global batch alone": (
        lambda: opl.OrthogonalProjectionLoss(global_batch=True)(X, Y),
        errors.DistributedError,
        ["init_process_group", "global_batch=False"],
    ),
    "a group alone": (loss(X, Y, group="world"), errors.DistributedError, ["init_process_group", "torchrun"]),
    "a name that opl does not have": (lambda: opl.regularise, AttributeError, ["regularise", "regularize"]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(TABLE)


def test_every_error_is_an_opl_error_and_a_value_error():
    for name in ("FeatureError", "LabelError", "OptionError"):
        assert issubclass(getattr(errors, name), errors.OplError)
        assert issubclass(getattr(errors, name), ValueError)
