"""Time and memory of `opl.geometry.retrieval` on 50,000 features of dimension 512.

    python benchmarks/retrieval.py [--rows 50000] [--dim 512] [--classes 100]

Prints one JSON line: seconds, additional peak memory in MB, and the measures.
"""

import argparse
import json
import resource
import time

import torch

from opl import geometry


def main() -> None:
    """Measure once, on synthetic features whose classes overlap."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--classes", type=int, default=100)
    arguments = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(arguments.classes, (arguments.rows,), generator=generator)
    centers = torch.randn(arguments.classes, arguments.dim, generator=generator)
    features = torch.randn(arguments.rows, arguments.dim, generator=generator).mul_(3).add_(centers[labels])
    geometry.retrieval(features[:2000], labels[:2000])  # start the threads
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    result = geometry.retrieval(features, labels)
    seconds = time.perf_counter() - start
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps({"seconds": round(seconds, 1), "extra_mb": round(extra), **result._asdict()}))


if __name__ == "__main__":
    main()
