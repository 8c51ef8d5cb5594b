"""Episodes of Meta-Dataset on the features of several networks, which SUR weights in each episode.

An image is represented by the concatenated unit features of all domains, each multiplied by the weight of its domain.
The cosine between an image and a class centroid therefore needs only, for each domain, the inner products of unit
features and centroids and the squared lengths of the centroids. These are computed once per episode; the steps of the
fit do not depend on the feature dimension, and many episodes are fitted together.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ...errors import DataError, FeatureError, FolderError, OptionError
from ..data.augment import Normalize
from ..data.episode_sampling import MetaEpisodes, VariableEpisode
from ..data.meta_dataset import MetaDataSet
from ..models import Network
from ..run_folder import FEATURES, RunFolder
from ..training.build import finished_model, finished_recipe, input_statistics
from ..training.engine import launch
from ..training.progress import task_bars
from ..types import Images
from .classifiers import first_best
from .features import Watch, summarize_accuracies, write_numbers
from .protocols import BASE_METRIC, Selection, average_metric, average_settings, base_settings

PRODUCTS = 1 << 19  # inner products that are processed together; more do not fit into a processor's cache
BLOCK = 500  # images that are read and encoded together


def evaluate_selection(folder: RunFolder, settings: Sequence[Selection]) -> dict[str, Any]:
    """Evaluate the family of a run on some targets; write the numbers of each target, and of their mean."""
    device = launch(replace(finished_recipe(folder), devices=1, nodes=1)).device
    family = open_family(folder, device)
    members = {member.recipe.name: member.folder.weights_sum() for member in family[:-1]}
    numbers: dict[str, Any] = {}

    def write(metric: str, values: dict[str, float], settings: Any, arrays: dict[str, Any], **more: Any) -> None:
        write_numbers(folder, metric, values, settings, arrays, members=members, **more)
        numbers.update(values)

    accuracies = []
    with task_bars() as watch:
        for protocol in settings:
            result = target_accuracies(family, protocol, watch)
            accuracies.append(result.accuracies)
            means = result.weights.mean(0).tolist()
            arrays = {"each": result.accuracies.float().numpy(), "weights": result.weights.float().numpy()}
            weights = dict(zip((member.data.source for member in family), means, strict=True))
            summary = summarize_accuracies(protocol.metric, result.accuracies)
            write(protocol.metric, summary, protocol, arrays, weights=weights)
    if len({len(values) for values in accuracies}) == 1 < len(accuracies):
        metric, mean = average_metric(settings), torch.stack(accuracies).mean(0)
        write(metric, summarize_accuracies(metric, mean), average_settings(settings), {"each": mean.float().numpy()})
    held_out = family[0].folder.result().get("test/top1")
    if held_out is not None:
        write(BASE_METRIC, {BASE_METRIC: held_out}, base_settings(family[0].data.source), {})
    return numbers


class Extractor:
    """A finished run as a source of features, which are computed once for each target and kept in its folder."""

    def __init__(self, folder: RunFolder, device: torch.device) -> None:
        self.folder, self.device, self.recipe = folder, device, finished_recipe(folder)

    @cached_property
    def network(self) -> Network:
        """The network, loaded on first use."""
        return finished_model(self.folder).to(self.device).eval().requires_grad_(False)

    @property
    def data(self) -> MetaDataSet:
        """The source that the run was trained on."""
        data = self.recipe.data
        if not isinstance(data, MetaDataSet):
            raise OptionError(
                f"{self.recipe.name} was trained on {data.name}, which is not a source of Meta-Dataset: choose a run "
                "of table-7, or one with MetaSource data."
            )
        return data

    @torch.no_grad()
    def features(self, name: str, part: Images, rows: Tensor, watch: Watch) -> Tensor:
        """Return (n, D) features of the images at some rows of a part, ascending.

        They are read from the run's folder if it has them for the same images; `name` names the file.
        """
        digest, file = _digest(part, rows), f"{FEATURES}{name}"
        kept = self.folder.outputs(file)
        if kept is not None and kept["content"].tobytes() == digest:
            return torch.from_numpy(kept["features"])
        blocks = []
        for start in range(0, len(rows), BLOCK):
            blocks.append(self._encode(part.take(rows[start : start + BLOCK])[0]))
            watch(f"{self.folder.path.parent.name} on {name}", min(start + BLOCK, len(rows)), len(rows))
        features = torch.cat(blocks)
        self.folder.write_outputs({"features": features.numpy(), "content": np.frombuffer(digest, np.uint8)}, file)
        return features

    def _encode(self, pixels: Tensor) -> Tensor:
        images = Normalize(*input_statistics(self.recipe))(pixels.to(self.device).float().div_(255))
        images = images.to(next(self.network.parameters()).dtype).contiguous(memory_format=torch.channels_last)
        features: Tensor = self.network(images).features
        return features.float().cpu()


def _digest(part: Images, rows: Tensor) -> bytes:
    """Return a hash of the images' indices and pixels."""
    digest = hashlib.blake2b(rows.numpy().tobytes(), digest_size=16)
    for start in range(0, len(rows), BLOCK):
        digest.update(part.take(rows[start : start + BLOCK])[0].contiguous().numpy().tobytes())
    return digest.digest()


