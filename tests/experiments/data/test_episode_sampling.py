"""Episodes follow their rules, and depend only on seed and index."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats
from torch.utils.data import DataLoader

from opl.errors import OptionError
from opl.experiments.data.episode_sampling import Episodes, Hierarchy, MetaEpisodes


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


def test_an_episode_depends_only_on_its_index():
    labels, options = torch.arange(120) % 6, {"queries": 5, "copies": 2, "views": 3}
    drawn, other = (Episodes(labels, episodes=40, seed=seed, **options) for seed in (7, 8))
    for workers in (0, 1, 2):
        loader = DataLoader(drawn, batch_size=None, num_workers=workers, collate_fn=lambda one: one)
        for number, episode in enumerate(loader):
            for part, expected in zip(episode, drawn[number], strict=True):
                assert torch.equal(part, expected)
    assert not torch.equal(drawn[0].support, drawn[1].support)
    assert not torch.equal(drawn[0].support, other[0].support)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"way": 7}, "must be 2 to 6"),
        ({"way": 1}, "must be 2 to 6"),
        ({"shot": 6}, "need 21 per class, but a class has 20"),
        ({"copies": 5, "views": 3}, "number of copies, 5"),
    ],
)
def test_impossible_episodes_are_refused(options, expected):
    with pytest.raises(OptionError, match=expected):
        Episodes(torch.arange(120) % 6, **options)


EPISODES = 20_000
COUNTS = np.array([2, 7, 11, 19, 20, 21, 33, 50, 64, 99, 100, 110, 111, 150, 220, 340, 500, 800, 1500, 1500] * 3)
LABELS = torch.arange(len(COUNTS)).repeat_interleave(torch.from_numpy(COUNTS))


def compositions(labels, hierarchy=None, seed=0, episodes=EPISODES):
    drawn = MetaEpisodes(labels, episodes=episodes, seed=seed, hierarchy=hierarchy)
    return [drawn.composition(index) for index in range(episodes)]


@pytest.fixture(scope="module")
def drawn():
    return compositions(LABELS)


def uniform(values, low, high):
    """The p-value of whole numbers being uniform from `low` to `high`."""
    seen = np.bincount(values, minlength=high + 1)
    assert seen[:low].sum() == 0
    assert len(seen) == high + 1
    return stats.chisquare(seen[low:]).pvalue


def test_ways_are_uniform_from_5_to_50_and_classes_equally_frequent(drawn):
    ways = np.array([len(composition.classes) for composition in drawn])
    assert uniform(ways, 5, 50) > 1e-3
    assert all(len(set(composition.classes.tolist())) == len(composition.classes) for composition in drawn)
    classes = np.bincount(np.concatenate([composition.classes.numpy() for composition in drawn]), minlength=len(COUNTS))
    # of a class without replacement, counts vary less than in a chi-square test: compare with the binomial spread
    share = ways.mean() / len(COUNTS)
    assert np.abs(classes / EPISODES - share).max() < 4.5 * math.sqrt(share * (1 - share) / EPISODES)


def test_few_classes_give_ways_up_to_their_number():
    few = compositions(torch.arange(8).repeat_interleave(30), episodes=4000)
    assert uniform([len(composition.classes) for composition in few], 5, 8) > 1e-3


def test_bounds_hold_in_every_episode(drawn):
    for composition in drawn:
        images = COUNTS[composition.classes.numpy()]
        assert composition.queries == min(10, images.min() // 2) >= 1
        left = images - composition.queries
        assert len(images) <= composition.size <= min(500, np.minimum(100, left).sum() + len(images))
        assert composition.size <= 100 * len(images)  # what a class counts for the size
        shots = composition.support.numpy()
        assert (shots >= 1).all()
        assert (shots <= left).all()
        assert shots.sum() <= composition.size <= 500


def test_support_sizes_follow_a_uniform_share_of_each_class(drawn):
    """The share from which the rule makes the size lies in an interval, whose ends must be spread uniformly."""
    shares = []
    for composition in drawn[:6000]:
        left = np.minimum(100, COUNTS[composition.classes.numpy()] - composition.queries)
        grid = np.linspace(0, 1, 1001)
        sizes = np.minimum(500, np.floor(grid[:, None] * left + 1).sum(1))
        here = grid[(sizes == composition.size)]
        if composition.size < 500 and len(here):
            shares.append((here.mean(), (sizes < 500).mean()))
    middle, top = np.array(shares).T  # given that a size is below 500, its share is uniform up to `top`
    assert len(middle) > 2000
    assert stats.kstest(middle / top, "uniform").statistic < 0.035


def test_support_sizes_of_equal_classes_follow_the_rule_exactly():
    """With 25 images a class, q is 10 and each of n classes gives 1 to 15: all sizes n, 2n, ..., 15n are as likely."""
    equal = compositions(torch.arange(30).repeat_interleave(25), episodes=4000)
    assert all(composition.queries == 10 for composition in equal)
    multiples = [composition.size // len(composition.classes) for composition in equal if composition.size < 500]
    whole = [composition.size % len(composition.classes) == 0 for composition in equal if composition.size < 500]
    assert all(whole)
    small = [composition.size // len(composition.classes) for composition in equal if len(composition.classes) <= 30]
    assert uniform(small, 1, 15) > 1e-3
    assert len(multiples) == len(equal)  # 30 classes give at most 450


def test_class_weights_follow_frequencies_up_to_a_factor_of_two():
    """In large support sets of large classes rounding is small: log(k / n) is a constant plus U(log 0.5, log 2)."""
    spreads, logs = [], []
    sizes = torch.tensor([400, 800, 1200, 1600, 2000, 4000])
    labels = torch.arange(6).repeat_interleave(sizes)
    for composition in compositions(labels, Hierarchy((tuple(range(6)),), whole=True), seed=1, episodes=8000):
        if composition.size < 450:
            continue
        images = sizes[composition.classes].double().numpy()
        weight = (composition.support.numpy() - 0.5) / images  # the middle of what floor and +1 leave
        ratio = np.log(weight / weight[0])
        spreads.append(np.abs(ratio).max())
        logs += ratio[1:].tolist()
    assert len(spreads) > 1500
    assert max(spreads) < math.log(4) + 0.12  # two factors between 1/2 and 2, and rounding
    drawn_factors = np.random.default_rng(0).uniform(math.log(0.5), math.log(2), (2, 100_000))
    assert stats.ks_2samp(logs, drawn_factors[0] - drawn_factors[1]).statistic < 0.025


def test_a_group_is_chosen_first_and_then_classes_of_it_alone():
    sets = (tuple(range(14)), tuple(range(14, 20)), tuple(range(20, 60)), (1, 2, 3))  # the last is too small
    labels = torch.arange(60).repeat_interleave(20)
    result = compositions(labels, Hierarchy(sets), episodes=4000)
    groups = [next(number for number, group in enumerate(sets) if int(one.classes[0]) in group) for one in result]
    for one, group in zip(result, groups, strict=True):
        assert set(one.classes.tolist()) <= set(sets[group])
    assert stats.chisquare(np.bincount(groups)).pvalue > 1e-3
    for number, most in ((0, 14), (1, 6), (2, 40)):
        assert uniform([len(o.classes) for o, g in zip(result, groups, strict=True) if g == number], 5, most) > 1e-3


def test_a_node_of_a_graph_gives_all_its_classes_and_at_most_fifty():
    sets = (tuple(range(8)), tuple(range(30, 130)), tuple(range(400)), (3, 4))  # 400 are too many, 2 too few
    result = compositions(torch.arange(400).repeat_interleave(4), Hierarchy(sets, whole=True), episodes=2000)
    ways = [len(composition.classes) for composition in result]
    assert set(ways) == {8, 50}
    assert stats.binomtest(ways.count(8), len(ways)).pvalue > 1e-3
    assert all(drawn.classes.tolist() == list(range(8)) for drawn in result if len(drawn.classes) == 8)
    many = np.bincount(np.concatenate([o.classes.numpy() for o in result if len(o.classes) == 50]), minlength=130)
    assert (many[:30] == 0).all()
    assert many[30:].min() > 0.3 * many[30:].max()


def test_images_are_drawn_uniformly_from_the_whole_class_without_repetition():
    labels = torch.arange(6).repeat(40)  # classes alternate, as in no file
    drawn = MetaEpisodes(labels, episodes=1500, seed=0)
    seen = np.zeros(len(labels))
    for index in range(1500):
        episode = drawn[index]
        support, queries = episode.support.tolist(), episode.queries.tolist()
        assert len({*support, *queries}) == len(support) + len(queries)
        seen[queries] += 1
        for rows, given in ((episode.support, episode.support_labels), (episode.queries, episode.query_labels)):
            classes = labels[rows]
            pairs = set(zip(given.tolist(), classes.tolist(), strict=True))
            assert len(pairs) == episode.way
    for number in range(6):
        assert stats.chisquare(seen[labels.numpy() == number]).pvalue > 1e-4


def test_an_episode_depends_on_its_seed_and_number_alone():
    one, other = (MetaEpisodes(LABELS, episodes=count, seed=3) for count in (50, 7))
    other[2]
    for mine, theirs in zip(one[5], other[5], strict=True):
        assert torch.equal(torch.as_tensor(mine), torch.as_tensor(theirs))
    assert not torch.equal(one[5].support, one[6].support)
    assert not torch.equal(one[5].support, MetaEpisodes(LABELS, episodes=50, seed=4)[5].support)
    composed = one.composition(5)
    assert len(one[5].support) == int(composed.support.sum())
    with pytest.raises(IndexError, match="episode 50 does not exist"):
        one[50]


def test_too_few_classes_are_refused():
    with pytest.raises(OptionError, match="needs 5 related classes of two images or more, but there are 4"):
        MetaEpisodes(torch.arange(4).repeat(9), episodes=1, seed=0)
    with pytest.raises(OptionError, match="there are 3"):
        MetaEpisodes(torch.arange(9).repeat(9), episodes=1, seed=0, hierarchy=Hierarchy(((0, 1, 2), (3, 4))))
