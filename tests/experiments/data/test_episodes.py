"""Which images the episodes draw."""

from collections import Counter

import pytest
import torch
from scipy import stats
from torch.utils.data import DataLoader

from opl.errors import OptionError
from opl.experiments.data.episodes import Episodes


def test_support_and_queries_are_disjoint_and_of_their_classes():
    labels = torch.arange(90) % 6
    drawn = Episodes(labels, way=4, shot=3, queries=5, episodes=200, seed=1)
    for episode in map(drawn.__getitem__, range(200)):
        assert len(set(episode.classes.tolist())) == 4
        assert labels[episode.support].eq(episode.classes[:, None]).all()
        assert labels[episode.queries].eq(episode.classes[:, None]).all()
        images = torch.cat([episode.support.flatten(), episode.queries.flatten()]).tolist()
        assert len(set(images)) == len(images) == 4 * 8


def test_classes_and_images_are_drawn_uniformly():
    labels = torch.arange(200) % 10
    drawn = Episodes(labels, way=5, shot=2, queries=3, episodes=4000, seed=0, copies=2, views=4)
    classes, support, queries, firsts, views = Counter(), Counter(), Counter(), Counter(), Counter()
    for episode in map(drawn.__getitem__, range(4000)):
        classes.update(episode.classes.tolist())
        firsts.update(episode.classes[:1].tolist())
        support.update(episode.support.flatten().tolist())
        queries.update(episode.queries.flatten().tolist())
        views.update(map(tuple, episode.views.flatten(0, 1).tolist()))
    assert all(one != two for one, two in views)
    for counts, kinds in ((classes, 10), (firsts, 10), (support, 200), (queries, 200), (views, 12)):
        assert len(counts) == kinds
        # Draws without replacement spread less than independent ones, so an honest sampler fails no more often.
        assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_an_episode_is_a_function_of_its_number_whoever_draws_it():
    drawn = Episodes(torch.arange(120) % 6, episodes=40, queries=5, seed=7, copies=2, views=3)
    longer = Episodes(torch.arange(120) % 6, episodes=4000, queries=5, seed=7, copies=2, views=3)
    for workers in (0, 1, 2):
        loader = DataLoader(drawn, batch_size=None, num_workers=workers, collate_fn=lambda one: one)
        for number, episode in enumerate(loader):
            for part, expected in zip(episode, longer[number], strict=True):
                assert torch.equal(part, expected)
    assert not torch.equal(longer[0].support, longer[1].support)
    other = Episodes(torch.arange(120) % 6, episodes=40, queries=5, seed=8, copies=2, views=3)
    assert not torch.equal(other[0].support, drawn[0].support)
    stacked = longer.stack(3, 6)
    assert torch.equal(stacked.queries[1], longer[4].queries)


BAD = {
    "too many ways": ({"way": 7}, "must be 2 to 6"),
    "one way": ({"way": 1}, "must be 2 to 6"),
    "no shot": ({"shot": 0}, "shot is 0"),
    "no episodes": ({"episodes": 0}, "episodes is 0"),
    "too few images": ({"shot": 6}, "need 21 per class, but a class has 20"),
    "more copies than views": ({"copies": 5, "views": 3}, "number of copies, 5"),
}


@pytest.mark.parametrize("name", BAD)
def test_impossible_episodes_are_refused(name):
    options, expected = BAD[name]
    with pytest.raises(OptionError, match=expected):
        Episodes(torch.arange(120) % 6, **options)