def open_family(folder: RunFolder, device: torch.device) -> list[Extractor]:
    """Return the base that a run started from (if any), the members of its family, and the run itself.

    Raises:
        FolderError: a run is missing, or started from another base.
    """
    run = Extractor(folder, device)
    names = [*([run.recipe.after] if run.recipe.inherit else []), *run.recipe.members]
    family = [*(Extractor(folder.beside(name), device) for name in names), run]
    sizes = {member.data.size for member in family}
    if len(sizes) > 1:
        raise FolderError(
            f"the family of {folder.path} was trained on images of {' and '.join(map(str, sorted(sizes)))} pixels: "
            "choose runs with one image size."
        )
    for member in family:
        base, start = member.folder.beside(member.recipe.after), member.folder.result().get("after", {})
        if member.recipe.inherit and start.get("sha256") != base.weights_sum():
            raise FolderError(
                f"{member.folder.path} started from other weights of {member.recipe.after} than the current ones: "
                "delete the folder and train it again."
            )
    return family


class Accuracies(NamedTuple):
    """The result of some episodes: the accuracy of each in percent, (E,), and the weight of each network, (E, K)."""

    accuracies: Tensor
    weights: Tensor


def target_accuracies(family: Sequence[Extractor], protocol: Selection, watch: Watch) -> Accuracies:
    """Evaluate networks on the episodes of one target."""
    data = family[-1].data.of(protocol.target)
    part, _ = data.novel_classes(protocol.part)
    if not len(part):
        raise DataError(f"{protocol.target} has no classes in its part {protocol.part!r}: choose another part.")
    labels, hierarchy = part.labels[part.rows], data.hierarchy(protocol.part)
    episodes = MetaEpisodes(labels, episodes=protocol.episodes, seed=protocol.seed, hierarchy=hierarchy)
    needed = torch.zeros(len(part), dtype=torch.bool)
    for episode in map(episodes.__getitem__, range(len(episodes))):
        needed[torch.cat([episode.support, episode.queries])] = True
    rows, index = needed.nonzero().flatten(), needed.cumsum(0) - 1
    name = f"{protocol.target}-{protocol.part}"
    features = torch.stack([member.features(name, part, rows, watch) for member in family])
    return weighted_accuracies(features, index, episodes, protocol, watch)


@torch.no_grad()
def weighted_accuracies(
    features: Tensor, index: Tensor, episodes: MetaEpisodes, protocol: Selection, watch: Watch
) -> Accuracies:
    """Fit the weights of each episode on its support set, and classify its queries by the nearest centroid.

    `features` are (K, n, D) of K networks, and `index` (N,) has the row of each image of the part in them.
    """
    accuracies: list[Tensor] = []
    weights = []
    for chunk in _chunks(episodes, len(features)):
        support = [features[:, index[episode.support]] for episode in chunk]
        centroids = [
            centroids_of(x, episode.support_labels, episode.way) for x, episode in zip(support, chunk, strict=True)
        ]
        support_sets = [
            SupportSet(products_of(x, means), episode.support_labels, episode.way)
            for x, means, episode in zip(support, centroids, chunk, strict=True)
        ]
        fitted = fit_weights(support_sets, steps=protocol.steps, rate=protocol.rate, scale=protocol.scale)
        for episode, means, weight in zip(chunk, centroids, fitted, strict=True):
            scores = cosines(weight, products_of(features[:, index[episode.queries]], means))
            accuracies.append((first_best(scores) == episode.query_labels).double().mean())
        weights.append(fitted)
        watch(protocol.name, len(accuracies), len(episodes))
    return Accuracies(100 * torch.stack(accuracies), torch.cat(weights))


def _chunks(episodes: MetaEpisodes, domains: int) -> Iterator[list[VariableEpisode]]:
    """Yield episodes that are fitted together, as many as memory allows after they are padded to one size."""
    chunk: list[VariableEpisode] = []
    for episode in map(episodes.__getitem__, range(len(episodes))):
        larger = [*chunk, episode]
        images, way = max(len(member.support) for member in larger), max(member.way for member in larger)
        if chunk and len(larger) * domains * images * way > PRODUCTS:
            yield chunk
            larger = [episode]
        chunk = larger
    if chunk:
        yield chunk


class DomainProducts(NamedTuple):
    """The terms of the cosines between images and class centroids, for each of K domains."""

    inner: Tensor
    """(K, n, C): inner products of unit features and centroids."""
    squares: Tensor
    """(K, C): squared lengths of the centroids."""
    present: Tensor
    """(K, n): 1 where an image has a feature; 0 where it is zero and has no direction."""


class SupportSet(NamedTuple):
    """The support set of an episode: its products, its labels and the number of classes."""

    products: DomainProducts
    labels: Tensor
    way: int


