"""The sections of `benchmarks/faults.py`: each tries one kind of fault many times and counts what came of it."""
