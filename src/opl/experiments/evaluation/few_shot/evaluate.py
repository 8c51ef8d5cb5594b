"""Few-shot episodes on frozen features: every image and every view of it is encoded once, then thousands of episodes
are answered together. What is held at a time does not grow with the number of episodes, but for one accuracy of each.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....errors import OptionError
from ...data.augment import Augmentation, ColorJitter, Normalize
from ...data.batches import seed_for
from ...data.episodes import Episode, Episodes
from ...types import Images
from .classifiers import CLASSIFIERS
from .settings import FewShot

BLOCK = 500  # images that draw their chance together
CHUNK = 250  # episodes that are answered together
_QUERY, _VIEW, _COPY, _NOISE = 5, 6, 7, 8  # what is drawn for one purpose says nothing about the others

Watch = Callable[[str, int, int], None]


@torch.no_grad()
def episodes(
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
    """The accuracy in per cent of every episode, (episodes,), for each of the settings.

    Args:
        model: returns `Output`; it is put into evaluation mode and back.
        part: images of the novel classes.
        settings: protocols that look at the same images (views, noise, seed) and may differ in ways, shots, classifier.
        augment: what training does to its images.
        mean: of each channel.
        std: of each channel.
        device: where the model is.
        watch: told what is done, how much of it, and of how much.
    """
    first = settings[0]
    if any(each.images != first.images for each in settings):
        raise OptionError("protocols with other images (views, noise, part, seed) are measured one at a time.")
    was_training = model.training
    model.eval()
    encoder = Encoder(model, part, _views(augment, first.view), Normalize(mean, std), torch.device(device), first)
    drawn = [_episodes(part, each) for each in settings]
    queries = encoder.plain(watch)
    table = encoder.table(_needed(drawn, len(part), first.views), watch) if first.views else None
    found = []
    for each, protocol in zip(drawn, settings, strict=True):
        right = []
        for start in range(0, len(each), CHUNK):
            chunk = each.stack(start, min(start + CHUNK, len(each)))
            support = table[chunk.support[..., None], chunk.views] if table else encoder.copies(chunk, start)
            right.append(_answer(support, queries[chunk.queries.to(queries.device)], protocol))
            watch(protocol.name, min(start + CHUNK, len(each)), len(each))
        found.append(100 * torch.cat(right))
    model.train(was_training)
    return found


class ViewTable:
    """Features of views: `table[places, views]` gives those of views of images."""

    def __init__(self, index: Tensor, features: Tensor) -> None:
        self.index, self.features = index, features

    def __getitem__(self, which: tuple[Tensor, Tensor]) -> Tensor:
        places, views = which
        return self.features[self.index[places, views].to(self.features.device)]


@dataclass(frozen=True)
class Encoder:
    """From pixels to features: augmentation, noise, normalization, network. Each image's chance is a function of the
    image and of the view, whatever else is encoded beside it."""

    model: nn.Module
    part: Images
    augment: tuple[Augmentation, ...]
    normalize: Normalize
    device: torch.device
    settings: FewShot

    def plain(self, watch: Watch) -> Tensor:
        """(N, D): every image as it is."""
        found = []
        for start, rows in _blocks(len(self.part)):
            found.append(self._encode(self._pixels(rows), (_QUERY, start)))
            watch("images", int(rows[-1]) + 1, len(self.part))
        return torch.cat(found)

    def table(self, needed: Tensor, watch: Watch) -> ViewTable:
        """The views that are `needed`, (N, V) yes or no."""
        index = torch.full(needed.shape, -1)
        index[needed] = torch.arange(int(needed.sum()))
        features: Tensor | None = None
        done = 0
        for view in range(needed.shape[1]):
            for start, rows in _blocks(len(needed)):
                places = needed[rows, view].nonzero().flatten()
                if not len(places):
                    continue
                images = self._augmented(rows[places], (_VIEW, view, start), places, len(rows))
                found = self._encode(images, (_VIEW, view, start), places, len(rows))
                if features is None:
                    features = found.new_empty(int(needed.sum()), found.shape[1])
                features[index[rows[places], view].to(found.device)] = found
                done += len(places)
                watch("views", done, len(features))
        assert features is not None
        return ViewTable(index, features)

    def copies(self, chunk: Episode, first: int) -> Tensor:
        """(E, N, K, copies, D): every copy of every support image, anew."""
        found = []
        for number, places in enumerate(chunk.support, start=first):
            rows = places.flatten().repeat_interleave(chunk.views.shape[-1])
            found.append(self._encode(self._augmented(rows, (_COPY, number)), (_COPY, number)))
        together = torch.stack(found)
        return together.view(len(found), *chunk.views.shape[1:], together.shape[-1])

    def _pixels(self, places: Tensor) -> Tensor:
        return self.part.take(places)[0].to(self.device).float().div_(255)

    def _augmented(self, places: Tensor, what: tuple[int, ...], among: Tensor | None = None, of: int = 0) -> Tensor:
        images, chance = self._pixels(places), self._chance(*what)
        for augmentation in self.augment:
            images = augmentation(images, chance, among, of or None)
        return images

    def _encode(self, images: Tensor, what: tuple[int, ...], among: Tensor | None = None, of: int = 0) -> Tensor:
        """Features of images in [0, 1], which are the places `among` of a block `of` so many."""
        noise = self._noise(images, what, among, of)
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

    def _noise(self, images: Tensor, what: tuple[int, ...], among: Tensor | None, of: int) -> Tensor | None:
        if not self.settings.noise:
            return None
        drawn = torch.randn(of or len(images), *images.shape[1:], generator=self._chance(_NOISE, *what))
        return self.settings.noise * (drawn if among is None else drawn[among]).to(self.device)

    def _chance(self, *what: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed_for(self.settings.seed, *what))


def _answer(support: Tensor, queries: Tensor, protocol: FewShot) -> Tensor:
    """(E,): which share of the queries (E, N, Q, D) is answered right after the support (E, N, K, copies, D)."""
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
    """(N, V): which views of which images any episode takes."""
    needed = torch.zeros(images, views, dtype=torch.bool)
    for each in drawn:
        for episode in map(each.__getitem__, range(len(each))):
            needed[episode.support[..., None], episode.views] = True
    return needed


def _views(augment: tuple[Augmentation, ...], view: str) -> tuple[Augmentation, ...]:
    if view == "plain":
        return ()
    return tuple(each for each in augment if view == "training" or not isinstance(each, ColorJitter))


def _blocks(images: int) -> Iterator[tuple[int, Tensor]]:
    for start in range(0, images, BLOCK):
        yield start, torch.arange(start, min(start + BLOCK, images))