def centroids_of(features: Tensor, labels: Tensor, way: int) -> Tensor:
    """Return (K, C, D), the mean unit feature of each class in each domain, from features (K, n, D)."""
    members = F.one_hot(labels, way).T.to(features.dtype)
    return torch.einsum("cn,knd->kcd", members / members.sum(1, keepdim=True), _unit(features))


def products_of(features: Tensor, centroids: Tensor) -> DomainProducts:
    """Return the products of features (K, n, D) with centroids (K, C, D)."""
    directions = _unit(features)
    inner = torch.einsum("knd,kcd->knc", directions, centroids)
    return DomainProducts(inner.double(), centroids.double().square().sum(2), directions.any(2).double())


def _unit(features: Tensor) -> Tensor:
    """Divide features (..., D) by their lengths; zeros stay zeros."""
    return F.normalize(features.float(), dim=-1)


def cosines(weights: Tensor, products: DomainProducts) -> Tensor:
    """Return (..., n, C): cosines between images and centroids, with domain k weighted by `weights[..., k]`.

    Example:
        >>> features = torch.eye(2)[None]
        >>> products = products_of(features, centroids_of(features, torch.tensor([0, 1]), 2))
        >>> cosines(torch.tensor([0.5], dtype=torch.float64), products)
        tensor([[1., 0.],
                [0., 1.]], dtype=torch.float64)
    """
    inner, squares, present = products
    shares = weights.square()
    numerator = torch.einsum("...k,...knc->...nc", shares, inner)
    images = torch.einsum("...k,...kn->...n", shares, present)
    centroids = torch.einsum("...k,...kc->...c", shares, squares)
    return numerator * _inverse_root(images)[..., :, None] * _inverse_root(centroids)[..., None, :]


def _inverse_root(squares: Tensor) -> Tensor:
    """Return the inverses of lengths, from their squares; 0 for a length of 0."""
    return torch.where(squares > 0, torch.where(squares > 0, squares, 1.0).rsqrt(), 0.0)


def fit_weights(support: Sequence[SupportSet], *, steps: int = 40, rate: float = 3000.0, scale: float = 10.0) -> Tensor:
    """Return (E, K): the weights of K domains in each of E episodes, from 0 to 1.

    In each episode, the cross-entropy of `scale` times the cosines between support images and centroids is minimized
    over K numbers, whose sigmoids are the weights, by Adadelta with a learning rate of `rate` divided by the number of
    classes, starting at 0.
    """
    logits = [torch.zeros(len(episode.products.inner), dtype=torch.float64, requires_grad=True) for episode in support]
    if not support:
        return torch.zeros(0, 0)
    if not steps or len(logits[0]) == 1:  # the weight of a single domain changes no cosine
        return torch.stack(logits).detach().sigmoid()
    groups = [{"params": [values], "lr": rate / episode.way} for values, episode in zip(logits, support, strict=True)]
    optimizer = torch.optim.Adadelta(groups)
    padded = _pad(support)
    with torch.enable_grad():
        for _ in range(steps):
            optimizer.zero_grad()
            torch.autograd.backward(_loss(torch.stack(logits).sigmoid(), padded, scale))
            optimizer.step()
    weights = torch.stack(logits).detach().sigmoid()
    if not weights.isfinite().all():
        raise FeatureError("the domain weights are not finite: check the networks that made the features.")
    return weights


class _Padded(NamedTuple):
    products: DomainProducts
    labels: Tensor
    """(E, n); -100 where an episode has fewer images."""
    ways: Tensor
    """(E, C): whether a class exists in the episode."""


def _pad(support: Sequence[SupportSet]) -> _Padded:
    """Stack episodes of different sizes."""
    images = max(len(episode.labels) for episode in support)
    way = max(episode.way for episode in support)
    inner, squares, present, labels, ways = [], [], [], [], []
    for episode in support:
        rows, classes = images - len(episode.labels), way - episode.way
        inner.append(F.pad(episode.products.inner, (0, classes, 0, rows)))
        squares.append(F.pad(episode.products.squares, (0, classes)))
        present.append(F.pad(episode.products.present, (0, rows)))
        labels.append(F.pad(episode.labels, (0, rows), value=-100))
        ways.append(torch.arange(way) < episode.way)
    products = DomainProducts(torch.stack(inner), torch.stack(squares), torch.stack(present))
    return _Padded(products, torch.stack(labels), torch.stack(ways))


def _loss(weights: Tensor, padded: _Padded, scale: float) -> Tensor:
    """Return the sum over episodes of their mean cross-entropy."""
    logits = (scale * cosines(weights, padded.products)).masked_fill(~padded.ways[:, None], -torch.inf)
    entropy = F.cross_entropy(logits.flatten(0, 1), padded.labels.flatten(), reduction="none", ignore_index=-100)
    present = padded.labels != -100
    return (torch.where(present, entropy.view_as(padded.labels), 0.0).sum(1) / present.sum(1)).sum()
