"""The examples in the docstrings of attacks and adversarial training are true."""


def test_the_docstrings_examples_are_true():
    import doctest
    from importlib import import_module

    for name in (
        "methods.ascent", "radius", "methods.mart",
        "methods.trades", "methods.adversarial", "models.network",
    ):  # fmt: skip
        result = doctest.testmod(import_module(f"opl.experiments.{name}"))
        assert result.failed == 0, name
        assert result.attempted > 0, name
