"""From pixels to features: every image and every view of it is encoded once, with its own random numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...data.augment import Normalize
from ...data.episodes import Episode
from ...seeds import Purpose
from ...types import Augmentation, Images
from .settings import FewShot

BLOCK = 500  # images whose random numbers are drawn together

Watch = Callable[[str, int, int], None]
"""Called with the name of the task, the amount done, and the total."""


class ViewTable:
    """Features of augmented views: `table[places, views]` returns those of the given images and views."""

    def __init__(self, index: Tensor, features: Tensor) -> None:
        self.index, self.features = index, features

    def __getitem__(self, which: tuple[Tensor, Tensor]) -> Tensor:
        places, views = which
        return self.features[self.index[places, views].to(self.features.device)]


class Draw(NamedTuple):
    """The purpose of a random draw, and the numbers that distinguish it from others with the same purpose."""

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
        found = []
        for start, rows in _blocks(len(self.part)):
            found.append(self._encode(self._pixels(rows), Draw(Purpose.QUERY_IMAGES, (start,))))
            watch("images", int(rows[-1]) + 1, len(self.part))
        return torch.cat(found)

    def table(self, needed: Tensor, watch: Watch) -> ViewTable:
        """Encode the views that `needed`, (N, V) bool, selects."""
        index = torch.full(needed.shape, -1)
        index[needed] = torch.arange(int(needed.sum()))
        features: Tensor | None = None
        done = 0
        for view in range(needed.shape[1]):
            for start, rows in _blocks(len(needed)):
                places = needed[rows, view].nonzero().flatten()
                if not len(places):
                    continue
                draw = Draw(Purpose.SUPPORT_VIEWS, (view, start))
                images = self._augmented(rows[places], draw, places, len(rows))
                found = self._encode(images, draw, places, len(rows))
                if features is None:
                    features = found.new_empty(int(needed.sum()), found.shape[1])
                features[index[rows[places], view].to(found.device)] = found
                done += len(places)
                watch("views", done, len(features))
        assert features is not None
        return ViewTable(index, features)

    def copies(self, chunk: Episode, first: int) -> Tensor:
        """Augment and encode every copy of every support image: (E, N, K, copies, D)."""
        found = []
        for number, places in enumerate(chunk.support, start=first):
            rows = places.flatten().repeat_interleave(chunk.views.shape[-1])
            draw = Draw(Purpose.SUPPORT_COPIES, (number,))
            found.append(self._encode(self._augmented(rows, draw), draw))
        together = torch.stack(found)
        return together.view(len(found), *chunk.views.shape[1:], together.shape[-1])

    def _pixels(self, places: Tensor) -> Tensor:
        return self.part.take(places)[0].to(self.device).float().div_(255)

    def _augmented(self, places: Tensor, draw: Draw, among: Tensor | None = None, of: int = 0) -> Tensor:
        images, chance = self._pixels(places), draw.purpose.generator(self.settings.seed, *draw.numbers)
        for augmentation in self.augment:
            images = augmentation(images, chance, among, of or None)
        return images

    def _encode(self, images: Tensor, draw: Draw, among: Tensor | None = None, of: int = 0) -> Tensor:
        """Encode images in [0, 1], which are those at the indices `among` in a block of `of` images."""
        noise = self._noise(images, draw, among, of)
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

    def _noise(self, images: Tensor, draw: Draw, among: Tensor | None, of: int) -> Tensor | None:
        if not self.settings.noise:
            return None
        chance = Purpose.PIXEL_NOISE.generator(self.settings.seed, draw.purpose.number, *draw.numbers)
        drawn = torch.randn(of or len(images), *images.shape[1:], generator=chance)
        return self.settings.noise * (drawn if among is None else drawn[among]).to(self.device)


def _blocks(images: int) -> Iterator[tuple[int, Tensor]]:
    for start in range(0, images, BLOCK):
        yield start, torch.arange(start, min(start + BLOCK, images))
