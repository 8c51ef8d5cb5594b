"""`opl bench`: what the loss, the training loop and the protocols cost on this machine."""

import json
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated

from tyro.conf import Positional

from ..._ranges import Positive, Range
from ..bench import MODULES, Options, Subject
from .flags import Flags


@dataclass(frozen=True)
class Bench(Flags):
    """Time and peak memory of the loss against the textbook B x B version, in one run."""

    what: Positional[Subject] = "loss"
    """OPL against its textbook version; all losses of table 1 as shares of a training step; the training loop
    against a bare and a conventional one; the classifier of few-shot episodes against scikit-learn's; or a step of
    adversarial training against the passes that it needs."""
    seconds: Positive = 4.0
    """Time spent on each case, at least; every version runs at least three times."""
    threads: Annotated[int, Range(0, 1024)] = 0
    """Threads of torch; 0 keeps its own choice."""
    memory: bool = True
    """Measure memory too (Linux; takes a minute)."""
    json: bool = False
    """Print JSON instead of tables."""

    def run(self) -> int:
        """Measure, and print."""
        import torch

        if self.threads:
            torch.set_num_threads(self.threads)
        subject = import_module(f"opl.experiments.bench.{MODULES[self.what]}")
        result = subject.measure(Options(self.seconds, self.memory, quiet=self.json))
        if self.json:
            print(json.dumps(result, indent=1))
        else:
            subject.show(result)
        return 0
