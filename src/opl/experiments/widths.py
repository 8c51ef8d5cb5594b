"""NeuralScale's arithmetic: the width of every layer as a power law of the number of parameters. Does not import torch.

A search removes filters and records the widths that are left. From the records, each layer gets `alpha * tau ** beta`
filters, where tau is the number of parameters of the network; `rebuild` finds the network of a parameter budget.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from ..errors import OptionError

Widths = tuple[int, ...]
ScaledNetwork = Literal["vgg11", "resnet18"]
SCALING = "scaling"  # the key of `result.json` of the widths of a network
FIT = "fit"  # the key of the power laws of a search
ENOUGH = 6  # records; with fewer, no law is fitted
REACH = 200  # how far tau is searched up and down, as a logarithm
ROUNDING = 1e-6  # a width this close below a whole number is that number


class Architecture(NamedTuple):
    """A network to rescale: its published widths, and what else determines its number of parameters."""

    base: Widths
    bias: bool
    """Whether the convolutions have biases."""
    block: int
    """Convolutions in a residual block; 0 for a network without shortcuts."""
    strided: tuple[int, ...]
    """The residual blocks that halve the size of the map, so that their shortcut has weights even at equal widths."""
    least: int
    """The fewest filters of a rebuilt layer, unless the uniformly scaled network has fewer."""


ARCHITECTURES: dict[str, Architecture] = {
    "vgg11": Architecture((64, 128, 256, 256, 512, 512, 512, 512), bias=True, block=0, strided=(), least=1),
    "resnet18": Architecture(
        (64,) * 5 + (128,) * 4 + (256,) * 4 + (512,) * 4, bias=False, block=2, strided=(2, 4, 6), least=10
    ),
}

# From the fits published with NeuralScale for CIFAR-100, after the first and the last of 15 iterations, by ratio.
STORED_FIRST: dict[str, Widths] = {
    "vgg11": (91, 224, 443, 520, 524, 384, 249, 424),
    "resnet18": (66, 70, 78, 69, 67, 135, 142, 144, 122, 280, 296, 299, 277, 520, 536, 416, 393),
}
STORED: dict[str, dict[float, Widths]] = {
    "vgg11": {
        0.25: (80, 121, 111, 110, 98, 73, 54, 125),
        1.0: (170, 351, 440, 520, 454, 374, 234, 379),
    },
    "resnet18": {
        0.25: (44, 32, 58, 46, 28, 58, 88, 61, 73, 81, 137, 85, 102, 54, 72, 23, 41),
        1.0: (81, 81, 120, 129, 39, 139, 246, 223, 207, 325, 798, 411, 467, 159, 265, 57, 90),
    },
}


def count_parameters(network: str, widths: Sequence[int], num_classes: int, channels: int = 3) -> int:
    """Count the parameters of a network with these widths.

    Example:
        >>> count_parameters("vgg11", ARCHITECTURES["vgg11"].base, 100)
        9277284
    """
    shape = ARCHITECTURES[network]
    if len(widths) != len(shape.base):
        raise OptionError(f"{network} needs {len(shape.base)} widths, but got {len(widths)}: pass one width per layer.")
    before = (channels, *widths[:-1])
    per_filter = 3 if shape.bias else 2  # the gain and shift of batch norm, and the bias
    total = sum(9 * left * right + per_filter * right for left, right in zip(before, widths, strict=True))
    total += (widths[-1] + 1) * num_classes
    ends = widths[:: shape.block] if shape.block else ()
    for block, (left, right) in enumerate(pairwise(ends)):
        total += left * right if left != right or block in shape.strided else 0
    return total


def uniform_widths(network: str, ratio: float) -> Widths:
    """Multiply all published widths by a ratio.

    Example:
        >>> uniform_widths("vgg11", 0.25)
        (16, 32, 64, 64, 128, 128, 128, 128)
    """
    return tuple(max(1, round(width * ratio)) for width in ARCHITECTURES[network].base)


@dataclass(frozen=True)
class PowerLaw:
    """One power law per layer: `alpha * tau ** beta` filters in a network of tau parameters."""

    alpha: tuple[float, ...]
    beta: tuple[float, ...]

    def widths(self, log_tau: float, least: int = 1) -> Widths:
        """Compute the widths at a number of parameters, given as its logarithm."""
        exponents = [math.log(a) + b * log_tau for a, b in zip(self.alpha, self.beta, strict=True)]
        return tuple(max(least, math.floor(math.exp(min(exponent, 20.0)) + ROUNDING)) for exponent in exponents)


def fit(records: Sequence[Sequence[float]], parameters: Sequence[float]) -> PowerLaw:
    """Fit a power law to every layer by least squares of the logarithms.

    Fewer than six records give no reliable slope: then all layers keep the proportions of the first record.

    Args:
        records: for each network, the widths of its layers.
        parameters: for each network, its number of parameters.
    """
    import numpy as np

    if len(records) < ENOUGH or len(set(parameters)) == 1:
        return proportional(records[0], parameters[0])
    logs = np.stack([np.log(np.asarray(parameters, dtype=float)), np.ones(len(parameters))], axis=1)
    solved = np.linalg.lstsq(logs, np.log(np.asarray(records, dtype=float)), rcond=None)[0]
    return PowerLaw(tuple(np.exp(solved[1]).tolist()), tuple(solved[0].tolist()))


def proportional(widths: Sequence[float], parameters: float) -> PowerLaw:
    """Return the law that keeps all widths in proportion, as multiples of the square root of the parameter count."""
    return PowerLaw(tuple(width / math.sqrt(parameters) for width in widths), (0.5,) * len(widths))


def stored_law(network: str, num_classes: int = 100) -> PowerLaw:
    """Return the law through the published widths at ratios 0.25 and 1, from which other ratios can be built."""
    small, large = STORED[network].values()
    logs = [math.log(count_parameters(network, widths, num_classes)) for widths in (small, large)]
    beta = [math.log(high / low) / (logs[1] - logs[0]) for low, high in zip(small, large, strict=True)]
    alpha = [high / math.exp(slope * logs[1]) for high, slope in zip(large, beta, strict=True)]
    return PowerLaw(tuple(alpha), tuple(beta))


def stored_widths(network: str, ratio: float, num_classes: int, channels: int = 3) -> Widths:
    """Return the published widths at a ratio; for other ratios, widths by the law through the published ones.

    Example:
        >>> stored_widths("vgg11", 0.25, 100)
        (80, 121, 111, 110, 98, 73, 54, 125)
    """
    known = STORED[network]
    return known[ratio] if ratio in known else rebuild(stored_law(network), network, ratio, num_classes, channels)


def rebuild(law: PowerLaw, network: str, ratio: float, num_classes: int, channels: int = 3) -> Widths:
    """Find the widths of a law with as many parameters as the uniformly scaled network, or just fewer.

    Where several layers gain a filter at the same tau, they get it one after another, as long as the budget allows; so
    the network lacks less than the cost of one filter.

    Args:
        law: one power law per layer.
        network: a name of `ARCHITECTURES`.
        ratio: the budget is the number of parameters of the network with all published widths times this.
        num_classes: number of classes.
        channels: channels of the images.
    """
    uniform = uniform_widths(network, ratio)
    budget = count_parameters(network, uniform, num_classes, channels)
    least = min(ARCHITECTURES[network].least, *uniform)

    def widths(log_tau: float) -> Widths:
        return law.widths(log_tau, least)

    def fits(candidate: Widths) -> bool:
        return count_parameters(network, candidate, num_classes, channels) <= budget

    low = _first(math.log(budget), -1, lambda tau: fits(widths(tau)))
    high = _first(low, 1, lambda tau: not fits(widths(tau)))
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(widths(middle)) else (low, middle)
    filled = list(widths(low))
    for layer, width in enumerate(widths(high)):
        while filled[layer] < width and fits((*filled[:layer], filled[layer] + 1, *filled[layer + 1 :])):
            filled[layer] += 1
    return tuple(filled)


def _first(start: float, step: int, condition: Callable[[float], bool]) -> float:
    """Return the first of start, start + step, start + 2 step, ... for which a condition is true."""
    for distance in range(REACH):
        if condition(start + step * distance):
            return start + step * distance
    raise OptionError(
        "no network of these power laws has the number of parameters of the ratio: its widths do not grow with "
        "the number of parameters. Fit records of a longer search, or use another ratio."
    )
