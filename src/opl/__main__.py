"""`python -m opl`: the same as `opl`, which imports nothing from the working folder."""

import os
import sys

sys.path[:] = [place for place in sys.path if place not in ("", os.getcwd())]

from .experiments.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
