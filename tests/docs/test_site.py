"""The site is built without a warning, and every link of every page leads somewhere, on this site alone."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx", reason="sphinx is not installed: pip install 'orthogonal-projection-loss[docs]'")
pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
NOT_LOADED = {"canonical", "search", "index", "next", "prev", "author", "copyright"}  # rel of links to pages
LARGEST = 1_000_000  # bytes of the home page with everything that it loads, except for the animation


class Page(HTMLParser):
    """The ids, links and loaded files of a page."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loaded = set(), set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids.add(given.get("id"))
        if tag == "a" and given.get("href"):
            self.links.add(given["href"])
        if given.get(LOADED.get(tag)) and given.get("rel") not in NOT_LOADED:
            self.loaded.add(given[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site") / "html"
    argv = ["--fail-on-warning", "--keep-going", "--quiet", "--builder", "html", str(DOCS), str(out)]
    done = subprocess.run([sys.executable, "-m", "sphinx", *argv], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return {path: Page(path) for path in sorted(out.rglob("*.html"))}


def _is_elsewhere(link):
    return bool(urlsplit(link).scheme or urlsplit(link).netloc)


def test_every_link_and_anchor_of_this_site_exists(site):
    broken = []
    for path, page in site.items():
        for link in page.links | page.loaded:
            parts = urlsplit(link)
            if _is_elsewhere(link):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = target in site
            if not target.exists() or (known and parts.fragment and unquote(parts.fragment) not in site[target].ids):
                broken.append(f"{path.name}: {link}")
    assert broken == []
    assert sum(len(page.links) for page in site.values()) > 1000


def test_no_page_loads_anything_from_another_host(site):
    for path, page in site.items():
        assert [link for link in page.loaded if _is_elsewhere(link) and not link.startswith("data:")] == [], path.name
    root = min(site, key=lambda path: len(path.parts)).parent
    for file in (*root.rglob("*.css"), *root.rglob("*.js")):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"""(?:url\(|@import\s*|import\(|src=)["']?(?:https?:)?//""", text), file.name


def test_the_home_page_is_small(site):
    home = next(path for path in site if path.name == "index.html" and (path.parent / "_static").exists())
    files = {(home.parent / urlsplit(link).path).resolve() for link in site[home].loaded}
    sizes = {file.name: file.stat().st_size for file in files if file.suffix not in (".gif", ".webp")}
    assert home.stat().st_size + sum(sizes.values()) <= LARGEST, sizes


def test_formulas_are_mathml(site):
    [page] = [path for path in site if path.parts[-2:] == ("reference", "glossary.html")]
    assert page.read_text(encoding="utf-8").count("<math") >= 3
