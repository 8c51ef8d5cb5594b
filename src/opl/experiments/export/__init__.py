"""Export of a finished run: weights, config, model card and figures, in a folder or on the Hub."""
