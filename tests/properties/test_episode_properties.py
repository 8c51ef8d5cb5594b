"""Every episode has its classes, its support and its queries, and depends on nothing but its seed and its index."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opl.errors import OptionError
from opl.experiments.data.episode_sampling import Episodes

SEEDS = st.integers(0, 2**31)


@st.composite
def parts(draw):
    """Labels of a part of a data set, and episodes that it has images for."""
    classes, shot, queries = draw(st.integers(2, 6)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    ids = draw(st.lists(st.integers(0, 10**6), min_size=classes, max_size=classes, unique=True))
    sizes = draw(st.lists(st.integers(shot + queries, 12), min_size=classes, max_size=classes))
    labels = [each for each, size in zip(ids, sizes, strict=True) for _ in range(size)]
    labels = torch.tensor(draw(st.permutations(labels)))
    copies = draw(st.integers(1, 3))
    views = draw(st.sampled_from([0, copies, copies + 2]))
    options = {"way": draw(st.integers(2, classes)), "shot": shot, "queries": queries, "copies": copies, "views": views}
    return labels, options


@given(parts(), SEEDS, st.integers(0, 50))
def test_ways_shots_and_queries_are_exact_and_share_no_image(part, seed, index):
    labels, options = part
    classes, support, queries, views = Episodes(labels, episodes=51, seed=seed, **options)[index]
    way, shot = options["way"], options["shot"]
    assert support.shape == (way, shot)
    assert queries.shape == (way, options["queries"])
    assert views.shape == (way, shot, options["copies"])
    images = torch.cat([support, queries], 1)
    assert images.unique().numel() == images.numel()
    ids = sorted(set(labels.tolist()))
    assert len(set(classes.tolist())) == way
    for place, each in enumerate(classes.tolist()):
        assert (labels[images[place]] == ids[each]).all()


@given(parts(), SEEDS)
def test_the_views_of_a_support_image_are_all_different(part, seed):
    labels, options = part
    views = Episodes(labels, episodes=1, seed=seed, **options)[0].views
    if options["views"] == 0:
        assert not views.any()
    else:
        assert ((views >= 0) & (views < options["views"])).all()
        assert all(len(set(copies.tolist())) == options["copies"] for copies in views.flatten(0, 1))


@given(parts(), SEEDS, st.lists(st.integers(0, 20), min_size=1, max_size=6))
def test_an_episode_is_the_same_in_whichever_order_and_number_they_are_drawn(part, seed, indices):
    labels, options = part
    many, few = (Episodes(labels, episodes=count, seed=seed, **options) for count in (1000, 21))
    torch.manual_seed(seed)  # the global generator is not used
    first = {index: many[index] for index in indices}
    torch.manual_seed(seed + 1)
    for index in sorted(indices):
        for one, other in zip(first[index], few[index], strict=True):
            assert torch.equal(one, other)
    stacked = few.stack(min(indices), max(indices) + 1)
    for one, other in zip(stacked, first[max(indices)], strict=True):
        assert torch.equal(one[-1], other)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=30),
    st.tuples(st.integers(-1, 6), *[st.integers(1, 6)] * 3, st.integers(0, 6)),  # settings below 1 are refused before
    st.integers(1, 4),
    st.integers(-1, 3),
)
def test_settings_that_do_not_fit_the_data_are_refused_and_others_give_an_episode(labels, numbers, copies, views):
    way, shot, queries, episodes, seed = numbers
    options = {"way": way, "shot": shot, "queries": queries, "episodes": episodes, "copies": copies, "views": views}
    counts = [labels.count(each) for each in set(labels)]
    fits = 2 <= way <= len(counts) and shot + queries <= min(counts) and (views == 0 or views >= copies)
    if fits:
        assert len(Episodes(torch.tensor(labels), seed=seed, **options)[0].classes) == way
    else:
        with pytest.raises(OptionError):
            Episodes(torch.tensor(labels), seed=seed, **options)
