"""What the package index shows: absolute links, to files that exist."""

import importlib.util
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
REPOSITORY = "https://example.org/someone/opl"
LINK = re.compile(r"\]\(([^)]+)\)")


@pytest.fixture(scope="module")
def package():
    if not (HERE / "setup.py").exists():
        pytest.skip("setup.py is not in the package")
    pytest.importorskip("setuptools", reason="setuptools is not installed")
    spec = importlib.util.spec_from_file_location("package_setup", HERE / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_link_of_the_readme_is_absolute_and_leads_to_a_file(package):
    described = package.describe(REPOSITORY)
    links = LINK.findall(described["long_description"])
    assert len(links) == len(LINK.findall((HERE / "README.md").read_text(encoding="utf-8"))) > 20
    ours = [link.partition("/v")[2].partition("/")[2] for link in links if link.startswith(REPOSITORY)]
    assert all(link.startswith("https://") for link in links)
    assert all((HERE / path.partition("#")[0]).exists() for path in ours)
    assert described["project_urls"]["Repository"] == REPOSITORY


def test_pictures_are_linked_as_files_and_all_else_as_pages(package):
    text = "![plot](docs/a.svg) [page](docs/b.md#c) [there](#below) [paper](https://example.org/p)"
    assert package.link_to(REPOSITORY, "1.2", text) == (
        f"![plot]({REPOSITORY}/raw/v1.2/docs/a.svg) [page]({REPOSITORY}/blob/v1.2/docs/b.md#c) "
        "[there](#below) [paper](https://example.org/p)"
    )


def test_without_an_address_the_readme_is_that_of_the_source(package):
    described = package.describe("")
    assert described["long_description"] == (HERE / "README.md").read_text(encoding="utf-8")
    assert list(described["project_urls"]) == ["Paper"]
