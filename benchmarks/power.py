"""Power and family error of a table's verdicts: variances of single rows vs variances moderated over the rows.

python benchmarks/power.py [--draws 20000]

Every draw is a table of 12 rows with some seeds. One row has a true effect, in standard deviations of a difference; the
others have none. Power is how often the row is called a gain after Holm's adjustment, the family error how often any
other row is called a gain or a loss. Rows have a baseline each, with equal variances or variances that are scaled
inverse chi-squared; or they share a baseline that varies as much as a row between seeds, or three times as much.
"""

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np

from opl.experiments.statistics import holm, interval, moderate, p_value

ROWS, LEVEL = 12, 0.05
Draw = Callable[[np.random.Generator, int], np.ndarray]
"""The differences of every row and seed under no effect, each with a variance of about 1."""


def draw_equal(generator: np.random.Generator, seeds: int) -> np.ndarray:
    return generator.normal(size=(ROWS, seeds))


def draw_unequal(generator: np.random.Generator, seeds: int) -> np.ndarray:
    scale = np.sqrt(4 / generator.chisquare(4, size=ROWS))
    return generator.normal(size=(ROWS, seeds)) * scale[:, None]


def draw_shared(generator: np.random.Generator, seeds: int, ratio: float) -> np.ndarray:
    """The differences from a shared baseline, whose standard deviation is `ratio` times that of a row."""
    rows, baseline = generator.normal(size=(ROWS, seeds)), ratio * generator.normal(size=seeds)
    return (rows - baseline) / np.hypot(1, ratio)


KINDS: dict[str, Draw] = {
    "equal": draw_equal,
    "chi-squared, 4": draw_unequal,
    "shared, 1x": partial(draw_shared, ratio=1.0),
    "shared, 3x": partial(draw_shared, ratio=3.0),
}


def simulate(seeds: int, effect: float, draw: Draw, draws: int) -> dict[str, tuple[float, float]]:
    """Return power and family error, by kind of variance."""
    generator = np.random.default_rng(0)
    hits, errors = dict.fromkeys(("row alone", "moderated"), 0), dict.fromkeys(("row alone", "moderated"), 0)
    for _ in range(draws):
        values = draw(generator, seeds)
        values[0] += effect
        plain = [interval(row.tolist()) for row in values]
        for name, differences in (("row alone", plain), ("moderated", moderate(plain))):
            adjusted = holm([p_value(difference) for difference in differences])
            hits[name] += adjusted[0] < LEVEL and differences[0].mean > 0
            errors[name] += min(adjusted[1:]) < LEVEL
    return {name: (hits[name] / draws, errors[name] / draws) for name in hits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS], metavar="KIND")
    arguments = parser.parse_args()
    print(f"{'seeds':>5} {'effect':>7} {'rows':>16} {'row alone':>20} {'moderated':>20}   (power, family error)")
    for seeds in (2, 3):
        for kind in arguments.kinds:
            for effect in (3.6, 2.0):
                results = simulate(seeds, effect, KINDS[kind], arguments.draws)
                texts = [f"{power:.3f}, {error:.3f}" for power, error in results.values()]
                print(f"{seeds:>5} {effect:>7.1f} {kind:>16} {texts[0]:>20} {texts[1]:>20}")


if __name__ == "__main__":
    main()
