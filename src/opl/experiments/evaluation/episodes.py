"""Few-shot episodes on frozen features.

Every image and every augmented view is encoded once, then thousands of episodes are classified together. Memory does
not grow with the number of episodes, except for one accuracy per episode.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...errors import OptionError
from ..data.augment import ColorJitter, Normalize
from ..data.episode_sampling import Episode, Episodes
from ..models.modes import evaluation_mode
from ..run_folder import RunFolder, measure_name
from ..seeds import Purpose
from ..settings import to_json
from ..statistics import interval
from ..training.build import input_statistics
from ..training.engine import commit
from ..training.progress import Counter
from ..types import Augmentation, Images
from .classifiers import CLASSIFIERS
from .features import Watch, reopen
from .protocols import FewShot

CHUNK = 250  # episodes that are classified together
BLOCK = 500  # images whose random numbers are drawn together


def evaluate_episodes(folder: RunFolder, settings: Sequence[FewShot]) -> dict[str, Any]:
    """Evaluate episodes of classes that a run was not trained on; write each protocol's numbers and accuracies."""
    fabric, recipe, model = reopen(folder)
    part, _ = recipe.data.novel_classes(settings[0].part)
    mean, std = input_statistics(recipe)
    numbers: dict[str, Any] = {}
    with Counter() as watch:
        results = episode_accuracies(
            model, part, settings, augment=recipe.data.augment, mean=mean, std=std, device=fabric.device, watch=watch
        )
    for protocol, accuracies in zip(settings, results, strict=True):
        confidence = interval(accuracies.tolist())
        summary = {protocol.metric: confidence.mean, f"{protocol.metric}/half": confidence.half}
        content = {"numbers": summary, "settings": to_json(protocol), "commit": commit()}
        folder.write_measure(measure_name(protocol.metric), content, {"each": accuracies.float().numpy()})
        numbers |= summary
    return numbers


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
    watch: Watch = lambda task, done, total: None,
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
    if any(protocol.images != first.images for protocol in settings):
        raise OptionError("protocols differ in their images (views, noise, part, seed): evaluate them one at a time.")
    steps = _augmentations(augment, first.view)
    encoder = Encoder(model, part, steps, Normalize(mean, std), torch.device(device), first)
    episodes = [_draw_episodes(part.labels[part.rows], protocol) for protocol in settings]
    with evaluation_mode(model):
        queries = encoder.plain(watch)
        table = encoder.table(_needed_views(episodes, len(part), first.views), watch) if first.views else None
        return [
            _accuracies(drawn, protocol, encoder, queries, table, watch)
            for drawn, protocol in zip(episodes, settings, strict=True)
        ]


@torch.no_grad()
def feature_accuracies(features: Tensor, labels: Tensor, protocol: FewShot) -> Tensor:
    """Return the accuracy in percent of every episode, (episodes,), on (N, D) features without augmentation."""
    features = F.normalize(features, dim=1) if protocol.unit else features
    episodes = _draw_episodes(labels, protocol)
    accuracies = []
    for start in range(0, len(episodes), CHUNK):
        chunk = episodes.stack(start, min(start + CHUNK, len(episodes)))
        support = features[chunk.support][:, :, :, None].expand(-1, -1, -1, protocol.repeats, -1)
        accuracies.append(_accuracy(support, features[chunk.queries], protocol))
    return 100 * torch.cat(accuracies)


def _augmentations(augment: tuple[Augmentation, ...], view: str) -> tuple[Augmentation, ...]:
    if view == "plain":
        return ()
    return tuple(step for step in augment if view == "training" or not isinstance(step, ColorJitter))


def _draw_episodes(labels: Tensor, protocol: FewShot) -> Episodes:
    return Episodes(
        labels,
        way=protocol.way,
        shot=protocol.shot,
        queries=protocol.queries,
        episodes=protocol.episodes,
        seed=protocol.seed,
        copies=protocol.repeats,
        views=protocol.views,
    )


def _needed_views(episodes: Sequence[Episodes], images: int, views: int) -> Tensor:
    """Return (N, V): which views of which images occur in any episode."""
    needed = torch.zeros(images, views, dtype=torch.bool)
    for drawn in episodes:
        for episode in map(drawn.__getitem__, range(len(drawn))):
            needed[episode.support[..., None], episode.views] = True
    return needed


def _accuracies(
    episodes: Episodes, protocol: FewShot, encoder: "Encoder", queries: Tensor, table: "ViewTable | None", watch: Watch
) -> Tensor:
    """Return (episodes,) accuracies in percent, computed in chunks."""
    accuracies = []
    for start in range(0, len(episodes), CHUNK):
        stop = min(start + CHUNK, len(episodes))
        chunk = episodes.stack(start, stop)
        support = table[chunk.support[..., None], chunk.views] if table else encoder.copies(chunk, start)
        accuracies.append(_accuracy(support, queries[chunk.queries.to(queries.device)], protocol))
        watch(protocol.name, stop, len(episodes))
    return 100 * torch.cat(accuracies)


