"""What `opl reproduce` would do: its runs, which of them are done, the data sets, and the expected time."""

from collections.abc import Sequence

from ..item import Item
from ..paper import recipe
from ..runner.estimate import about, seconds_left
from ..runner.jobs import Job
from ..runner.placement import Placement
from ..scales import Scale


def announce(jobs: Sequence[Job], place: Placement) -> list[str]:
    """What long work costs, as a line to print before it starts; nothing where all is done."""
    _mark_done(jobs)
    left = [job for job in jobs if not job.ended]
    if not left:
        return []
    done = f" ({len(jobs) - len(left)} of {len(jobs)} are done)" if len(left) < len(jobs) else ""
    return [f"{len(left)} run{'s' if len(left) > 1 else ''} to train{done}, {_expect(jobs, place)}"]


def show(item: Item, jobs: Sequence[Job], scale: Scale, place: Placement) -> None:
    """Print all runs, how far each is, the data sets, and the expected time."""
    from ..results.text import show_columns, show_lines

    _mark_done(jobs)
    names = list(dict.fromkeys(job.recipe for job in jobs))
    show_lines([f"{item.name}: {item.title}, scale {scale}", ""])
    show_columns([(name, ", ".join(_state(job) for job in jobs if job.recipe == name)) for name in names])
    done = sum(job.ended for job in jobs)
    time = _expect(jobs, place) if done < len(jobs) else "nothing to train"
    show_lines(["", f"{done}/{len(jobs)} runs done, {len(jobs) - done} to train: {time}", _data(item, jobs, scale)])
    if item.cost:
        show_lines([f"a run: {item.cost}"])
    if any(scale in measure.scales for measure in item.measures):
        show_lines(["after training, opl evaluate measures each run, which takes more time"])


def data_sets(jobs: Sequence[Job], scale: Scale) -> list[str]:
    """The known data sets that runs need."""
    from ..data import CATALOG

    return sorted({recipe(job.recipe, scale).data.name for job in jobs} & CATALOG.keys())


def _mark_done(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.state = "done" if job.complete else job.state


def _state(job: Job) -> str:
    epochs = job.reached().epochs
    return f"seed {job.seed} {'done' if job.ended else f'epoch {epochs}/{job.epochs}' if epochs else 'to train'}"


def _expect(jobs: Sequence[Job], place: Placement) -> str:
    """The expected time, and what it is taken from."""
    seconds = seconds_left(jobs, place.jobs)
    if seconds is None:
        return "no time is known before the first epoch"
    source = "by earlier epochs here" if any(job.reached().epochs for job in jobs) else "by the cost of a run"
    where = f"{place.jobs} at a time" if place.on == "local" else f"one after another; on {place.on} many at once"
    return f"about {about(seconds)} with {where}, {source}"


def _data(item: Item, jobs: Sequence[Job], scale: Scale) -> str:
    from ..data import is_here

    if scale == "tiny":
        return "data: synthetic"
    needed = {row.needs for row in item.at(scale) if row.needs and scale == "small"}
    found = {name: is_here(name) for name in sorted({*data_sets(jobs, scale), *needed})}
    absent = "not here (opl data NAME says how to get it)"
    return "data: " + (", ".join(f"{name} {'here' if found[name] else absent}" for name in found) or "built in")
