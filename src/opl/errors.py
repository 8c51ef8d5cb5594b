"""The exceptions and warnings of `opl`; each message says what is wrong and what to do."""

import difflib
from collections.abc import Iterable


class OplError(Exception):
    """Base class of all errors that `opl` raises."""


class FeatureError(OplError, ValueError):
    """The features have an invalid shape, dtype or value."""


class LabelError(OplError, ValueError):
    """The labels have an invalid shape, dtype or value."""


class OptionError(OplError, ValueError):
    """A setting has an invalid value, or one that is incompatible with the other settings."""


class LayerError(OplError, LookupError):
    """The layer to tap cannot be found."""


class TapError(OplError, RuntimeError):
    """The criterion was called although the tapped layer did not run."""


class DistributedError(OplError, RuntimeError):
    """The process group of a global batch is not initialized, or its processes have incompatible batches."""


class FolderError(OplError, ValueError):
    """A run folder is not writable, contains a different run, or is damaged."""


class DamagedError(FolderError):
    """A file of a run folder is missing, or is not what the run wrote."""

    def __init__(self, sentence: str, name: str = "", fault: str = "") -> None:
        super().__init__(sentence)
        self.name, self.fault = name, fault


class DivergedError(OplError, RuntimeError):
    """The training loss became NaN or infinite."""


class MachineError(OplError, RuntimeError):
    """The machine lacks disk space, a permission or memory."""


class StoppedError(OplError, RuntimeError):
    """A run was stopped by a signal and can be resumed; `code` is the exit code that says so to the shell."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class DerivativeError(OplError, RuntimeError):
    """A derivative was requested that this algorithm does not support."""


class DataError(OplError, LookupError):
    """A data set is not available, cannot be read, or cannot be stored."""


LONGEST = 200  # characters of a word that a message repeats
NEAREST = 3  # names that a message suggests
WARNING = "opl: warning:"  # prefix of warnings on the command line


class OplWarning(UserWarning):
    """A setup that is probably a mistake; training continues."""


def did_you_mean(what: str, given: object, known: Iterable[str], lister: str = "") -> str:
    """Return the error message for an unknown name, which suggests at most three similar names.

    Args:
        what: what the name stands for, such as `"form"`.
        given: the unknown name.
        known: all names.
        lister: the command that lists them.

    Example:
        >>> did_you_mean("form", "mean-abs", ("mean_abs", "mean"))
        "form 'mean-abs' does not exist: did you mean 'mean_abs' or 'mean'? There are no others."
    """
    names = list(dict.fromkeys(known))
    word = repr(given) if len(repr(given)) <= LONGEST else f"{repr(given)[:LONGEST]}..."
    near = [*map(repr, difflib.get_close_matches(str(given)[:LONGEST], names, n=NEAREST, cutoff=0.0))]
    if not near:
        return f"{what} {word} does not exist: leave it out."
    nearest = " or ".join([", ".join(near[:-1]), near[-1]]) if len(near) > 1 else near[0]
    count = f"{len(names)} in all" if len(names) > len(near) else "no others"
    more = f"{lister} lists them." if lister else f"There are {count}."
    return f"{what} {word} does not exist: did you mean {nearest}? {more}"
