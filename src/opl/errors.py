"""Everything `opl` raises on purpose: one sentence that says what was wrong and what to do."""

import difflib
from collections.abc import Iterable


class OplError(Exception):
    """The base of every error that `opl` raises on purpose."""


class FeatureError(OplError, ValueError):
    """The features cannot be used: their shape, their type or a value in them."""


class LabelError(OplError, ValueError):
    """The labels cannot be used: their shape, their type or a value in them."""


class OptionError(OplError, ValueError):
    """A setting has a value that does not exist, or that does not fit the other settings."""


class LayerError(OplError, LookupError):
    """The layer whose input should be tapped cannot be found."""


class TapError(OplError, RuntimeError):
    """The criterion was called although the tapped layer did not run."""


class DistributedError(OplError, RuntimeError):
    """The processes of a global batch are not set up, or do not agree."""


class FolderError(OplError, ValueError):
    """A run folder cannot be written to, holds another run, or is damaged."""


class DivergedError(OplError, RuntimeError):
    """The loss is no longer a number."""


class DerivativeError(OplError, RuntimeError):
    """A derivative was asked for that this algorithm does not have."""


class DataError(OplError, LookupError):
    """A data set is not here, cannot be read, or cannot be kept."""


WARNING = "opl: warning:"  # what such a sentence begins with on the command line


class OplWarning(UserWarning):
    """Something is probably not what was meant; training goes on."""


def did_you_mean(what: str, given: object, known: Iterable[str]) -> str:
    """The sentence for a name that does not exist, with the nearest one that does.

    Example:
        >>> did_you_mean("form", "mean-abs", ("mean_abs", "mean"))
        "form 'mean-abs' does not exist: did you mean 'mean_abs'? There are 'mean_abs', 'mean'."
    """
    names = list(known)
    near = difflib.get_close_matches(str(given), names, n=1, cutoff=0.0)
    return f"{what} {given!r} does not exist: did you mean {near[0]!r}? There are {', '.join(map(repr, names))}."
