"""The search for settings by validation: on a grid, or by Optuna."""
