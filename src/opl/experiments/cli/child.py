"""`python -m opl.experiments.cli.child WORDS`: execute one command in a process that ends with its parent."""

import sys

from ..cluster.parent import end_group, end_with_parent
from . import main


def execute() -> int:
    """Execute the command; what it started ends with it."""
    end_with_parent()
    try:
        return main()
    finally:
        end_group()


if __name__ == "__main__":
    sys.exit(execute())
