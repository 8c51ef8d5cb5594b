"""Time of `import opl; opl.regularize` in addition to `import torch`: median over new processes.

python benchmarks/import_time.py [--rounds 7]
"""

import argparse
import subprocess
import sys
from statistics import median

CODE = """
import time
start = time.process_time()
import torch
middle = time.process_time()
import opl
opl.regularize
print(middle - start, time.process_time() - middle)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    times = [
        [
            float(number)
            for number in subprocess.run(
                [sys.executable, "-c", CODE], capture_output=True, text=True, check=True
            ).stdout.split()
        ]
        for _ in range(rounds)
    ]
    torch, ours = (median(column) for column in zip(*times, strict=True))
    print(f"import torch {torch:.2f} s, then import opl; opl.regularize {ours:.3f} s (medians of {rounds})")


if __name__ == "__main__":
    main()
