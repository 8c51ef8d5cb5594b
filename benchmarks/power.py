"""Power and family error of a table's verdicts: variances of single rows vs variances moderated over the rows.

python benchmarks/power.py [--draws 20000]

Every draw is a table of 12 rows with some seeds. One row has a true effect, in standard deviations of a difference; the
others have none. Power is how often the row is called a gain after Holm's adjustment, the family error how often any
other row is called a gain or a loss. Rows have equal variances, or variances that are scaled inverse chi-squared.
"""

import argparse

import numpy as np

from opl.experiments.statistics import holm, interval, moderate, p_value

ROWS, LEVEL = 12, 0.05


def simulate(seeds: int, effect: float, spread: float, draws: int) -> dict[str, tuple[float, float]]:
    """Return power and family error, by kind of variance."""
    generator = np.random.default_rng(0)
    hits, errors = dict.fromkeys(("row alone", "moderated"), 0), dict.fromkeys(("row alone", "moderated"), 0)
    for _ in range(draws):
        scale = np.sqrt(spread / generator.chisquare(spread, size=ROWS)) if spread else np.ones(ROWS)
        values = generator.normal(size=(ROWS, seeds)) * scale[:, None]
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
    draws = parser.parse_args().draws
    print(f"{'seeds':>5} {'effect':>7} {'variances':>16} {'row alone':>20} {'moderated':>20}   (power, family error)")
    for seeds in (2, 3):
        for spread, kind in ((0.0, "equal"), (4.0, "chi-squared, 4")):
            for effect in (3.6, 2.0):
                results = simulate(seeds, effect, spread, draws)
                texts = [f"{power:.3f}, {error:.3f}" for power, error in results.values()]
                print(f"{seeds:>5} {effect:>7.1f} {kind:>16} {texts[0]:>20} {texts[1]:>20}")


if __name__ == "__main__":
    main()