def _accuracy(support: Tensor, queries: Tensor, protocol: FewShot) -> Tensor:
    """Return (E,): the fraction of queries (E, N, Q, D) predicted correctly from the support (E, N, K, copies, D)."""
    way = queries.shape[1]
    classes = torch.arange(way, device=queries.device)
    labels = classes.repeat_interleave(support.shape[2] * support.shape[3])
    truth = classes.repeat_interleave(queries.shape[2])
    predictions = CLASSIFIERS[protocol.classifier](support.flatten(1, 3), labels, queries.flatten(1, 2), way)
    return (predictions == truth).double().mean(1).cpu()


class ViewTable:
    """Features of augmented views: `table[images, views]` returns those of the given images and views."""

    def __init__(self, index: Tensor, features: Tensor) -> None:
        self.index, self.features = index, features

    def __getitem__(self, key: tuple[Tensor, Tensor]) -> Tensor:
        images, views = key
        return self.features[self.index[images, views].to(self.features.device)]


class Draw(NamedTuple):
    """The purpose of a random draw, and the numbers that distinguish it from other draws with the same purpose."""

    purpose: Purpose
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Encoder:
    """From pixels to features: augmentation, noise, normalization, network.

    The random numbers of an image depend only on the image and the view, not on what else is encoded.
    """

    model: nn.Module
    part: Images
    augment: tuple[Augmentation, ...]
    normalize: Normalize
    device: torch.device
    settings: FewShot

    def plain(self, watch: Watch) -> Tensor:
        """Encode every image without augmentation: (N, D)."""
        features = []
        for start, rows in _blocks(len(self.part)):
            features.append(self._encode(self._pixels(rows), Draw(Purpose.QUERY_IMAGES, (start,))))
            watch("images", int(rows[-1]) + 1, len(self.part))
        return torch.cat(features)

    def table(self, needed: Tensor, watch: Watch) -> ViewTable:
        """Encode the views that `needed`, (N, V) bool, selects."""
        index = torch.full(needed.shape, -1)
        index[needed] = torch.arange(int(needed.sum()))
        features: Tensor | None = None
        done = 0
        for view in range(needed.shape[1]):
            for start, rows in _blocks(len(needed)):
                selected = needed[rows, view].nonzero().flatten()
                if not len(selected):
                    continue
                draw = Draw(Purpose.SUPPORT_VIEWS, (view, start))
                images = self._augmented(rows[selected], draw, selected, len(rows))
                encoded = self._encode(images, draw, selected, len(rows))
                if features is None:
                    features = encoded.new_empty(int(needed.sum()), encoded.shape[1])
                features[index[rows[selected], view].to(encoded.device)] = encoded
                done += len(selected)
                watch("views", done, len(features))
        assert features is not None
        return ViewTable(index, features)

    def copies(self, chunk: Episode, first: int) -> Tensor:
        """Augment and encode every copy of every support image: (E, N, K, copies, D)."""
        features = []
        for number, images in enumerate(chunk.support, start=first):
            rows = images.flatten().repeat_interleave(chunk.views.shape[-1])
            draw = Draw(Purpose.SUPPORT_COPIES, (number,))
            features.append(self._encode(self._augmented(rows, draw), draw))
        stacked = torch.stack(features)
        return stacked.view(len(features), *chunk.views.shape[1:], stacked.shape[-1])

    def _pixels(self, rows: Tensor) -> Tensor:
        return self.part.take(rows)[0].to(self.device).float().div_(255)

    def _augmented(self, rows: Tensor, draw: Draw, selected: Tensor | None = None, total: int = 0) -> Tensor:
        images, generator = self._pixels(rows), draw.purpose.generator(self.settings.seed, *draw.numbers)
        for augmentation in self.augment:
            images = augmentation(images, generator, selected, total or None)
        return images

    def _encode(self, images: Tensor, draw: Draw, selected: Tensor | None = None, total: int = 0) -> Tensor:
        """Encode images in [0, 1], which have the indices `selected` in a block of `total` images."""
        noise = self._noise(images, draw, selected, total)
        if self.settings.noise_unit == "pixels" and noise is not None:
            images = images + noise
            images = images.clamp_(0, 1) if self.settings.clip else images
        images = self.normalize(images)
        if self.settings.noise_unit == "normalized" and noise is not None:
            images = images + noise
        weights = next(self.model.parameters())
        images = images.to(weights.dtype).contiguous(memory_format=torch.channels_last)
        features: Tensor = self.model(images).features.float()
        return F.normalize(features, dim=1) if self.settings.unit else features

    def _noise(self, images: Tensor, draw: Draw, selected: Tensor | None, total: int) -> Tensor | None:
        if not self.settings.noise:
            return None
        generator = Purpose.PIXEL_NOISE.generator(self.settings.seed, draw.purpose.number, *draw.numbers)
        noise = torch.randn(total or len(images), *images.shape[1:], generator=generator)
        return self.settings.noise * (noise if selected is None else noise[selected]).to(self.device)


def _blocks(images: int) -> Iterator[tuple[int, Tensor]]:
    for start in range(0, images, BLOCK):
        yield start, torch.arange(start, min(start + BLOCK, images))
