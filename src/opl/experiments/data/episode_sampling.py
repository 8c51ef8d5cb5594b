"""Few-shot episodes, determined by their index: N classes with K support images, and the episodes of Meta-Dataset.

Nothing is drawn from a stream: episode i is the same whichever worker draws it and however many others are drawn. Every
model therefore sees the same episodes, and models can be compared episode by episode.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import OptionError
from ..seeds import Purpose

FEWEST_WAYS, MOST_WAYS = 5, 50
MOST_QUERIES = 10
"""Query images per class, at most; also at most half of the smallest class of the episode."""
MOST_SUPPORT = 500
MOST_OF_A_CLASS = 100
"""Images of a class that count toward the size of the support set, at most; imbalance may add more."""
MOST_LEAVES = 392
"""Classes below a node of a hierarchy, at most, for the node to be chosen."""
LOG_WEIGHTS = (math.log(0.5), math.log(2.0))


class Episode(NamedTuple):
    """The images of an episode: `classes` (N,) ids, and per class, `support` (N, K) and `queries` (N, Q) indices.

    `views` (N, K, copies) holds the index of the augmented view for each copy of a support image.
    """

    classes: Tensor
    support: Tensor
    queries: Tensor
    views: Tensor


class Episodes:
    """Episodes over the classes of a part of a data set; a sequence, so that a data loader accepts it too.

    Classes are drawn uniformly without replacement, then the images of each class: first the support images, then the
    queries from the remaining images.

    Args:
        labels: (N,) class ids of the part's images.
        way: classes per episode.
        shot: support images per class.
        queries: query images per class.
        episodes: number of episodes.
        seed: random seed of all episodes.
        copies: copies of each support image.
        views: number of views of an image from which its copies are chosen; 0 gives every copy view 0.

    Example:
        >>> episodes = Episodes(torch.arange(60) % 6, way=5, shot=1, queries=2, episodes=100, seed=0)
        >>> [tuple(part.shape) for part in episodes[7]]
        [(5,), (5, 1), (5, 2), (5, 1, 1)]
    """

    def __init__(
        self,
        labels: Tensor,
        *,
        way: int = 5,
        shot: int = 1,
        queries: int = 15,
        episodes: int = 3000,
        seed: int = 0,
        copies: int = 1,
        views: int = 0,
    ) -> None:
        self.way, self.shot, self.queries, self.episodes, self.seed = way, shot, queries, episodes, seed
        self.copies, self.views = copies, views
        self.rows = [(labels == label).nonzero().flatten() for label in sorted(set(labels.tolist()))]
        if way < 2 or way > len(self.rows):
            raise OptionError(f"way is {way} but must be 2 to {len(self.rows)}, the number of classes.")
        if 0 < views < copies or views < 0:
            raise OptionError(f"views is {views} but must be 0, or at least the number of copies, {copies}.")
        fewest = min(len(rows) for rows in self.rows)
        if fewest < shot + queries:
            raise OptionError(
                f"{shot} support and {queries} query images need {shot + queries} per class, but a class has {fewest}: "
                "lower shot or queries."
            )

    def __len__(self) -> int:
        return self.episodes

    def __getitem__(self, index: int) -> Episode:
        if not 0 <= index < self.episodes:
            raise IndexError(f"episode {index} does not exist: must be 0 to {self.episodes - 1}.")
        generator = Purpose.EPISODE.generator(self.seed, index)
        classes = torch.randperm(len(self.rows), generator=generator)[: self.way]
        images_per_class = self.shot + self.queries
        images = torch.stack([_draw(self.rows[label], images_per_class, generator) for label in classes.tolist()])
        order = torch.rand(self.way, self.shot, max(self.views, self.copies), generator=generator).argsort(-1)
        views = order[..., : self.copies] if self.views else torch.zeros_like(order[..., : self.copies])
        return Episode(classes, images[:, : self.shot], images[:, self.shot :], views)

    def stack(self, first: int, last: int) -> Episode:
        """Stack the episodes from `first` up to but excluding `last` along a new first dimension."""
        return Episode(*(torch.stack(parts) for parts in zip(*(self[i] for i in range(first, last)), strict=True)))


# Meta-Dataset


class Hierarchy(NamedTuple):
    """Sets of related classes; all classes of an episode are taken from one set."""

    sets: tuple[tuple[int, ...], ...]
    """Class ids; sets of fewer than five classes are never chosen."""
    whole: bool = False
    """Take all classes of a set, at most 50 (ImageNet), instead of a uniform number of them (Omniglot)."""


class Composition(NamedTuple):
    """The classes and sizes of an episode, before its images are drawn."""

    classes: Tensor
    """(N,) class ids."""
    support: Tensor
    """(N,) support images of each class."""
    queries: int
    """Query images of each class."""
    size: int
    """The intended size of the support set; rounding down leaves fewer images."""


class VariableEpisode(NamedTuple):
    """The images of an episode, as indices within a part; labels count the classes of the episode from 0."""

    support: Tensor
    support_labels: Tensor
    queries: Tensor
    query_labels: Tensor
    way: int


class MetaEpisodes:
    """Episodes whose ways, shots and imbalance vary, and whose classes may be related; a sequence.

    Images are drawn uniformly from all images of a class. The readers that SUR was published with took them in the
    order of the file instead, which changed its numbers.

    Args:
        labels: (N,) class ids of the part's images.
        episodes: number of episodes.
        seed: random seed of all episodes.
        hierarchy: sets of related classes; None draws a uniform number of classes from all.

    Example:
        >>> episodes = MetaEpisodes(torch.arange(300) % 10, episodes=100, seed=0)
        >>> episode = episodes[7]
        >>> 5 <= episode.way <= 10, len(episode.queries) == 10 * episode.way
        (True, True)
    """

    def __init__(self, labels: Tensor, *, episodes: int, seed: int, hierarchy: Hierarchy | None = None) -> None:
        self.counts = labels.bincount()
        self.rows = torch.split(labels.argsort(stable=True), self.counts.tolist())
        usable = {number for number, count in enumerate(self.counts.tolist()) if count >= 2}
        sets = hierarchy.sets if hierarchy else (tuple(sorted(usable)),)
        kept = [torch.tensor([label for label in classes if label in usable]) for classes in sets]
        most = MOST_LEAVES if hierarchy and hierarchy.whole else len(self.counts)
        self.sets: Sequence[Tensor] = [classes for classes in kept if FEWEST_WAYS <= len(classes) <= most]
        self.whole = hierarchy.whole if hierarchy else False
        self.episodes, self.seed = episodes, seed
        if not self.sets:
            raise OptionError(
                f"an episode needs {FEWEST_WAYS} related classes of two images or more, but there are "
                f"{max(map(len, kept), default=0)}: use a part with more classes."
            )

    def __len__(self) -> int:
        return self.episodes

    def __getitem__(self, index: int) -> VariableEpisode:
        if not 0 <= index < self.episodes:
            raise IndexError(f"episode {index} does not exist: must be 0 to {self.episodes - 1}.")
        generator = Purpose.EPISODE.generator(self.seed, index)
        classes, shots, queries, _ = self._compose(generator)
        support, query = [], []
        for number, shot in zip(classes.tolist(), shots.tolist(), strict=True):
            drawn = _draw(self.rows[number], shot + queries, generator)
            support.append(drawn[:shot])
            query.append(drawn[shot:])
        ids = torch.arange(len(classes))
        labels = ids.repeat_interleave(shots), ids.repeat_interleave(queries)
        return VariableEpisode(torch.cat(support), labels[0], torch.cat(query), labels[1], len(classes))

    def composition(self, index: int) -> Composition:
        """Return the classes and sizes of an episode, without its images."""
        return self._compose(Purpose.EPISODE.generator(self.seed, index))

    def _compose(self, generator: torch.Generator) -> Composition:
        """Draw the classes and sizes of an episode by the rules of Meta-Dataset."""
        classes = self._classes(generator)
        images = self.counts[classes].double()
        queries = min(MOST_QUERIES, int(images.min()) // 2)
        available = images - queries
        share = torch.rand((), generator=generator, dtype=torch.float64)
        size = min(MOST_SUPPORT, int((share * available.clamp(max=MOST_OF_A_CLASS) + 1).floor().sum()))
        low, high = LOG_WEIGHTS
        weights = (
            images * (low + (high - low) * torch.rand(len(classes), generator=generator, dtype=torch.float64)).exp()
        )
        shots = (weights / weights.sum() * (size - len(classes))).floor() + 1
        return Composition(classes, shots.minimum(available).long(), queries, size)

    def _classes(self, generator: torch.Generator) -> Tensor:
        """Choose a set of related classes, then classes of it, without replacement."""
        classes = self.sets[_below(len(self.sets), generator)]
        most = min(MOST_WAYS, len(classes))
        if self.whole and len(classes) <= MOST_WAYS:
            return classes
        way = most if self.whole else FEWEST_WAYS + _below(most - FEWEST_WAYS + 1, generator)
        return classes[torch.randperm(len(classes), generator=generator)[:way]]


def _draw(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    return rows[torch.randperm(len(rows), generator=generator)[:count]]


def _below(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=generator))
