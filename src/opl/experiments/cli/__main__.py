"""`python -m opl.experiments.cli`."""

import sys

from . import main

sys.exit(main())
