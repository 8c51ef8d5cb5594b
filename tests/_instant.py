"""An executor of threads: a task ends when a function of its arguments and log returns, with that exit code."""

from concurrent.futures import ThreadPoolExecutor

from opl.experiments.runner.executor import Executor


class Instant(Executor):
    patience = 30.0
    interval = 0.005

    def __init__(self, parallel, execute):
        super().__init__()
        self.parallel, self.execute, self.ends = parallel, execute, {}

    def __enter__(self):
        self.pool = ThreadPoolExecutor(self.parallel)
        return self

    def __exit__(self, *_):
        self.pool.shutdown()

    def cancel(self):
        self.waiting.clear()

    def can_start(self):
        return len(self.running) < self.parallel

    def start(self, task):
        self.ends[task.name] = self.pool.submit(self.execute, task.argv, task.log)
        return "running"

    def state(self, name):
        end = self.ends[name]
        return "running" if not end.done() else "failed" if end.result() else "done"
