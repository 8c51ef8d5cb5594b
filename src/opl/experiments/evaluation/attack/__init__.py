"""Accuracy under attack: settings, FGSM and PGD, AutoAttack, sanity checks. No torch in here."""
