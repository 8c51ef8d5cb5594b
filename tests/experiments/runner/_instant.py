"""An executor that ends every task when it starts, with the exit code that a function returns."""

from opl.experiments.runner.processes import Processes


class Instant(Processes):
    def __init__(self, at_once, execute):
        super().__init__(at_once)
        self.execute = execute

    def _execute(self, task):
        return self.execute(task.words, task.log)
