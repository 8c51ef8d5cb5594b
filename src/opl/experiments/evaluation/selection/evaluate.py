"""Episodes of Meta-Dataset on the features of several networks, weighted episode by episode (SUR)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....errors import DataError
from ...data.meta_episodes import MetaEpisodes, VariableEpisode
from ...run_folder import RunFolder, measure_name
from ...settings import to_json
from ...statistics import interval
from ...training.build import parse_recipe
from ...training.engine import launch
from ...training.progress import Counter
from ...training.provenance import commit
from ..few_shot.chunks import first_best
from .family import Extractor, alone, open_family
from .settings import BASE_METRIC, Selection, average_metric, average_settings, base_settings
from .stored_features import Watch
from .weights import NUMBERS, SupportSet, centroids_of, cosines, fit_weights, products_of


class Accuracies(NamedTuple):
    """The result of some episodes: the accuracy of each in percent, (E,), and the weight of each network, (E, K)."""

    each: Tensor
    weights: Tensor


def evaluate_selection(folder: RunFolder, settings: Sequence[Selection]) -> dict[str, Any]:
    """Evaluate the family of a run on some targets; write the numbers of each target, and of their mean."""
    device = launch(alone(parse_recipe(folder.recipe()))).device
    family = open_family(folder, device)
    members = {each.recipe.name: each.folder.weights_sum() for each in family[:-1]}
    numbers: dict[str, Any] = {}

    def write(metric: str, told: dict[str, float], how: dict[str, Any], arrays: dict[str, Any], **more: Any) -> None:
        content = {"numbers": told, "settings": how, "members": members, "commit": commit(), **more}
        folder.write_measure(measure_name(metric), content, arrays)
        numbers.update(told)

    found = []
    with Counter() as watch:
        for protocol in settings:
            each, weights = target_accuracies(family, protocol, watch)
            found.append(each)
            means = dict(zip((member.data.source for member in family), weights.mean(0).tolist(), strict=True))
            arrays = {"each": each.float().numpy(), "weights": weights.float().numpy()}
            write(protocol.metric, _summary(protocol.metric, each), to_json(protocol), arrays, weights=means)
    if len({len(each) for each in found}) == 1 < len(found):
        metric, each = average_metric(settings), torch.stack(found).mean(0)
        write(metric, _summary(metric, each), average_settings(settings), {"each": each.float().numpy()})
    held_out = family[0].folder.result().get("test/top1")
    if held_out is not None:
        write(BASE_METRIC, {BASE_METRIC: held_out}, base_settings(family[0].data.source), {})
    return numbers


def target_accuracies(family: Sequence[Extractor], protocol: Selection, watch: Watch) -> Accuracies:
    """Evaluate networks on the episodes of one target."""
    data = family[-1].data.of(protocol.target)
    part, _ = data.novel_classes(protocol.part)
    if not len(part):
        raise DataError(f"{protocol.target} has no classes in its part {protocol.part!r}: take another part.")
    labels, hierarchy = part.labels[part.rows], data.hierarchy(protocol.part)
    episodes = MetaEpisodes(labels, episodes=protocol.episodes, seed=protocol.seed, hierarchy=hierarchy)
    needed = torch.zeros(len(part), dtype=torch.bool)
    for episode in map(episodes.__getitem__, range(len(episodes))):
        needed[torch.cat([episode.support, episode.queries])] = True
    rows, place = needed.nonzero().flatten(), needed.cumsum(0) - 1
    name = f"{protocol.target}-{protocol.part}"
    features = torch.stack([each.features(name, part, rows, watch) for each in family])
    return episode_accuracies(features, place, episodes, protocol, watch)


@torch.no_grad()
def episode_accuracies(
    features: Tensor, place: Tensor, episodes: MetaEpisodes, protocol: Selection, watch: Watch
) -> Accuracies:
    """Fit the weights of each episode on its support set, and classify its queries by the nearest centroid.

    Args:
        features: (K, n, D) features of K networks.
        place: (N,) where the features of an image of the part are.
        episodes: the episodes, of images of the part.
        protocol: how weights are fitted.
        watch: called with what is done.
    """
    right, weights, done = [], [], 0
    for chunk in _chunks(episodes, len(features)):
        means = [centroids_of(features[:, place[each.support]], each.support_labels, each.way) for each in chunk]
        support = [
            SupportSet(products_of(features[:, place[each.support]], mean), each.support_labels, each.way)
            for each, mean in zip(chunk, means, strict=True)
        ]
        fitted = fit_weights(support, steps=protocol.steps, rate=protocol.rate, scale=protocol.scale)
        for each, mean, weight in zip(chunk, means, fitted, strict=True):
            scores = cosines(weight, products_of(features[:, place[each.queries]], mean))
            right.append((first_best(scores) == each.query_labels).double().mean())
        weights.append(fitted)
        done += len(chunk)
        watch(protocol.name, done, len(episodes))
    return Accuracies(100 * torch.stack(right), torch.cat(weights))


def _chunks(episodes: MetaEpisodes, domains: int) -> Iterator[list[VariableEpisode]]:
    """Yield episodes that are fitted together, as many as memory allows after they are padded to one size."""
    chunk: list[VariableEpisode] = []
    for episode in map(episodes.__getitem__, range(len(episodes))):
        grown = [*chunk, episode]
        images, way = max(len(each.support) for each in grown), max(each.way for each in grown)
        if chunk and len(grown) * domains * images * way > NUMBERS:
            yield chunk
            grown = [episode]
        chunk = grown
    if chunk:
        yield chunk


def _summary(metric: str, each: Tensor) -> dict[str, float]:
    found = interval(each.tolist())
    return {metric: found.mean, f"{metric}/half": found.half}
