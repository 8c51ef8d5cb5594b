"""`opl bench`: what the loss, the training loop and the protocols cost on this machine."""

import json
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated

from tyro.conf import Positional

from ..._ranges import Positive, Range
from ..bench import MODULES, Options, Subject
from .flags import Flags, show_status


@dataclass(frozen=True)
class Bench(Flags):
    """Measure speed and memory vs the textbook B x B version, in one run."""

    what: Positional[Subject] = "loss"
    """OPL vs the textbook version; OPL vs its variants; all losses of table 1 as shares of a training step; the
    training loop vs a bare and a conventional loop; the classifier of few-shot episodes vs scikit-learn's; or a step of
    adversarial training vs the passes that it needs."""
    seconds: Positive = 4.0
    """Minimum time per case; every version runs at least three times."""
    threads: Annotated[int, Range(0, 1024)] = 0
    """Number of torch threads; 0 keeps the default."""
    memory: bool = True
    """Measure memory too (Linux; takes a minute)."""
    json: bool = False
    """Print JSON instead of tables."""

    def run(self) -> int:
        """Measure, and print."""
        import torch

        from ..results.text import show_rows

        if self.threads:
            torch.set_num_threads(self.threads)
        measure = getattr(import_module(f"opl.experiments.bench.{MODULES[self.what]}"), f"measure_{self.what}")
        with show_status(f"measuring {self.what} (up to three minutes)"):
            tables = measure(Options(self.seconds, self.memory and sys.platform == "linux"))
        if self.json:
            print(json.dumps(tables, indent=1))
            return 0
        for title, rows in tables.items():
            show_rows(title, list(rows[0]), [[_format(value) for value in row.values()] for row in rows])
        return 0


def _format(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
