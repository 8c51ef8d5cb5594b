"""An executor that executes `opl` commands one after another in this process."""

from contextlib import contextmanager

from opl.experiments import cli
from opl.experiments.cluster.executor import Event
from opl.experiments.cluster.placement import Placement


class Inline:
    patience = 0.0

    def __init__(self, stop_after):
        self.tasks, self.left, self.executed = [], stop_after, []

    def submit(self, task):
        self.tasks.append(task)

    def watch(self):
        while self.tasks:
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            task = self.tasks.pop(0)
            self.executed.append(task.name)
            yield Event(task.name, "failed" if cli.main(list(task.words)) else "done")


def search(monkeypatch, words, stop_after=1000):
    """Run `opl search` in this process, interrupted after so many runs; returns its exit code and the runs."""
    executor = Inline(stop_after)

    @contextmanager
    def inline(self, folder, short):
        yield executor

    with monkeypatch.context() as patch:
        patch.setattr(Placement, "executor", inline)
        return cli.main(["search", *words]), executor.executed
