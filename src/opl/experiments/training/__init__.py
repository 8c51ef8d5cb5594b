"""From a recipe to a finished run folder: `run` joins the rooms, `train.fit` is the only loop."""
