"""The algorithms that compute OPL: all pairs at once, class sums, tiles, and a batch spread over processes."""
