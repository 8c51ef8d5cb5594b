"""`opl try` in this process: its runs and its probe are executed one after another, without processes."""

from contextlib import contextmanager

from opl.experiments import cli
from opl.experiments.cluster.executor import CHILD, Event
from opl.experiments.cluster.placement import Placement
from opl.experiments.tryout import experiment, probe


class Inline:
    patience = 0.0

    def __init__(self, stop_after):
        self.tasks, self.left, self.executed = [], stop_after, []

    def submit(self, task):
        self.tasks.append(task)

    def watch(self):
        while self.tasks:
            task = self.tasks.pop(0)
            if task.program != CHILD:
                yield Event(task.name, "failed" if probe.main(list(task.words)) else "done")
                continue
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            self.executed.append(task.name)
            yield Event(task.name, "failed" if cli.main(list(task.words)) else "done")

    def cancel(self):
        self.tasks.clear()


def try_images(monkeypatch, words, stop_after=1000):
    """Run `opl try`, interrupted after so many runs; returns its exit code and the names of the runs."""
    executor = Inline(stop_after)

    @contextmanager
    def inline(self, folder, short):
        yield executor

    with monkeypatch.context() as patch:
        patch.setattr(Placement, "executor", inline)
        patch.setattr(experiment, "LONGEST_PROBE", 0.05)
        return cli.main(["try", *map(str, words)]), executor.executed
