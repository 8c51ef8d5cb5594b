"""A finished run as a model for others: weights, config, model card and pictures, in a folder or on the Hub."""
