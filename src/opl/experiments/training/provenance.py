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


def commit(source: Path = Path(__file__)) -> str:
    """Return the commit of the running source, with `+` if files differ from it; empty unless git tracks the source.

    A package that is installed below somebody's repository, in an environment that git ignores, is not part of it.
    """
    try:
        _git(source, "ls-files", "--error-unmatch", source.name)
        return _git(source, "describe", "--always", "--dirty=+", "--abbrev=10")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(source: Path, *words: str) -> str:
    command = ["git", "-C", str(source.parent), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
