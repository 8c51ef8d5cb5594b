"""How the page looks in a real browser: at every width, in light and dark, in print, and to assistive technology."""

import json
import shutil
import subprocess
import tarfile

import pytest

from _browser import click, look, open_browser, settles, visit
from _runs import ITEM, ITEMS, opl, write_everything, write_run
from opl.experiments.paper import ITEMS as PAPER
from opl.experiments.report.page import write_report
from opl.experiments.results.conformity import screen
from opl.experiments.results.runs import read_runs

OPEN = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"


def write_pair(folder, seeds):
    """A baseline and OPL, with all outputs."""
    for seed in range(seeds):
        write_run(folder, "cifar100-ce", seed, outputs=True)
        write_run(folder, "cifar100-opl", seed, method=opl(1.0), gain=2.0, pull=0.15, outputs=True)


def two_seeds(folder):
    write_pair(folder, 2)


def one_seed(folder):
    write_pair(folder, 1)


def one_failed(folder):
    write_pair(folder, 1)
    write_run(folder, "cifar100-opl", 6, done=False, error="the loss is not finite: lower the learning rate.")


def other_settings(folder):
    write_pair(folder, 1)
    write_run(folder, "cifar100-ce", 5)
    write_run(folder, "cifar100-opl", 5, method=opl(1.0), epochs=4)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_report(write_everything(tmp_path_factory.mktemp("runs")), ITEMS)


@pytest.fixture(scope="module")
def table_1(tmp_path_factory):
    """All rows of table 1 at the paper's scale, with both networks; the first comparison has all outputs."""
    folder, item = tmp_path_factory.mktemp("table-1"), PAPER["table-1"]
    for index, row in enumerate(item.at("paper")):
        method = opl(1.0) if row.recipe.endswith("opl") else None
        for seed in range(2):
            more = {"method": method, "gain": 2 - index / 5, "outputs": index < 2}
            write_run(folder, row.recipe, seed, scale="paper", **more)
    return write_report(folder, {"table-1": item}, runs=read_runs(folder))


def test_table_1_fits_on_a_phone_with_every_mean_beside_its_interval(chromium, table_1):
    visit(chromium, table_1, 390)
    assert chromium.execute_script("return document.documentElement.scrollHeight") < 12_000
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= 390
    lines = """return [...document.querySelectorAll("#table-1-paper-table .value")].map((value) => {
        const range = document.createRange(); range.selectNodeContents(value);
        return new Set([...range.getClientRects()].map((box) => Math.round(box.bottom))).size })"""
    counted = chromium.execute_script(lines)
    assert len(counted) == 4 * len(PAPER["table-1"].at("paper"))
    assert set(counted) == {1}


def test_a_phone_shows_headings_first_and_links_open_their_parts(chromium, table_1):
    folded = "return [...document.querySelectorAll('details.part')].map((part) => part.open)"
    visit(chromium, table_1, 1400)
    assert all(chromium.execute_script(folded))
    visit(chromium, table_1, 390)
    assert not any(chromium.execute_script(folded))
    chromium.execute_script("document.querySelector('.thumbnail').click()")
    opened = chromium.execute_script("return [...document.querySelectorAll('details.part[open]')].map((e) => e.id)")
    assert opened == ["table-1-paper-features"]
    look(chromium, "light", media="print")
    settles(chromium, True, "return [...document.querySelectorAll('details.part')].every((part) => part.open)")
    look(chromium, "light")


def test_sorting_keeps_the_groups_together(chromium, table_1):
    visit(chromium, table_1, 1400)
    texts = """return [...document.querySelectorAll("#table-1-paper-table tbody")].map((body) => [...body.rows].map(
        (row) => row.cells[row.matches(".group") ? 0 : 2].textContent))"""
    before = chromium.execute_script(texts)
    assert [group[0].split()[0] for group in before] == ["ResNet-56", "ResNet-110"]
    click(chromium, "#table-1-paper-table thead th:nth-child(3) .sort")
    assert chromium.execute_script(texts) == [
        [heading, *sorted(values, key=lambda text: float(text.split()[0]))] for heading, *values in before
    ]


