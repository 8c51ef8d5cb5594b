"""What the package index shows beside `pyproject.toml`: the address of the repository, and a README that links to it.

The release workflow gives the address as OPL_REPOSITORY; without it links of the README stay as they are in the source.
"""

import os
import re
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
PAPER = "https://arxiv.org/abs/2103.14021"


def link_to(repository: str, version: str, text: str) -> str:
    """Make links to files absolute: at a version of a repository, pictures as files and all else as pages."""
    files = rf"\g<1>{repository}/raw/v{version}/\2"
    pages = rf"\g<1>{repository}/blob/v{version}/\2"
    text = re.sub(r"(!\[[^\]]*\]\()(?!\w+:|#)([^)]+)(?=\))", files, text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!\w+:|#)([^)]+)(?=\))", pages, text)


def describe(repository: str) -> dict[str, object]:
    """The keywords of `setup` that depend on the repository."""
    readme, urls = (HERE / "README.md").read_text(encoding="utf-8"), {"Paper": PAPER}
    if repository:
        [version] = re.findall(r'^__version__ = "(.+)"$', (HERE / "src/opl/__init__.py").read_text(), re.MULTILINE)
        readme = link_to(repository, version, readme)
        pages = {"Documentation": "tree/main/docs", "Changelog": "blob/main/CHANGELOG.md", "Issues": "issues"}
        urls |= {"Repository": repository} | {name: f"{repository}/{page}" for name, page in pages.items()}
    return {"long_description": readme, "long_description_content_type": "text/markdown", "project_urls": urls}


if __name__ == "__main__":
    setup(**describe(os.environ.get("OPL_REPOSITORY", "").rstrip("/")))
