"""How OPL is computed: all pairs at once, class sums, tiles, and the batch of several processes."""
