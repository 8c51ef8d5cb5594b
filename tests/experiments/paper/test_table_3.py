"""Table 3: CIFAR-10 beside CIFAR-100 at every scale, and pruning by the plan."""

from itertools import product

from opl.experiments import paper
from opl.experiments.paper import table_3


def test_cifar_10_has_the_methods_of_cifar_100_at_every_scale_and_needs_its_data():
    table = paper.item("table-3")
    for scale in ("paper", "small", "tiny"):
        ten, hundred = (
            {row.recipe.removeprefix(f"{name}-") for row in table.at(scale) if row.recipe.startswith(f"{name}-")}
            for name in ("cifar10", "cifar100")
        )
        assert ten == hundred
    assert {row.needs for row in table.rows} == {"", "cifar10"}
    assert all((row.needs == "cifar10") == row.recipe.startswith("cifar10-") for row in table.rows)
    small = {name: paper.recipe(f"{name}-noisy-class-tl", "small") for name in ("cifar10", "cifar100")}
    assert [made.data.num_classes for made in small.values()] == [10, 100]


def test_the_truncated_loss_on_cifar_prunes_as_the_plan_says():
    """docs/study.md, section Table 3: k that keeps most correct labels, and cross-entropy first on CIFAR-100."""
    plan = {"cifar10": (0.3, 0, [6, 8, 10]), "cifar100": (0.05, 9, [9, 11])}
    for dataset, expected in plan.items():
        for noise, key in product(table_3.NOISES, ("tl", "tl-opl")):
            recipe = paper.recipe(table_3.name_of(dataset, noise, key), "small")
            tl = recipe.method
            assert (tl.k, tl.warmup, [*range(tl.start, recipe.epochs, tl.every)]) == expected
