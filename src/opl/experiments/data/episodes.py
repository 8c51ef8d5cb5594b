"""Few-shot episodes: N classes, K images of each to learn from, others to be tested on; each a function of its number.

Nothing is drawn in a stream: episode i is the same whichever worker draws it, alone or among thousands, so every model
meets the same episodes and differences between models can be taken episode by episode.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import OptionError
from ..seeds import Purpose


class Episode(NamedTuple):
    """Which images: `classes` (N,) ids, `support` (N, K) and `queries` (N, Q) places in the part, class by class.

    `views` (N, K, copies) says which augmented view of a support image each copy is.
    """

    classes: Tensor
    support: Tensor
    queries: Tensor
    views: Tensor


class Episodes:
    """Episodes over the classes of a part of a data set; indexed and counted like a list, so a loader takes it too.

    Classes are uniform without replacement, then images of each: first the support, then the queries from the rest.

    Args:
        labels: (N,) class ids of the part's images.
        way: classes in an episode.
        shot: images of each class to learn from.
        queries: other images of each class, to be tested on.
        episodes: how many there are.
        seed: of all of them.
        copies: of each support image.
        views: how many views of an image there are to choose its copies from; 0 gives every copy the view 0.

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
        self.places = [(labels == each).nonzero().flatten() for each in sorted(set(labels.tolist()))]
        self._check()

    def __len__(self) -> int:
        return self.episodes

    def __getitem__(self, index: int) -> Episode:
        if not 0 <= index < self.episodes:
            raise IndexError(f"episode {index} does not exist: there are {self.episodes}, counted from 0.")
        chance = Purpose.EPISODE.generator(self.seed, index)
        classes = torch.randperm(len(self.places), generator=chance)[: self.way]
        images = torch.stack([self._draw(self.places[each], chance) for each in classes.tolist()])
        order = torch.rand(self.way, self.shot, max(self.views, self.copies), generator=chance).argsort(-1)
        views = order[..., : self.copies] if self.views else torch.zeros_like(order[..., : self.copies])
        return Episode(classes, images[:, : self.shot], images[:, self.shot :], views)

    def stack(self, first: int, last: int) -> Episode:
        """The episodes from `first` to before `last`, one dimension more in front."""
        return Episode(*(torch.stack(parts) for parts in zip(*(self[i] for i in range(first, last)), strict=True)))

    def _draw(self, places: Tensor, chance: torch.Generator) -> Tensor:
        return places[torch.randperm(len(places), generator=chance)[: self.shot + self.queries]]

    def _check(self) -> None:
        for name in ("way", "shot", "queries", "episodes", "copies"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)}: give a whole number of at least 1.")
        if self.way < 2 or self.way > len(self.places):
            raise OptionError(f"way is {self.way}: give 2 to {len(self.places)}, the classes that there are.")
        if 0 < self.views < self.copies or self.views < 0:
            raise OptionError(f"{self.copies} copies cannot differ among {self.views} views: give at least as many.")
        fewest = min(len(each) for each in self.places)
        if fewest < self.shot + self.queries:
            raise OptionError(
                f"{self.shot} images to learn from and {self.queries} to test on need {self.shot + self.queries} of "
                f"each class, and one has {fewest}: lower shot or queries."
            )
