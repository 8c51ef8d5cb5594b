"""The examples in the docstrings of attacks, and of what is trained against them, are true."""


def test_the_docstrings_examples_are_true():
    import doctest
    from importlib import import_module

    for name in (
        "methods.ascent", "radius", "methods.mart",
        "methods.trades", "methods.adversarial", "models.network",
    ):  # fmt: skip
        found = doctest.testmod(import_module(f"opl.experiments.{name}"))
        assert found.failed == 0, name
        assert found.attempted > 0, name
