"""SUR's evaluation: episodes of Meta-Dataset, for each of which the features of several domains are weighted."""
