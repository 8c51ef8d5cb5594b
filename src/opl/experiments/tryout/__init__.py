"""`opl try`: train with and without OPL on the images of a user, and compare within a time budget."""
