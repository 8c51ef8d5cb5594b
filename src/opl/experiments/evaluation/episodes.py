"""Few-shot episodes on frozen features.

Every image and every augmented view is encoded once, then thousands of episodes are classified together. Memory does
not grow with the number of episodes, except for one accuracy per episode.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...errors import OptionError
from ..data.augment import ColorJitter, Normalize
from ..data.episode_sampling import Episode, Episodes
from ..models.modes import evaluation_mode
from ..run_folder import RunFolder
from ..seeds import Purpose
from ..training.build import input_statistics
from ..training.progress import task_bars
from ..types import Augmentation, Images
from .classifiers import CLASSIFIERS
from .features import Watch, reopen, summarize_accuracies, unwatched, write_numbers
from .protocols import FewShot

CHUNK = 250  # episodes that are classified together
BLOCK = 500  # images whose random numbers are drawn together
SupportFeatures = Callable[[Episode, int], Tensor]
"""Returns the (E, N, K, copies, D) support features of stacked episodes, from them and the index of the first."""


def evaluate_episodes(folder: RunFolder, settings: Sequence[FewShot]) -> dict[str, Any]:
    """Evaluate episodes of classes that a run was not trained on; write each protocol's numbers and accuracies."""
    fabric, recipe, model = reopen(folder)
    part, _ = recipe.data.novel_classes(settings[0].part)
    mean, std = input_statistics(recipe)
    numbers: dict[str, Any] = {}
    with task_bars() as watch:
        results = episode_accuracies(
            model, part, settings, augment=recipe.data.augment, mean=mean, std=std, device=fabric.device, watch=watch
        )
    for protocol, accuracies in zip(settings, results, strict=True):
        summary = summarize_accuracies(protocol.metric, accuracies)
        write_numbers(folder, protocol.metric, summary, protocol, {"each": accuracies.float().numpy()})
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
    watch: Watch = unwatched,
) -> list[Tensor]:
    """Return the accuracy in percent of every episode, (episodes,), for each of the settings.

    The settings are protocols on the same images of novel classes (views, noise, seed); they may differ in way, shot
    and classifier. `augment` are the augmentations of the training images. The model's mode is restored.
    """
    first = settings[0]
    if any(protocol.images != first.images for protocol in settings):
        raise OptionError("protocols differ in their images (views, noise, part, seed): evaluate them one at a time.")
    steps: tuple[Augmentation, ...] = ()
    if first.view != "plain":
        steps = tuple(step for step in augment if first.view == "training" or not isinstance(step, ColorJitter))
    encoder = Encoder(model, part, steps, Normalize(mean, std), torch.device(device), first)
    episodes = [_draw_episodes(part.labels[part.rows], protocol) for protocol in settings]
    with evaluation_mode(model):
        queries = encoder.plain(watch)
        support_of: SupportFeatures = encoder.copies
        if first.views:
            support_of = encoder.views(_needed_views(episodes, len(part), first.views), watch)
        return [
            _accuracies(drawn, protocol, queries, support_of, watch)
            for drawn, protocol in zip(episodes, settings, strict=True)
        ]


@torch.no_grad()
def feature_accuracies(features: Tensor, labels: Tensor, protocol: FewShot) -> Tensor:
    """Return the accuracy in percent of every episode, (episodes,), on (N, D) features without augmentation."""
    features = F.normalize(features, dim=1) if protocol.unit else features

    def support_of(chunk: Episode, first: int) -> Tensor:
        return features[chunk.support][:, :, :, None].expand(-1, -1, -1, protocol.repeats, -1)

    return _accuracies(_draw_episodes(labels, protocol), protocol, features, support_of)


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
    episodes: Episodes,
    protocol: FewShot,
    queries: Tensor,
    support_of: SupportFeatures,
    watch: Watch = unwatched,
) -> Tensor:
    """Return (episodes,) accuracies in percent, computed in chunks."""
    accuracies = []
    for start in range(0, len(episodes), CHUNK):
        stop = min(start + CHUNK, len(episodes))
        chunk = episodes.stack(start, stop)
        accuracies.append(_accuracy(support_of(chunk, start), queries[chunk.queries.to(queries.device)], protocol))
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


Draw = tuple[Purpose, *tuple[int, ...]]
"""The purpose of a random draw, and the numbers that distinguish it from other draws with the same purpose."""


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
            features.append(self._encode(self._pixels(rows), (Purpose.QUERY_IMAGES, start)))
            watch("images", int(rows[-1]) + 1, len(self.part))
        return torch.cat(features)

    def views(self, needed: Tensor, watch: Watch) -> SupportFeatures:
        """Encode the views that `needed`, (N, V) bool, selects; return a function that looks up episodes' views."""
        index = torch.full(needed.shape, -1)
        index[needed] = torch.arange(int(needed.sum()))
        features: Tensor | None = None
        done = 0
        for view in range(needed.shape[1]):
            for start, rows in _blocks(len(needed)):
                selected = needed[rows, view].nonzero().flatten()
                if not len(selected):
                    continue
                draw: Draw = (Purpose.SUPPORT_VIEWS, view, start)
                images = self._augmented(rows[selected], draw, selected, len(rows))
                encoded = self._encode(images, draw, selected, len(rows))
                if features is None:
                    features = encoded.new_empty(int(needed.sum()), encoded.shape[1])
                features[index[rows[selected], view].to(encoded.device)] = encoded
                done += len(selected)
                watch("views", done, len(features))
        assert features is not None
        encoded_views = features
        return lambda chunk, _: encoded_views[index[chunk.support[..., None], chunk.views].to(encoded_views.device)]

    def copies(self, chunk: Episode, first: int) -> Tensor:
        """Augment and encode every copy of every support image: (E, N, K, copies, D)."""
        features = []
        for number, images in enumerate(chunk.support, start=first):
            rows = images.flatten().repeat_interleave(chunk.views.shape[-1])
            draw: Draw = (Purpose.SUPPORT_COPIES, number)
            features.append(self._encode(self._augmented(rows, draw), draw))
        stacked = torch.stack(features)
        return stacked.view(len(features), *chunk.views.shape[1:], stacked.shape[-1])

    def _pixels(self, rows: Tensor) -> Tensor:
        return self.part.take(rows)[0].to(self.device).float().div_(255)

    def _augmented(self, rows: Tensor, draw: Draw, selected: Tensor | None = None, total: int = 0) -> Tensor:
        purpose, *numbers = draw
        images, generator = self._pixels(rows), purpose.generator(self.settings.seed, *numbers)
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
        purpose, *numbers = draw
        generator = Purpose.PIXEL_NOISE.generator(self.settings.seed, purpose.number, *numbers)
        noise = torch.randn(total or len(images), *images.shape[1:], generator=generator)
        return self.settings.noise * (noise if selected is None else noise[selected]).to(self.device)


def _blocks(images: int) -> Iterator[tuple[int, Tensor]]:
    for start in range(0, images, BLOCK):
        yield start, torch.arange(start, min(start + BLOCK, images))
