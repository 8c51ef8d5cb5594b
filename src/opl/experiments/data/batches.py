"""Batches whose order and augmentation depend only on (seed, epoch, step), not on history or process count."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from ...errors import OptionError
from ..seeds import Purpose
from ..types import Augmentation, Batch, Images, Request
from .augment import Flip, Normalize, PadCrop

MOVES = (PadCrop, Flip)
"""Augmentations that only move pixels, which is the same and faster before the conversion to floats."""


class Batches:
    """A part of a data set as batches for the model: shuffled and augmented, or plain.

    Global batch k of an epoch is `order[k * batch_size : (k + 1) * batch_size]`. Process `rank` of `world` takes a
    contiguous, nearly even shard of it, which is empty if the last batch has fewer images than there are processes.

    Args:
        part: the images.
        batch_size: size of the global batch; the last batch of an epoch may be smaller.
        drop_last: drop a smaller last batch of an epoch, unless it is the only one.
        seed: determines the order together with the epoch, and the augmentation together with epoch and step.
        augment: applied in this order to images in [0, 1], before normalization.
        mean: mean of each channel.
        std: standard deviation of each channel.
        device: where batches are placed and augmented.
        rank: index of this process.
        world: number of processes.
        balance_domains: draw equally many images per domain into every batch (see `balanced_order`); needs domains.
        mirror_batches: append the mirror images of every batch to it, with the same labels.
        views: independently augmented copies of each image in a batch, one after the other; labels and rows repeat.
        alternate_flip: flip a random half of the images in even epochs, and the other half in odd ones.
        growing_sizes: fractions of training, each with the size that images are reduced to until then.
        epochs: number of training epochs, for `growing_sizes`.
        channels_last: store images as (B, H, W, C) in memory, which is faster for convolutions; the shape is unchanged.

    Example:
        >>> part = Images(torch.zeros(10, 1, 8, 8, dtype=torch.uint8), torch.zeros(10).long(), torch.arange(10))
        >>> batches = Batches(part, 4, seed=0, augment=(), mean=(0.5,), std=(0.5,), device="cpu")
        >>> [len(batch.labels) for batch in batches.epoch(0)]
        [4, 4, 2]
    """

    def __init__(
        self,
        part: Images,
        batch_size: int,
        *,
        drop_last: bool = False,
        seed: int,
        augment: tuple[Augmentation, ...],
        mean: tuple[float, ...],
        std: tuple[float, ...],
        device: torch.device | str,
        rank: int = 0,
        world: int = 1,
        balance_domains: bool = False,
        mirror_batches: bool = False,
        views: int = 1,
        alternate_flip: bool = False,
        growing_sizes: tuple[tuple[float, int], ...] = (),
        epochs: int = 1,
        channels_last: bool = True,
    ) -> None:
        if balance_domains and part.domains is None:
            raise OptionError(
                "these images have no domains to balance: set balance_domains=False, or use data with domains."
            )
        self.part, self.batch_size, self.seed, self.augment = part, batch_size, seed, augment
        self.balance_domains, self.mirror_batches, self.views = balance_domains, mirror_batches, views
        self.alternate_flip, self.growing_sizes, self.epochs = alternate_flip, growing_sizes, epochs
        self.normalize, self.device = Normalize(mean, std), torch.device(device)
        self.rank, self.world = rank, world
        batches = len(part) // batch_size if drop_last else -(-len(part) // batch_size)
        self.steps = max(batches, min(1, len(part)))  # per epoch
        self.layout = torch.channels_last if channels_last else torch.contiguous_format

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Batch]:
        """Yield this process's shard of each batch of an epoch, starting at `start_step`."""
        order = self._order(Purpose.ORDER.generator(self.seed, epoch))
        steps = range(start_step, self.steps)
        requests = [self._request(order, epoch, step) for step in steps]
        for step, request, (pixels, labels) in zip(steps, requests, self.part.serve(requests), strict=True):
            rows, _, share, total = request
            generator = Purpose.AUGMENT.generator(self.seed, epoch, step)
            views = [self._augment(pixels.to(self.device), generator, share, total) for _ in range(self.views)]
            views = [self._resize(self._flip(images, rows, epoch), epoch, step) for images in views]
            weight = self.world / total / self.views
            images = torch.cat(views) if self.views > 1 else views[0]
            batch = self._batch(images, labels.repeat(self.views), rows.repeat(self.views), weight)
            yield append_mirror_images(batch) if self.mirror_batches else batch

    def _augment(self, images: Tensor, generator: torch.Generator, share: slice, total: int) -> Tensor:
        """Return one view of the images, as floats in [0, 1]."""
        for augmentation in self.augment:
            if not isinstance(augmentation, MOVES) and images.dtype == torch.uint8:
                images = self._floats(images)
            images = augmentation(images, generator, share, total)
        return self._floats(images) if images.dtype == torch.uint8 else images

    def _flip(self, images: Tensor, rows: Tensor, epoch: int) -> Tensor:
        """Flip the images whose turn it is in this epoch."""
        if not self.alternate_flip:
            return images
        first = torch.randint(2, (len(self.part),), generator=Purpose.FLIP.generator(self.seed))
        chosen = ((first[rows.cpu()] + epoch) % 2 == 1).to(images.device)
        return torch.where(chosen[:, None, None, None], images.flip(3), images)

    def _resize(self, images: Tensor, epoch: int, step: int) -> Tensor:
        """Reduce the images to the size of this stage of training."""
        done = (epoch * self.steps + step) / (self.epochs * self.steps)
        size = next((size for until, size in self.growing_sizes if done < until), images.shape[2])
        if size >= images.shape[2]:
            return images
        return F.interpolate(images, size, mode="bilinear", antialias=True, align_corners=False)

    def plain(self, batch_size: int) -> Iterator[Batch]:
        """Yield this process's shard of all images in order, normalized but not augmented, `batch_size` at a time."""
        share, most = self._share(len(self.part)), min(batch_size, self.part.most_at_once or batch_size)
        shards = [torch.arange(start, min(start + most, share.stop)) for start in range(share.start, share.stop, most)]
        for rows, (pixels, labels) in zip(shards, self.part.serve(map(Request, shards)), strict=True):
            yield self._batch(self._floats(pixels), labels, rows, 1 / len(rows))

    def _order(self, shuffle: torch.Generator) -> Tensor:
        if self.balance_domains and self.part.domains is not None:
            return balanced_order(self.part.domains[self.part.rows], shuffle)
        return torch.randperm(len(self.part), generator=shuffle)

    def _share(self, count: int) -> slice:
        return slice(count * self.rank // self.world, count * (self.rank + 1) // self.world)

    def _request(self, order: Tensor, epoch: int, step: int) -> Request:
        """Return this process's shard of a batch."""
        rows = order[step * self.batch_size : (step + 1) * self.batch_size]
        share = self._share(len(rows))
        return Request(rows[share], Purpose.CROP.seed(self.seed, epoch, step), share, len(rows))

    def _floats(self, pixels: Tensor) -> Tensor:
        return pixels.to(self.device).float().div_(255)

    def _batch(self, images: Tensor, labels: Tensor, rows: Tensor, sample_weight: float) -> Batch:
        images = self.normalize.in_place(images).contiguous(memory_format=self.layout)
        return Batch(images, labels.to(self.device), rows.to(self.device), sample_weight)


def balanced_order(domains: Tensor, shuffle: torch.Generator) -> Tensor:
    """Return an order of all images in which the domains alternate.

    In any contiguous part of the order, the numbers of images per domain differ by at most one. The order is as long as
    the number of images: small domains are repeated, reshuffled each time, and large domains are not used completely.

    Example:
        >>> domains = torch.tensor([0, 0, 0, 0, 0, 1])
        >>> domains[balanced_order(domains, torch.Generator().manual_seed(0))]
        tensor([0, 1, 0, 1, 0, 1])
    """
    order, present = torch.empty_like(domains), domains.bincount().nonzero().flatten().tolist()
    for index, domain in enumerate(present):
        rows, count = (domains == domain).nonzero().flatten(), len(order[index :: len(present)])
        rounds = [rows[torch.randperm(len(rows), generator=shuffle)] for _ in range(-(-count // len(rows)))]
        order[index :: len(present)] = torch.cat(rounds)[:count]
    return order


def append_mirror_images(batch: Batch) -> Batch:
    """Append the horizontally flipped images to a batch; the weight of each image is halved.

    Example:
        >>> batch = Batch(torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([5]), torch.tensor([0]), 1.0)
        >>> doubled = append_mirror_images(batch)
        >>> doubled.images.flatten(), doubled.labels, doubled.sample_weight
        (tensor([1., 2., 2., 1.]), tensor([5, 5]), 0.5)
    """
    layout = torch.channels_last if batch.images.is_contiguous(memory_format=torch.channels_last) else None
    images = torch.cat([batch.images, batch.images.flip(3)])
    images = images.contiguous(memory_format=layout) if layout else images
    return Batch(images, batch.labels.repeat(2), batch.rows.repeat(2), batch.sample_weight / 2)
