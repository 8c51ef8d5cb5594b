"""Training, from a recipe to a finished run folder: `run` connects the parts, and `train.fit` is the only loop."""
