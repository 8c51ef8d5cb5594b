"""HNC: flattens the class activation maps of wrong classes, so that no image region supports them."""

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._kernels.normalize import full_precision
from .._kernels.validate import as_labeled_batch, check_ignore_index
from ..errors import FeatureError, OptionError, did_you_mean
from ..functional import IGNORE_INDEX
from ._reduction import Reduction, check_reduction, reduce_losses

Form = Literal["kd", "mse"]
FORMS = get_args(Form)  # a constant: torch 2.6 cannot trace get_args

K = 10
FORM: Form = "kd"


def class_activation_maps(feature_maps: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Apply a linear classifier at each position u, `M_c(u) = w_c . F(u) + b_c`; the logit is the mean over u.

    Args:
        feature_maps: (B, D, H, W), before the average pooling; computed in fp64 for fp64 maps, otherwise in fp32.
        weight: (C, D), weight of the classifier.
        bias: (C,), bias of the classifier, or None.

    Example:
        >>> classifier = nn.Linear(64, 10)
        >>> class_activation_maps(torch.randn(2, 64, 8, 8), classifier.weight, classifier.bias).shape
        torch.Size([2, 10, 8, 8])
    """
    feature_maps = _checked(feature_maps, "feature maps")
    if weight.ndim != 2 or weight.shape[1] != feature_maps.shape[1]:
        raise OptionError(
            f"weight has shape {tuple(weight.shape)} and the feature maps have {feature_maps.shape[1]} channels: pass "
            f"the weight of the classifier on these maps, (C, {feature_maps.shape[1]})."
        )
    with full_precision(feature_maps):
        kernel = weight.to(feature_maps.dtype)[:, :, None, None]
        return F.conv2d(feature_maps, kernel, None if bias is None else bias.to(feature_maps.dtype))


def negative_cam(
    maps: Tensor,
    labels: Tensor,
    *,
    k: int = K,
    form: Form = FORM,
    reduction: Reduction = "mean",
    ignore_index: int = IGNORE_INDEX,
) -> Tensor:
    """Compute HNC, the homogeneous negative CAM loss: how uneven the maps of the k strongest wrong classes are.

    Fixing Localization Errors to Improve Image Classification (Sun et al., ECCV 2020). N(i) is the set of the k wrong
    classes whose maps have the largest sums over all positions u; this selection has no gradient.

    - `"kd"`: mean over i of `sum_{c in N(i)} -1/HW sum_u log softmax_u M_c(u)`. It is invariant to adding a constant to
      a map, and has its minimum, k ln(HW), for flat maps.
    - `"mse"`: mean over i, c in N(i) and u of `M_c(u)^2`, which also pulls these logits to 0.

    Args:
        maps: (B, C, H, W), see `class_activation_maps`; computed in fp64 for fp64 maps, otherwise in fp32.
        labels: (B,) class ids.
        k: number of wrong classes per sample, at most C - 1 (larger values are reduced to that). The true class is
            never included; in the CIFAR-100 port released by OPL's authors it is, because there k = C.
        form: `"kd"` or `"mse"`.
        reduction: `"mean"` over the samples that count (0 if there are none), `"sum"` or `"none"`.
        ignore_index: rows with this label are excluded; with `reduction="none"` their value is 0.

    Example:
        >>> maps = torch.zeros(1, 3, 2, 2)
        >>> negative_cam(maps, torch.tensor([0]), k=2), negative_cam(maps, torch.tensor([0]), k=2, form="mse")
        (tensor(2.7726), tensor(0.))
    """
    _check_options(k, form)
    maps = _checked(maps, "maps")
    num_classes = maps.shape[1]
    if num_classes < 2:
        raise OptionError("maps of one class have no wrong class to choose: pass (B, C, H, W) with C of at least 2.")
    maps, labels, kept = as_labeled_batch(maps, labels, num_classes, ignore_index)
    maps = maps.flatten(2)
    strength = maps.detach().sum(2).scatter(1, labels[:, None], -torch.inf)
    negatives = strength.topk(min(k, num_classes - 1), dim=1).indices
    chosen = maps.take_along_dim(negatives[:, :, None], dim=1)
    values = chosen.square().mean((1, 2)) if form == "mse" else -F.log_softmax(chosen, dim=2).mean(2).sum(1)
    return reduce_losses(values, reduction, kept)


class NegativeCAMLoss(nn.Module):
    """Homogeneous negative CAM loss, called with maps and labels: see `negative_cam`.

    Args:
        k: number of wrong classes per sample.
        form: `"kd"` or `"mse"`.
        reduction: see `negative_cam`.
        ignore_index: see `negative_cam`.

    Example:
        >>> loss, classifier = NegativeCAMLoss(k=3), nn.Linear(64, 10)
        >>> feature_maps, labels = torch.randn(4, 64, 8, 8), torch.arange(4)
        >>> maps = class_activation_maps(feature_maps, classifier.weight, classifier.bias)
        >>> total = F.cross_entropy(maps.mean((2, 3)), labels) + 0.06 * loss(maps, labels)
    """

    def __init__(
        self, *, k: int = K, form: Form = FORM, reduction: Reduction = "mean", ignore_index: int = IGNORE_INDEX
    ) -> None:
        super().__init__()
        _check_options(k, form)
        check_reduction(reduction)
        check_ignore_index(ignore_index)
        self.reduction, self.ignore_index = reduction, ignore_index
        self.k: int = k
        self.form: Form = form

    def forward(self, maps: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of (B, C, H, W) maps."""
        return negative_cam(
            maps, labels, k=self.k, form=self.form, reduction=self.reduction, ignore_index=self.ignore_index
        )

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"k={self.k}, form={self.form!r}, reduction={self.reduction!r}"


def _checked(maps: Tensor, name: str) -> Tensor:
    """Return (B, C, H, W) maps in fp32 or fp64; raise `FeatureError` if they are invalid."""
    if not isinstance(maps, Tensor):
        raise FeatureError(f"{name} have type {type(maps).__name__}: pass a torch.Tensor of shape (B, C, H, W).")
    if not maps.is_floating_point():
        raise FeatureError(f"{name} are {maps.dtype}: pass a floating-point tensor, for instance with .float().")
    if maps.ndim != 4 or 0 in maps.shape[1:]:
        raise FeatureError(
            f"{name} have shape {tuple(maps.shape)}: pass (B, C, H, W) as they are before the average pooling, with at "
            "least one position."
        )
    return maps if maps.dtype in (torch.float32, torch.float64) else maps.float()


def _check_options(k: int, form: str) -> None:
    if not isinstance(k, int) or k < 1:
        raise OptionError(f"k is {k!r} but must be an integer of at least 1 (wrong classes per sample), such as 10.")
    if form not in FORMS:
        raise OptionError(did_you_mean("form", form, FORMS))
