"""NeuralScale's arithmetic: parameters, power laws fitted to records, and networks of a budget."""

import math

import numpy as np
import pytest

from opl.errors import OptionError
from opl.experiments.widths import (
    ARCHITECTURES,
    STORED,
    STORED_FIRST,
    PowerLaw,
    count_parameters,
    fit,
    proportional,
    rebuild,
    stored_law,
    stored_widths,
    uniform_widths,
)

NETWORKS = pytest.mark.parametrize("network", ARCHITECTURES)
RATIOS = pytest.mark.parametrize("ratio", [1.0, 0.25])


def filter_costs(network: str, widths: tuple[int, ...]) -> list[int]:
    """What one more filter costs in each layer."""
    counts = [
        count_parameters(network, (*widths[:layer], widths[layer] + 1, *widths[layer + 1 :]), 100)
        for layer in range(len(widths))
    ]
    return [count - count_parameters(network, widths, 100) for count in counts]


def test_the_networks_have_the_published_numbers_of_parameters():
    assert count_parameters("vgg11", uniform_widths("vgg11", 1.0), 100) == 9_277_284
    assert count_parameters("resnet18", uniform_widths("resnet18", 1.0), 100) == 11_218_340


@pytest.mark.parametrize("layers", [8, 17])
def test_a_fit_recovers_the_power_laws_of_its_records(layers):
    random = np.random.default_rng(0)
    alpha, beta = random.uniform(0.01, 2, layers), random.uniform(-0.2, 0.9, layers)
    parameters = np.geomspace(1e4, 1e7, 40)
    records = alpha * parameters[:, None] ** beta
    law = fit(records.tolist(), parameters.tolist())
    np.testing.assert_allclose(law.alpha, alpha, rtol=1e-6)
    np.testing.assert_allclose(law.beta, beta, rtol=0, atol=1e-6)


def test_whole_widths_are_fitted_like_scipys_linear_regression():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    records = [(64 - 3 * step, 128 - step * step) for step in range(10)]
    parameters = [1e6 / (step + 1) for step in range(10)]
    law = fit(records, parameters)
    for layer, widths in enumerate(zip(*records, strict=True)):
        line = stats.linregress(np.log(parameters), np.log(widths))
        assert law.beta[layer] == pytest.approx(line.slope)
        assert math.log(law.alpha[layer]) == pytest.approx(line.intercept)


def test_fewer_than_six_records_keep_the_proportions_of_the_first():
    records = [(30, 60, 10), (29, 59, 9), (28, 58, 8), (27, 57, 7), (26, 56, 6)]
    law = fit(records, [1000, 900, 800, 700, 600])
    assert law == proportional((30, 60, 10), 1000)
    assert law.widths(math.log(4000)) == (60, 120, 20)


@NETWORKS
@RATIOS
@pytest.mark.parametrize("laws", ["stored", "proportional", "steep and falling"])
def test_a_rebuilt_network_lacks_less_than_the_cost_of_one_filter(network, ratio, laws):
    base = ARCHITECTURES[network].base
    slopes = [0.7 if layer % 3 else -0.05 for layer in range(len(base))]
    alpha = tuple(width / 9e6**slope for width, slope in zip(base, slopes, strict=True))
    law = {
        "stored": stored_law(network),
        "proportional": proportional((7, *base[1:]), 9e6),
        "steep and falling": PowerLaw(alpha, tuple(slopes)),
    }[laws]
    widths = rebuild(law, network, ratio, 100)
    budget = count_parameters(network, uniform_widths(network, ratio), 100)
    assert 0 <= budget - count_parameters(network, widths, 100) < max(filter_costs(network, widths))
    assert min(widths) >= ARCHITECTURES[network].least


@NETWORKS
def test_the_published_widths_meet_their_budgets_within_the_cost_of_one_filter(network):
    for ratio, widths in (*STORED[network].items(), (1.0, STORED_FIRST[network])):
        budget = count_parameters(network, uniform_widths(network, ratio), 100)
        assert abs(budget - count_parameters(network, widths, 100)) < max(filter_costs(network, widths))


@NETWORKS
@RATIOS
def test_the_law_through_the_published_widths_rebuilds_them(network, ratio):
    assert stored_widths(network, ratio, 100) == STORED[network][ratio]
    rebuilt = rebuild(stored_law(network), network, ratio, 100)
    assert max(abs(a - b) for a, b in zip(rebuilt, STORED[network][ratio], strict=True)) <= 1
    between = stored_widths(network, 0.5, 100)
    small, large = STORED[network].values()
    assert all(low <= width <= high for low, width, high in zip(small, between, large, strict=True))


def test_laws_that_do_not_grow_are_refused_in_one_sentence():
    falling = PowerLaw((1000.0,) * 8, (-0.1,) * 8)
    with pytest.raises(OptionError, match="do not grow"):
        rebuild(PowerLaw((5.0,) * 8, (0.0,) * 8), "vgg11", 1.0, 100)
    with pytest.raises(OptionError, match="do not grow"):
        rebuild(falling, "vgg11", 1e-9, 100)
    with pytest.raises(OptionError, match="vgg11 needs 8 widths, but got 2"):
        count_parameters("vgg11", (1, 2), 10)
