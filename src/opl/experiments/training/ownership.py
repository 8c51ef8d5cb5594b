"""Who executes a run, and which part of it: one owner for its folder, a pause where asked for, and why it failed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ...errors import DistributedError, FolderError, OplError, StoppedError
from ..failures import explain
from ..recipe import Recipe
from ..run_folder import RunFolder
from ..settings import to_json
from .build import complete_settings
from .provenance import describe_environment
from .ranks import describe_loss, end_launcher
from .stopping import GRACE, end_within


@dataclass(frozen=True)
class Part:
    """Which part of a run is executed."""

    until: int = 0
    """Pause after this many epochs; 0 trains to the end. A run that was paused resumes as any other."""
    test: bool = True
    """Whether the finished run is tested; the trials of a search are not."""
    wait: float = 0.0
    """Seconds to wait for another process that trains in the folder, such as one on a machine that was lost."""


WHOLE = Part()


class Pause(Exception):
    """Training has come to the epoch after which it pauses."""


@contextmanager
def owned(fabric: Any, recipe: Recipe, folder: RunFolder, wait: float) -> Iterator[None]:
    """Start the run on the first process, which owns the folder for all; if it may not, that is an error on each."""
    refusal: OplError | None = None
    with ExitStack() as stack:
        if fabric.is_global_zero:
            try:
                stack.enter_context(folder.owned(wait))
                folder.sweep()
                folder.start(to_json(recipe), {**_opl(recipe), **describe_environment()}, complete_settings)
            except Exception as error:
                refusal = explain(error)
                if refusal is None:
                    raise
        sentence = fabric.broadcast(str(refusal or ""))
        if sentence:
            raise refusal or FolderError(sentence)
        yield


@contextmanager
def recorded(recipe: Recipe, folder: RunFolder) -> Iterator[None]:
    """Record why a run fails; if one of its processes was lost, end the others too, and wait for none."""
    try:
        yield
    except (StoppedError, Pause):
        raise
    except Exception as error:
        lost = describe_loss(error, recipe.timeout)
        failure = lost or explain(error)
        with suppress(OSError):  # the folder may be gone, or the disk full
            if not isinstance(failure, DistributedError) or folder.error() is None:  # another may have said more
                folder.fail(str(failure or f"{type(error).__name__}: {error}"))
        if lost is not None:
            end_within(2 * GRACE, 1, str(lost))
            end_launcher(GRACE, str(lost))
        if failure is None or failure is error:
            raise
        raise failure from error


def _opl(recipe: Recipe) -> dict[str, Any]:
    """Return the method's OPL settings, and the method without OPL, by which tables and reports match rows."""
    return {"opl": to_json(recipe.method.opl), "baseline": to_json(recipe.method.baseline())}
