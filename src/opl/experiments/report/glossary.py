"""The terms that the page uses, explained where they first appear and in a list."""

import re

TERMS = {
    "CE": "cross-entropy: the usual loss of a classifier, and the baseline here",
    "OPL": "orthogonal projection loss: a term added to the usual loss that pulls the features of one class together "
    "and puts different classes at right angles",
    "s": "mean cosine between the features of two images of the same class; 1 is best",
    "d": "mean |cosine| between the features of two images of different classes, which OPL penalizes; 0, at right "
    "angles, is best",
    "Recall@1, MAP@R": "how often the nearest test image has the same class, and how high its other images rank",
    "kNN, nearest class mean": "accuracy of classifiers that only compare the test features with training features",
    "failure AUROC": "probability that a right prediction is more confident than a wrong one",
    "ECE, NLL, Brier": "errors of the predicted probabilities: calibration, log-likelihood, squared error; 0 is best",
    "NC1, effective rank": "spread within classes relative to the spread between them, and number of dimensions in use",
    "seed": "random seed; a row and its baseline share their seeds, so they are compared seed by seed",
    "95 % interval": "where the mean over all seeds is expected, by the t distribution over the seeds that were run",
    "a gain, a loss": "the paired difference is above or below zero after Holm's adjustment for all comparisons of the "
    "table (adjusted p below 0.05)",
    "equivalent within ±x": "two one-sided tests, adjusted in the same way, show that the difference is smaller than "
    "x: the 90 % interval lies inside ±x",
    "undecided": "neither a difference nor equivalence is shown: more seeds may tell",
    "too few seeds to tell": "there is one seed, or all seeds differ by the same amount, so nothing is known about the "
    "spread of other seeds",
    "fixed, broken": "test images that the second model gets right and the first wrong, and vice versa; the exact sign "
    "test says how often chance alone gives counts this unequal",
}
_EXPLAINED = re.compile(r"(?<![\w'’-])(CE|OPL|s|d)(?![\w'’-])")


def split_terms(text: str) -> list[tuple[str, str]]:
    """Split a text into pieces and terms: the first CE, OPL, s and d are terms, and other pieces have an empty term.

    Example:
        >>> split_terms("d 0.7 → 0.4, d")
        [('d', 'd'), (' 0.7 → 0.4, d', '')]
    """
    pieces: list[tuple[str, str]] = []
    end = 0
    for match in _EXPLAINED.finditer(text):
        if match[0] not in {term for _, term in pieces}:
            pieces += [(text[end : match.start()], ""), (match[0], match[0])]
            end = match.end()
    return [(piece, term) for piece, term in [*pieces, (text[end:], "")] if piece]


def term_id(term: str) -> str:
    """Return the id of the element that explains a term."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")
