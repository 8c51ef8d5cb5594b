"""The ways to compute one and the same loss: all pairs at once, class sums, tiles, and class sums across processes."""
