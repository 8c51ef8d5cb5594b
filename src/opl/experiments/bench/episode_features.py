"""Synthetic features of few-shot episodes: a bank of images, and a buffer that episodes are indexed into.

They are as a network's are: 640 numbers from 0 up, of length 1, 20 classes that overlap; copies of a support image are
jittered. Episodes are 5-way with 15 queries a class.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

CLASSES, IMAGES, VIEWS, DIM, LATENT = 20, 200, 5, 640, 64
WAY, QUERIES, CHUNK = 5, 15, 300
NOISE, JITTER = 1.9, 0.9  # 1-shot accuracy is about 65 %


class Case(NamedTuple):
    """Support images a class, and copies of each."""

    shots: int
    copies: int

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.shots}-shot, {self.copies} cop{'y' if self.copies == 1 else 'ies'}"


class Bank(NamedTuple):
    """Features of all images, (images, D), and of their jittered views, (images * views, D); a class at a time."""

    plain: Tensor
    views: Tensor


def make_bank(seed: int = 0) -> Bank:
    """Draw the features of all images."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    basis, common = noise(LATENT, DIM) / LATENT**0.5, noise(DIM)
    images = noise(CLASSES, 1, LATENT) + NOISE * noise(CLASSES, IMAGES, LATENT)
    views = images[:, :, None] + JITTER * noise(CLASSES, IMAGES, VIEWS, LATENT)
    plain, jittered = (F.normalize((x @ basis + common).relu_(), dim=-1).view(-1, DIM) for x in (images, views))
    return Bank(plain, jittered)


class Buffer:
    """Where the features of one chunk of episodes are put, again and again."""

    def __init__(self, features: Bank, case: Case, count: int = CHUNK) -> None:
        self.features, self.case, self.count = features, case, count
        self.support = torch.empty(count, WAY * case.shots * case.copies, DIM)
        self.queries = torch.empty(count, WAY * QUERIES, DIM)
        self.labels = torch.arange(WAY).repeat_interleave(case.shots * case.copies)
        self.answers = torch.arange(WAY).repeat_interleave(QUERIES)

    def fill(self, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        """Support, labels and queries of other episodes."""
        generator = torch.Generator().manual_seed(seed)
        classes = torch.rand(self.count, CLASSES, generator=generator).argsort(1)[:, :WAY, None]
        order = torch.rand(self.count, WAY, IMAGES, generator=generator).argsort(2)[:, :, : self.case.shots + QUERIES]
        support, queries = torch.split(classes * IMAGES + order, [self.case.shots, QUERIES], dim=2)
        copies = support[..., None] * VIEWS + torch.arange(self.case.copies)
        torch.index_select(self.features.views, 0, copies.flatten(), out=self.support.view(-1, DIM))
        torch.index_select(self.features.plain, 0, queries.flatten(), out=self.queries.view(-1, DIM))
        return self.support, self.labels, self.queries
