"""`python -m opl.experiments.cli.child WORDS`: execute one command in a process that ends with its parent."""

import sys

from ..runner.lifeline import hold_lifeline
from . import main

if __name__ == "__main__":
    hold_lifeline()
    sys.exit(main())
