"""An executor that executes tasks one after another in this process."""

from contextlib import contextmanager

from opl.experiments import cli
from opl.experiments.runner.executor import OPL, Event
from opl.experiments.runner.placement import Placement


class Inline:
    """`opl` commands, interrupted after so many; tasks of another program go to `other`."""

    patience = 0.0

    def __init__(self, stop_after, other):
        self.tasks, self.left, self.other, self.executed = [], stop_after, other, []

    def submit(self, task):
        self.tasks.append(task)

    def watch(self):
        while self.tasks:
            if self.tasks[0].program != OPL:
                task = self.tasks.pop(0)
                yield Event(task.name, "failed" if self.other(list(task.argv)) else "done")
                continue
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            task = self.tasks.pop(0)
            self.executed.append(task.name)
            yield Event(task.name, "failed" if cli.main(list(task.argv)) else "done")

    def cancel(self):
        self.tasks.clear()


@contextmanager
def inlined(monkeypatch, stop_after=1000, other=None):
    """Give all placements such an executor, for a while."""
    executor = Inline(stop_after, other)

    @contextmanager
    def inline(self, folder, short):
        yield executor

    with monkeypatch.context() as patch:
        patch.setattr(Placement, "executor", inline)
        yield executor
