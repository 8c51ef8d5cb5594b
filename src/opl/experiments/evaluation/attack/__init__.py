"""Accuracy under attack: settings, FGSM and PGD, AutoAttack, sanity checks. Does not import torch."""
