"""`python -m opl`: the same as `opl`, which imports nothing from the working folder."""

import os
import sys

sys.path[:] = [entry for entry in sys.path if entry not in ("", os.getcwd())]

from .experiments.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
