"""Names in a run folder that other rooms need to know."""

ENDED_AFTER = "ended_after"  # in a result: the number of epochs after which a method ended training by its own rules

FEATURES = "features-"
"""How the names of outputs begin that hold features, which are large and can be computed again."""


def measure_name(metric: str) -> str:
    """Return the name under which `RunFolder.measure` stores a metric.

    Example:
        >>> measure_name("episodes/5-way-1-shot")
        'episodes-5-way-1-shot'
    """
    return metric.replace("/", "-", 1)
