"""Few-shot episodes on frozen features.

Images are encoded once (see `encoder`), then thousands of episodes are classified together. Memory does not grow with
the number of episodes, except for one accuracy per episode.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ....errors import OptionError
from ...data.augment import ColorJitter, Normalize
from ...data.episodes import Episodes
from ...models.modes import evaluation_mode
from ...run_folder import RunFolder, measure_name
from ...settings import to_json
from ...statistics import interval
from ...training.build import input_statistics
from ...training.progress import Counter
from ...training.provenance import commit
from ...types import Augmentation, Images
from ..predict import reopen
from .classifiers import CLASSIFIERS
from .encoder import Encoder, ViewTable, Watch
from .settings import FewShot

CHUNK = 250  # episodes that are classified together


@torch.no_grad()
def episode_accuracies(
    model: nn.Module,
    part: Images,
    settings: Sequence[FewShot],
    *,
    augment: tuple[Augmentation, ...],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    device: torch.device | str = "cpu",
    watch: Watch = lambda what, done, of: None,
) -> list[Tensor]:
    """Return the accuracy in percent of every episode, (episodes,), for each of the settings.

    Args:
        model: returns `Output`; it is evaluated in evaluation mode, and its mode is restored.
        part: images of the novel classes.
        settings: protocols on the same images (views, noise, seed); they may differ in way, shot and classifier.
        augment: the augmentations of the training images.
        mean: mean of each channel.
        std: standard deviation of each channel.
        device: the model's device.
        watch: called with the name of the task, the amount done, and the total.
    """
    first = settings[0]
    if any(each.images != first.images for each in settings):
        raise OptionError("protocols with other images (views, noise, part, seed) are measured one at a time.")
    encoder = Encoder(model, part, _views(augment, first.view), Normalize(mean, std), torch.device(device), first)
    drawn = [_episodes(part, protocol) for protocol in settings]
    with evaluation_mode(model):
        queries = encoder.plain(watch)
        table = encoder.table(_needed(drawn, len(part), first.views), watch) if first.views else None
        return [
            _accuracies(episodes, protocol, encoder, queries, table, watch)
            for episodes, protocol in zip(drawn, settings, strict=True)
        ]


def _accuracies(
    episodes: Episodes, protocol: FewShot, encoder: Encoder, queries: Tensor, table: ViewTable | None, watch: Watch
) -> Tensor:
    """Return (episodes,) accuracies in percent, computed in chunks."""
    right = []
    for start in range(0, len(episodes), CHUNK):
        stop = min(start + CHUNK, len(episodes))
        chunk = episodes.stack(start, stop)
        support = table[chunk.support[..., None], chunk.views] if table else encoder.copies(chunk, start)
        right.append(_share_right(support, queries[chunk.queries.to(queries.device)], protocol))
        watch(protocol.name, stop, len(episodes))
    return 100 * torch.cat(right)


def _share_right(support: Tensor, queries: Tensor, protocol: FewShot) -> Tensor:
    """Return (E,): the fraction of queries (E, N, Q, D) predicted correctly from the support (E, N, K, copies, D)."""
    way = queries.shape[1]
    classes = torch.arange(way, device=queries.device)
    labels = classes.repeat_interleave(support.shape[2] * support.shape[3])
    truth = classes.repeat_interleave(queries.shape[2])
    said = CLASSIFIERS[protocol.classifier](support.flatten(1, 3), labels, queries.flatten(1, 2), way)
    return (said == truth).double().mean(1).cpu()


def _episodes(part: Images, protocol: FewShot) -> Episodes:
    return Episodes(
        part.labels[part.rows],
        way=protocol.way,
        shot=protocol.shot,
        queries=protocol.queries,
        episodes=protocol.episodes,
        seed=protocol.seed,
        copies=protocol.repeats,
        views=protocol.views,
    )


def _needed(drawn: Sequence[Episodes], images: int, views: int) -> Tensor:
    """Return (N, V): which views of which images occur in any episode."""
    needed = torch.zeros(images, views, dtype=torch.bool)
    for each in drawn:
        for episode in map(each.__getitem__, range(len(each))):
            needed[episode.support[..., None], episode.views] = True
    return needed


def _views(augment: tuple[Augmentation, ...], view: str) -> tuple[Augmentation, ...]:
    if view == "plain":
        return ()
    return tuple(each for each in augment if view == "training" or not isinstance(each, ColorJitter))


def evaluate_episodes(folder: RunFolder, settings: Sequence[FewShot]) -> dict[str, Any]:
    """Evaluate episodes of classes that a run was not trained on; write each protocol's numbers and accuracies."""
    fabric, recipe, model = reopen(folder)
    part, _ = recipe.data.novel_classes(settings[0].part)
    center, spread = input_statistics(recipe)
    augment = recipe.data.augment
    numbers: dict[str, Any] = {}
    with Counter() as watch:
        found = episode_accuracies(
            model, part, settings, augment=augment, mean=center, std=spread, device=fabric.device, watch=watch
        )
    for protocol, accuracies in zip(settings, found, strict=True):
        over = interval(accuracies.tolist())
        own = {protocol.metric: over.mean, f"{protocol.metric}/half": over.half}
        content = {"numbers": own, "settings": to_json(protocol), "commit": commit()}
        folder.write_measure(measure_name(protocol.metric), content, {"each": accuracies.float().numpy()})
        numbers |= own
    return numbers
