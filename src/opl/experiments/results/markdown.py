"""A table as Markdown."""

from .tables import Table, cells


def markdown(table: Table) -> str:
    """The table alone."""
    heading, body = cells(table)
    ruled = [heading, ["---"] * len(heading), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in ruled)


def document(table: Table) -> str:
    """The table with the text below it as paragraphs: its file, the page's copy, and its part of RESULTS.md."""
    return "\n\n".join([markdown(table), *table.below])