@pytest.mark.parametrize("width", [1400, 1280, 800, 390])
def test_nothing_is_wider_than_the_window(chromium, page, width):
    visit(chromium, page, width)
    chromium.execute_script(OPEN)
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width


def test_no_table_scrolls_sideways_at_1280_pixels(chromium, page):
    visit(chromium, page, 1280)
    chromium.execute_script(OPEN)
    cut = """return [...document.querySelectorAll(".box")].filter((box) => box.scrollWidth > box.clientWidth + 1)
        .map((box) => box.getAttribute("aria-label"))"""
    assert chromium.execute_script(cut) == []


def test_the_first_screen_has_verdict_cosines_and_plot(chromium, page):
    visit(chromium, page, 1400)
    inside = """return [...document.querySelectorAll("#table-1-small .verdict, #table-1-small .opening .forest, "
        + "#table-1-small .opening [data-pair]:not([hidden]) svg.chart")].map(
        (each) => Math.round(each.getBoundingClientRect().bottom))"""
    ends = chromium.execute_script(inside)
    assert len(ends) == 4
    assert max(ends) <= 900
    assert chromium.execute_script("return document.querySelectorAll('#table-1-small .thumbnail').length") == 2


def test_print_is_light_without_buttons_and_with_every_chart_and_table(chromium, page):
    visit(chromium, page, 700, theme="dark")  # about a sheet of A4, where a screen shows cards
    look(chromium, "dark", media="print")
    rows = "return [...document.querySelectorAll('.cards tr')].map((each) => getComputedStyle(each).display)"
    assert set(chromium.execute_script(rows)) == {"table-row"}
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert chromium.execute_script(wide) <= 0
    shown = (
        """return [...document.querySelectorAll(arguments[0])].filter((each) => each.getClientRects().length).length"""
    )
    for hidden in (".bar", "button:not(.sort)", "select", ".filters", "details.data"):
        assert chromium.execute_script(shown, hidden) == 0, hidden
    assert chromium.execute_script(shown, "svg.chart") > 15
    assert chromium.execute_script("return getComputedStyle(document.documentElement).colorScheme") == "light"
    paper = chromium.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert paper.startswith("JVBER")  # %PDF in base64


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The checker of accessibility, from npm; nothing of it is kept in this repository."""
    folder = tmp_path_factory.mktemp("axe")
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: it brings axe-core, which checks accessibility")
    try:
        words = ["npm", "pack", "axe-core@4", "--silent"]
        subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=60)
    except subprocess.SubprocessError:
        pytest.skip("npm cannot fetch axe-core, which checks accessibility")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()


def findings(driver, axe):
    driver.execute_script(OPEN)
    driver.execute_script(axe)
    found = driver.execute_async_script(
        "axe.run({resultTypes: ['violations']}).then((result) => arguments[0](result.violations))"
    )
    return json.dumps(
        [(each["id"], each["impact"], [node["html"][:200] for node in each["nodes"][:3]]) for each in found]
    )


SLOW = pytest.mark.slow
LOOKS = [
    (1400, "light"),
    (390, "dark"),
    pytest.param(1400, "dark", marks=SLOW),
    pytest.param(800, "light", marks=SLOW),
    pytest.param(800, "dark", marks=SLOW),
    pytest.param(390, "light", marks=SLOW),
]


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_axe_finds_nothing(chromium, page, axe, width, theme):
    assert findings(visit(chromium, page, width, theme), axe) == "[]"


@pytest.mark.parametrize("write", [two_seeds, one_seed, one_failed, other_settings])
def test_pages_of_few_or_incomparable_runs_have_no_errors(chromium, tmp_path, axe, write):
    write(tmp_path)
    runs = screen(read_runs(tmp_path), [ITEM])
    page = write_report(tmp_path, {"table-1": ITEM}, runs=runs)
    visit(chromium, page, 390)
    chromium.get_log("browser")
    chromium.get(page.as_uri())
    assert chromium.get_log("browser") == []
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= 390
    assert findings(chromium, axe) == "[]"
