"""The provenance of results: versions, commit and machine."""

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import torch

from ... import __version__


def describe_environment() -> dict[str, Any]:
    """Return versions, commit and machine, for `recipe.json`."""
    return {
        "versions": {"opl": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "commit": commit(),
        "machine": {
            "system": platform.platform(terse=True),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        },
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def commit() -> str:
    """Return the commit of the running source tree, with `+` if files differ from it; empty outside a repository."""
    here = Path(__file__).parent
    words = ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=10"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
