"""Execute the notebooks of the site and store their outputs: `make notebooks` (about a minute per notebook)."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "notebooks"
SECONDS = 600
"""Time limit of a cell; a notebook should take less than two minutes on two idle cores."""


def execute(path: Path) -> nbformat.NotebookNode:
    """Return the notebook with the outputs of a new execution, without times and without prompts of this run."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=SECONDS, record_timing=False, coalesce_streams=True).execute()
    notebook.metadata = {key: notebook.metadata[key] for key in ("kernelspec",)}
    return notebook


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        print(path.name, flush=True)
        nbformat.write(execute(path), path)
