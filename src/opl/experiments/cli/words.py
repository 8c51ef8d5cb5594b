"""Words that are wrong whatever the command: empty paths, zero characters, lone dashes, a flag that is given twice."""

from ...errors import OptionError

PATHS = ("--out", "--to", "--records", "--file")
"""Flags whose value is a path, which an empty word would make the current folder."""


def check_words(words: list[str]) -> None:
    """Raise `OptionError` for words that no command can take."""
    seen = set()
    for before, word in zip(["", *words], words, strict=False):
        if "\0" in word:
            raise OptionError(f"the word {word[:200]!r} holds a zero character: leave that out.")
        if word == "--":
            raise OptionError("the word '--' stands alone: leave it out.")
        flag = word.partition("=")[0]
        if (not word and (before in PATHS or not before.startswith("--"))) or (word.endswith("=") and flag in PATHS):
            place = before if before in PATHS else flag or f"the word after {before!r}"
            raise OptionError(f"{place} is empty: give a path, or leave it out.")
        if flag.startswith("--"):
            name = flag.replace("_", "-")
            if name in seen:
                raise OptionError(f"{flag} is given twice: give it once.")
            seen.add(name)
