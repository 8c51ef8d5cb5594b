"""Few-shot episodes: N classes, K support images and Q query images of each, determined by the episode's index.

Nothing is drawn from a stream: episode i is the same whichever worker draws it and however many others are drawn. Every
model therefore sees the same episodes, and models can be compared episode by episode.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import OptionError
from ..seeds import Purpose


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
    queries from the remaining ones.

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
        self._check()

    def __len__(self) -> int:
        return self.episodes

    def __getitem__(self, index: int) -> Episode:
        if not 0 <= index < self.episodes:
            raise IndexError(f"episode {index} does not exist: must be 0 to {self.episodes - 1}.")
        generator = Purpose.EPISODE.generator(self.seed, index)
        classes = torch.randperm(len(self.rows), generator=generator)[: self.way]
        images = torch.stack([self._draw(self.rows[label], generator) for label in classes.tolist()])
        order = torch.rand(self.way, self.shot, max(self.views, self.copies), generator=generator).argsort(-1)
        views = order[..., : self.copies] if self.views else torch.zeros_like(order[..., : self.copies])
        return Episode(classes, images[:, : self.shot], images[:, self.shot :], views)

    def stack(self, first: int, last: int) -> Episode:
        """Stack the episodes from `first` up to but excluding `last` along a new first dimension."""
        return Episode(*(torch.stack(parts) for parts in zip(*(self[i] for i in range(first, last)), strict=True)))

    def _draw(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        return rows[torch.randperm(len(rows), generator=generator)[: self.shot + self.queries]]

    def _check(self) -> None:
        for name in ("way", "shot", "queries", "episodes", "copies"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)}: must be at least 1.")
        if self.way < 2 or self.way > len(self.rows):
            raise OptionError(f"way is {self.way}: must be 2 to {len(self.rows)}, the number of classes.")
        if 0 < self.views < self.copies or self.views < 0:
            raise OptionError(f"views is {self.views}: must be 0, or at least the number of copies, {self.copies}.")
        fewest = min(len(rows) for rows in self.rows)
        if fewest < self.shot + self.queries:
            raise OptionError(
                f"{self.shot} support and {self.queries} query images need {self.shot + self.queries} per class, but a "
                f"class has {fewest}: lower shot or queries."
            )
