"""One pass of images through a model: accuracies, loss, feature geometry, and the predictions behind them."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from ..._kernels.class_sums import closest
from ...errors import FeatureError, LabelError
from ...functional import gamma_needed, orthogonal_projection
from ...geometry import Geometry, Reliability, failure_detection, neighbors, retrieval
from ...losses.projection import ONE_SIGN
from ..data.batches import Batches
from ..data.split import stratified_rows
from ..models.modes import evaluation_mode, unwrap
from ..recipe import Recipe
from ..types import Batch, Images
from .build import batches

EVAL_BATCH = 500
FEATURE_ROWS = 10_000
NEIGHBOR_ROWS = 5_000  # training images that nearest neighbors are chosen from
PICTURE_BYTES, PICTURES, PICTURE_SIDE = 600_000, 300, 64  # of test images kept for galleries


class Validation(NamedTuple):
    """The result of a pass; both dictionaries are empty if there were no images.

    `numbers` has `top1`, `top5` and `balanced` (the mean over classes of their top-1) in percent, `loss`, and of the
    features `s`, `d` (the mean |cosine| over pairs of different classes, which OPL penalizes by default), `d_signed`
    (the mean cosine over them, equal to `d` if no feature is negative), `orthogonality` and `expected_orthogonality`,
    the largest `class_cosine` of two class means, and, where the rule applies, `gamma_needed` to lower d. If
    predictions are kept, also the measures of `opl.geometry`: `recall_at_1`, `map_at_r`, `r_precision` and
    `failure_auroc` in percent, `nc1`, `effective_rank`, `mean_class_cosine`, `ece`, `mce`, `nll` and `brier`; those
    that are undefined for the images are omitted.
    `arrays` has NumPy arrays with one row per image in the order of the batches: `labels` (N,), `top5` (N, 5) class ids
    and `p5` their probabilities, `features` of at most 10,000 images with their `feature_rows`, a stratified sample,
    and also `similarity` (C, C), the cosines between the mean features of the classes, 0 for classes without images.
    With several processes, only the first has the arrays.
    """

    numbers: dict[str, float]
    arrays: dict[str, Any]


@torch.no_grad()
def validate(
    model: nn.Module,
    batches: Iterable[Batch],
    num_classes: int,
    *,
    group: Any = None,
    keep: bool = False,
    novel: bool = False,
) -> Validation:
    """Pass images through a model once, in evaluation mode; its mode is restored.

    Args:
        model: returns `Output`.
        batches: this process's shard of the images.
        num_classes: number of classes of the images.
        group: the process group to reduce over, if there are several processes.
        keep: whether to keep the predictions; otherwise `arrays` is empty.
        novel: whether the classes are not those of the model, so that accuracy and loss are undefined.
    """
    sums = torch.zeros(4, dtype=torch.float64)  # top-1 hits, top-5 hits, cross-entropies, images
    by_class = torch.zeros(2, num_classes, dtype=torch.float64)  # top-1 hits, images
    rows: dict[str, list[Tensor]] = {"labels": [], "top5": [], "p5": [], "features": []}
    geometry: Geometry | None = None
    sample, reliability = FeatureSample(), Reliability()
    with evaluation_mode(model):
        for batch in batches:
            features, logits = model(batch.images)
            logits, labels = logits.float(), batch.labels
            top5 = logits.topk(min(5, logits.shape[1]), dim=1).indices
            if not novel:
                hits = top5 == labels[:, None]
                entropy = F.cross_entropy(logits, labels, reduction="sum")
                counted = [hits[:, 0].sum(), hits.any(1).sum(), entropy, labels.new_tensor(len(hits))]
                sums += torch.stack(counted).cpu()
                right = labels[hits[:, 0]]
                by_class += torch.stack([values.cpu().bincount(minlength=num_classes) for values in (right, labels)])
            geometry = geometry or Geometry(features.shape[1], num_classes=num_classes, moments=keep)
            geometry.update(features, labels)
            sample.add(features, labels)
            if keep and not novel:
                with suppress(FeatureError):  # infinite logits
                    reliability.update(logits, labels)
            if keep:
                parts = (labels, top5, logits.softmax(1).gather(1, top5), features)
                for values, part in zip(rows.values(), parts, strict=True):
                    values.append(part.cpu())
    if group is not None:
        geometry = _shared_geometry(geometry, num_classes, keep, group)
        reliability.all_reduce(group)
        dist.all_reduce(sums, group=group)
        dist.all_reduce(by_class, group=group)
    if geometry is None:
        return Validation({}, {})
    numbers = {**({} if novel else _accuracies(sums, by_class)), **_geometry(geometry, sample, group)}
    if not keep:
        return Validation(numbers, {})
    joined = {name: torch.cat(values) for name, values in rows.items() if values}
    joined = joined if group is None else _gather(joined, group)
    measures = [_measures(joined, geometry, reliability, novel)]
    if group is not None:
        dist.broadcast_object_list(measures, group=group, group_src=0)
    return Validation({**numbers, **measures[0]}, _arrays(joined, geometry) if joined else {})


def _shared_geometry(geometry: Geometry | None, num_classes: int, moments: bool, group: Any) -> Geometry | None:
    """Merge the geometries of all processes; one without images takes part with an empty one."""
    widths: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(widths, geometry.feature_dim if geometry else 0, group=group)
    if not any(widths):
        return None
    return (geometry or Geometry(max(widths), num_classes=num_classes, moments=moments)).all_reduce(group)


def _accuracies(sums: Tensor, by_class: Tensor) -> dict[str, float]:
    first, five, entropy, rows = sums.tolist()
    hits, images = by_class[:, by_class[1] > 0]
    balanced = 100 * float((hits / images).mean())
    return {"top1": 100 * first / rows, "top5": 100 * five / rows, "balanced": balanced, "loss": entropy / rows}


class FeatureSample:
    """Features and labels of every k-th image, from which d of signed features is computed pair by pair.

    k is 1 for up to 10,000 images per process, and doubles as often as there are more.
    """

    def __init__(self) -> None:
        self.step, self.seen, self.kept = 1, 0, 0
        self.parts: list[tuple[Tensor, Tensor]] = []

    def add(self, features: Tensor, labels: Tensor) -> None:
        """Add a batch."""
        chosen = slice(-self.seen % self.step, None, self.step)
        self.parts.append((features[chosen].flatten(1), labels[chosen]))
        self.seen, self.kept = self.seen + len(labels), self.kept + len(self.parts[-1][1])
        if self.kept > FEATURE_ROWS:
            features, labels = self.joined()
            self.parts, self.step = [(features[::2], labels[::2])], 2 * self.step
            self.kept = len(labels[::2])

    def joined(self) -> tuple[Tensor, Tensor]:
        """Return all features and labels that were kept."""
        features, labels = zip(*self.parts, strict=True)
        return torch.cat(features), torch.cat(labels)

    def mean_abs(self, group: Any) -> float:
        """Return the mean |cosine| over pairs of different classes, of all processes."""
        joined = [self.joined()] if self.parts else []
        if group is not None:
            gathered: list[Any] = [None] * dist.get_world_size(group)
            dist.all_gather_object(gathered, [(features.cpu(), labels.cpu()) for features, labels in joined], group)
            joined = [part for parts in gathered for part in parts]
        features, labels = (torch.cat(values) for values in zip(*joined, strict=True))
        return float(orthogonal_projection(features, labels, form="mean_abs").other)


def _geometry(geometry: Geometry, sample: FeatureSample, group: Any) -> dict[str, float]:
    same, signed = geometry.same, geometry.other("mean")
    other = sample.mean_abs(group) if geometry.negative else geometry.other()
    classes = (geometry.counts > 0).sum()
    needed = float(gamma_needed(same, signed, classes, geometry.counts.sum() / classes))
    applies = signed >= ONE_SIGN * other and math.isfinite(needed)
    return {
        "s": same,
        "d": other,
        "d_signed": signed,
        **({"gamma_needed": needed} if applies else {}),
        "class_cosine": float(closest(geometry.unit_sums, geometry.counts > 0)),
        "orthogonality": (1 - same) + other,
        "expected_orthogonality": geometry.expected_orthogonality("mean"),
    }


def _measures(joined: dict[str, Tensor], geometry: Geometry, reliability: Reliability, novel: bool) -> dict[str, float]:
    """Return the measures of features and predictions that are defined for them."""
    numbers: dict[str, float] = {}
    undefined = suppress(FeatureError, LabelError)  # too few classes or images, or values that are not finite
    with undefined:
        numbers |= geometry.collapse()._asdict()
    if not novel:
        with undefined:
            numbers |= {name: getattr(reliability, name) for name in ("ece", "mce", "nll", "brier")}
    shares: dict[str, float] = {}
    if joined:
        labels, device = joined["labels"].long(), geometry.counts.device
        with undefined:
            shares |= retrieval(joined["features"].to(device), labels.to(device))._asdict()
        if not novel:
            shares |= failure_detection(joined["p5"][:, 0], joined["top5"][:, 0], labels)
    numbers |= {name: 100 * share for name, share in shares.items()}
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def _arrays(joined: dict[str, Tensor], geometry: Geometry) -> dict[str, Any]:
    """Return the predictions as compact types."""
    limit = torch.finfo(torch.float16).max
    feature_rows = stratified_rows(joined["labels"].long(), FEATURE_ROWS)
    return {
        "labels": joined["labels"].int().numpy(),
        "top5": joined["top5"].short().numpy(),
        "p5": joined["p5"].half().numpy(),
        "features": joined["features"][feature_rows].float().clamp(-limit, limit).half().numpy(),
        "feature_rows": feature_rows.int().numpy(),
        "similarity": geometry.class_similarity().nan_to_num(0.0).float().cpu().numpy(),
    }


def _gather(joined: dict[str, Tensor], group: Any) -> dict[str, Tensor]:
    """Gather the rows of all processes on the first; the others get an empty dictionary."""
    first = dist.get_rank(group) == 0
    parts: list[Any] | None = [None] * dist.get_world_size(group) if first else None
    dist.gather_object(joined, parts, group=group, group_dst=0)
    filled = [part for part in parts or () if part]
    return {name: torch.cat([part[name] for part in filled]) for name in (filled[0] if filled else ())}


def pictures(part: Images) -> dict[str, Any]:
    """Return `pixels` (P, H, W, channels) of a stratified sample that fits into 600 kB, and their `pixel_rows`.

    Images above 64 pixels are reduced to that size first. All images of a part with at most 300 are kept, and 300 of a
    larger part with encoded images.
    """
    size = _reduced(part.take(torch.arange(1))[0]).numel()
    count = PICTURES if part.most_at_once or len(part) <= PICTURES else PICTURE_BYTES // max(1, size)
    rows = stratified_rows(part.labels[part.rows], count)
    most = part.most_at_once or len(rows)
    pixels = torch.cat([_reduced(part.take(rows[at : at + most])[0]) for at in range(0, len(rows), most)])
    return {"pixels": pixels.permute(0, 2, 3, 1).contiguous().numpy(), "pixel_rows": rows.int().numpy()}


def _reduced(pixels: Tensor) -> Tensor:
    if max(pixels.shape[2:]) <= PICTURE_SIDE:
        return pixels
    return F.interpolate(pixels.float(), PICTURE_SIDE, mode="area").round().to(torch.uint8)


def neighbor_accuracies(
    fabric: Any, recipe: Recipe, model: nn.Module, train: Images, tested: Validation
) -> dict[str, float]:
    """Return `knn` and `ncm` in percent: accuracies on the stored test features of `opl.geometry.neighbors`.

    The neighbors are at most 5,000 training images, a stratified sample, with the labels that were trained on. With
    several processes, all must call this function, and only the first gets the numbers.
    """
    sample = replace(train, rows=train.rows[stratified_rows(train.labels[train.rows], NEIGHBOR_ROWS)])
    network = unwrap(model)
    with fabric.autocast():
        known = collect(network, plain_batches(batches(fabric, recipe, sample), network))
    joined = {"features": known.features, "labels": known.labels} if len(known.labels) else {}
    joined = _gather(joined, dist.group.WORLD) if fabric.world_size > 1 else joined
    if not joined or not tested.arrays:
        return {}
    queries = torch.from_numpy(tested.arrays["features"]).to(fabric.device).float()
    truth = torch.from_numpy(tested.arrays["labels"][tested.arrays["feature_rows"]]).to(fabric.device).long()
    features, labels = joined["features"].to(fabric.device).float(), joined["labels"].to(fabric.device).long()
    return {name: 100 * value for name, value in neighbors(features, labels, queries, truth)._asdict().items()}


SHOTS = {"many": (101, math.inf), "medium": (20, 101), "few": (0, 20)}
"""Groups of classes by their number of training images, from the first number to below the second."""


def shot_accuracies(counts: Tensor, arrays: Mapping[str, Any]) -> dict[str, float]:
    """Return the top-1 of classes with `many` (above 100), `medium` and `few` (below 20) training images, in percent.

    Each is the mean over its classes; a group without classes is omitted, and all are if there is only one group. The
    `counts` are (C,) training images per class, the arrays are from a `Validation`.
    """
    labels = torch.from_numpy(arrays["labels"]).long()
    hits = (torch.from_numpy(arrays["top5"][:, 0]).long() == labels).double()
    images = labels.bincount(minlength=len(counts))
    accuracies = labels.bincount(hits, minlength=len(counts)) / images
    groups = {name: (counts >= low) & (counts < high) & (images > 0) for name, (low, high) in SHOTS.items()}
    by_group = {name: 100 * float(accuracies[group].mean()) for name, group in groups.items() if group.any()}
    return by_group if len(by_group) > 1 else {}


class Predictions(NamedTuple):
    """The (N, D) features, (N, C) logits and (N,) labels of images, on the CPU."""

    features: Tensor
    logits: Tensor
    labels: Tensor


@torch.no_grad()
def collect(model: nn.Module, batches: Iterable[Batch]) -> Predictions:
    """Pass images through a model once, in evaluation mode, and return what it predicts."""
    rows: list[tuple[Tensor, ...]] = []
    with evaluation_mode(model):
        for batch in batches:
            features, logits = model(batch.images)
            rows.append((features.float().cpu(), logits.float().cpu(), batch.labels.cpu()))
    if not rows:
        return Predictions(torch.zeros(0, 1), torch.zeros(0, 1), torch.zeros(0, dtype=torch.long))
    return Predictions(*(torch.cat(values) for values in zip(*rows, strict=True)))


def plain_batches(data: Batches, model: nn.Module) -> Iterator[Batch]:
    """Yield all images once, not augmented, in the dtype of the model's weights."""
    dtype = next(model.parameters()).dtype
    return (batch._replace(images=batch.images.to(dtype)) for batch in data.plain(EVAL_BATCH))


def validate_part(
    fabric: Any, recipe: Recipe, model: nn.Module, part: Images, *, keep: bool = False, alone: bool = False
) -> Validation:
    """Pass a part of a recipe's data through a model once, in the run's precision.

    The part is divided among all processes, or evaluated by this one if `alone`. With `keep`, the arrays also contain
    the `pixels` of some images and their `pixel_rows`, a stratified sample.
    """
    if len(part) == 0:
        return Validation({}, {})
    group = dist.group.WORLD if fabric.world_size > 1 and not alone else None
    # Use the bare network: DDP's communication would deadlock on uneven shards. The precision is set here instead.
    network = unwrap(model)
    plain = plain_batches(batches(fabric, recipe, part, alone=alone), network)
    with fabric.autocast():
        result = validate(network, plain, recipe.data.num_classes, group=group, keep=keep)
    return result._replace(arrays={**result.arrays, **pictures(part)}) if result.arrays else result
