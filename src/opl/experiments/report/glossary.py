"""The words of the field that the page uses, explained where they first stand and in a list."""

import re

from .markup import Markup, join, tag

TERMS = {
    "CE": "cross-entropy: the usual loss of a classifier, and the baseline here",
    "OPL": "orthogonal projection loss: a term beside the usual loss that pulls the features of one class together and "
    "puts different classes at right angles",
    "s": "mean cosine between the features of two images of the same class; 1 is best",
    "d": "|mean cosine| between the features of two images of different classes; 0, at right angles, is best",
    "seed": "the number that fixes all chance of a run; a row and its baseline share theirs, so they are compared seed "
    "by seed",
    "95 % interval": "where the mean over all seeds is expected, by the t distribution over the seeds that were run",
    "a gain, a loss": "the paired difference is above or below zero after Holm's adjustment for all comparisons of the "
    "table (adjusted p below 0.05)",
    "equivalent within ±x": "two one-sided tests, adjusted in the same way, show that the difference is smaller than "
    "x: the 90 % interval lies inside ±x",
    "undecided": "neither a difference nor equivalence is shown: more seeds may tell",
    "too few seeds to tell": "there is one seed, so nothing is known about other seeds",
    "fixed, broken": "test images that the second model gets right and the first wrong, and the other way round; the "
    "exact sign test says how often chance alone gives such unequal counts",
}
_WORDS = re.compile(r"(?<![\w'’-])(CE|OPL|s|d)(?![\w'’-])")


def explain(words: str) -> Markup:
    """The words, with the first CE, OPL, s and d as links that show their explanation.

    Example:
        >>> explain("d 0.7 → 0.4, d")
        '<a href="#term-d" class="term" aria-describedby="term-d">d</a> 0.7 → 0.4, d'
    """
    parts: list[object] = []
    known: set[str] = set()
    place = 0
    for found in _WORDS.finditer(words):
        term = found[0]
        if term not in known:
            known.add(term)
            link = tag("a", term, href=f"#{term_id(term)}", class_="term", aria_describedby=term_id(term))
            parts += [words[place : found.start()], link]
            place = found.end()
    return join(*parts, words[place:])


def section() -> Markup:
    """All terms."""
    pairs = [tag("div", tag("dt", term), tag("dd", words, id=term_id(term))) for term, words in TERMS.items()]
    return tag("dl", *pairs, class_="glossary")


def term_id(term: str) -> str:
    """The id of the element that explains a term."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")
