"""Few-shot episodes on frozen features: settings, encoder, classifiers of thousands of episodes at once."""
