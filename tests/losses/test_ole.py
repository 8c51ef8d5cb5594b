"""OLE vs the nuclear norms of numpy and the gradient of autograd."""

import numpy as np
import pytest
import torch

from _loss_features import X, Y, batch, gradient_of
from _said import refuses
from opl import errors
from opl.losses.ole import OLELoss, ole


def ole_by_numpy(features, labels, delta=1.0):
    classes = [features[labels == c] for c in labels.unique()]
    norms = [np.linalg.norm(rows.numpy(), ord="nuc") for rows in classes]
    whole = np.linalg.norm(features.numpy(), ord="nuc")
    return (sum(max(delta, norm) for norm in norms) - whole) / len(features)


def ole_by_autograd(features, labels, delta=1.0):
    classes = [torch.linalg.svdvals(features[labels == c]).sum() for c in labels.unique()]
    return (sum(norm.clamp(min=delta) for norm in classes) - torch.linalg.svdvals(features).sum()) / len(features)


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, 2, 0, 1, 2, 0, 1, 2, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [7] * 10,
        [900, 3, 3, 5, 5, 3, 8, 3, 1, 3],
        [0] * 8 + [1, 2],
    ],
    ids=["even", "singletons", "one class", "mixed", "skewed"],
)
@pytest.mark.parametrize("dim", [4, 12])
def test_ole_is_the_nuclear_norms_of_the_classes_less_that_of_the_batch(labels, dim):
    features, labels = torch.randn(10, dim, dtype=torch.float64), torch.tensor(labels)
    for delta in (0.0, 1.0, 4.0):
        assert ole(features, labels, delta=delta).item() == pytest.approx(
            ole_by_numpy(features, labels, delta), abs=1e-12
        )
    if dim == 12:  # all singular values are there, so the derivative is one and autograd finds it
        torch.testing.assert_close(
            gradient_of(lambda x: ole(x, labels), features), gradient_of(lambda x: ole_by_autograd(x, labels), features)
        )
        assert torch.autograd.gradcheck(lambda x: ole(x, labels), features.requires_grad_())


def test_a_class_smaller_than_delta_is_pulled_by_the_batch_only():
    features, labels = batch(6)
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    whole = gradient_of(lambda x: -torch.linalg.svdvals(x).sum() / 6, features)
    torch.testing.assert_close(gradient_of(lambda x: ole(x, labels, delta=1e3), features), whole)
    features[labels != 1] *= 1e-3  # now class 1 alone is large enough
    pulled = gradient_of(lambda x: ole(x, labels), features)
    whole = gradient_of(lambda x: -torch.linalg.svdvals(x).sum() / 6, features)
    torch.testing.assert_close(pulled[labels != 1], whole[labels != 1])
    assert not torch.allclose(pulled[labels == 1], whole[labels == 1])


def test_a_weight_multiplies_ole_and_its_gradient():
    features, labels = batch()
    once = gradient_of(lambda x: ole(x, labels), features)
    torch.testing.assert_close(gradient_of(lambda x: 2 * ole(x, labels), features), 2 * once)
    torch.testing.assert_close(gradient_of(lambda x: -0.25 * OLELoss()(x, labels), features), -0.25 * once)


def test_directions_without_a_feature_get_no_gradient_as_they_would_from_autograd():
    features, labels = batch(6, 4)
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    features[1] = features[0]  # class 0 has rank 1
    features[:, 3] = 0  # and nobody uses the last number
    ours = gradient_of(lambda x: ole(x, labels), features)
    naive = gradient_of(lambda x: ole_by_autograd(x, labels), features)
    torch.testing.assert_close(ours[:, 3], torch.zeros(6, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(ours[0], ours[1])
    assert naive[:, 3].abs().max() > 0.01
    assert not torch.allclose(naive[0], naive[1], atol=0.01)


def test_a_sample_shorter_than_the_threshold_counts_as_none_in_the_gradient():
    features = torch.diag(torch.tensor([1e-7, 1e-5, 1.0, 1.0], dtype=torch.float64))
    gradient = gradient_of(lambda x: ole(x, torch.tensor([0, 1, 2, 2]), delta=1e-3), features)
    assert not gradient[0].any()
    torch.testing.assert_close(gradient[1], torch.tensor([0.0, -0.25, 0.0, 0.0], dtype=torch.float64))
    assert not gradient_of(lambda x: ole(x, torch.tensor([0, 1, 2, 2]), delta=0.0), features)[0].any()


def test_ole_refuses_a_second_derivative():
    features, labels = batch()
    (gradient,) = torch.autograd.grad(ole(features.requires_grad_(), labels), features, create_graph=True)
    with pytest.raises(errors.DerivativeError, match="first derivative only"):
        gradient.sum().backward()


NAN = X.clone()
NAN[1, 2] = float("nan")
TABLE = {
    "delta below 0": (lambda: OLELoss(delta=-1), errors.OptionError, ["delta is -1", "at least 0"]),
    "threshold 0": (lambda: ole(X, Y, threshold=0.0), errors.OptionError, ["threshold is 0.0", "above 0"]),
    "a NaN feature": (lambda: ole(NAN, Y), errors.FeatureError, ["NaN", "learning rate"]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(TABLE)
