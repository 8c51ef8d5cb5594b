"""Few-shot episodes on frozen features: settings, encoder, and classifiers for thousands of episodes at once."""
