"""`python -m opl.experiments.cli.child WORDS`: execute one command in a process that ends with its parent."""

import sys

from ..cluster.parent import end_with_parent
from . import main

if __name__ == "__main__":
    end_with_parent()
    sys.exit(main())
