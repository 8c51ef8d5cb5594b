"""Code in a Python of its own, for the tests of what importing costs."""

import subprocess
import sys


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
