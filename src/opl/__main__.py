"""`python -m opl`: the same as `opl`."""

import sys

from .experiments.cli import main

if __name__ == "__main__":
    sys.exit(main())
