"""What can be done with the page, in a real browser. Skipped where Chromium or selenium is missing."""

import json

import pytest

from _browser import click, look, open_browser, point_at, press, settles, visit
from _runs import ITEM, ITEMS, write_everything
from opl.experiments.report.page import write_report
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import build_table
from opl.experiments.results.text import document

TAB, ENTER, LEFT, UP, RIGHT, DOWN = "\ue004", "\ue007", "\ue012", "\ue013", "\ue014", "\ue015"
STATUS = "return document.getElementById('status').textContent"
TIP = "const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.innerText"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = write_everything(tmp_path_factory.mktemp("runs"))
    write_report(folder, ITEMS)
    return folder


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def browser(chromium, runs):
    """The page of those runs, newly opened, in light and as wide as the window."""
    return visit(chromium, runs / "report.html")


def test_it_opens_without_network_or_errors(browser):
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(browser.current_url)
    assert browser.execute_script("return document.querySelectorAll('svg.chart').length") > 20
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    assert asked
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)


def test_a_heading_sorts_its_table_both_ways(browser):
    column = """return [...document.querySelectorAll("#table-1-small-table table tbody tr")]
        .map((row) => row.cells[2].textContent)"""
    before = browser.execute_script(column)
    numbers = [float(text.split()[0]) for text in before]
    assert numbers != sorted(numbers)
    heading = "#table-1-small-table thead th:nth-child(3) .sort"
    click(browser, heading)
    assert [float(text.split()[0]) for text in browser.execute_script(column)] == sorted(numbers)
    press(browser, browser.find_element("css selector", heading), ENTER)
    assert [float(text.split()[0]) for text in browser.execute_script(column)] == sorted(numbers, reverse=True)
    assert browser.find_element("css selector", "#table-1-small-table [aria-sort]").get_attribute("aria-sort") == (
        "descending"
    )
    settles(browser, "sorted by top-1 %, descending", STATUS)


def test_check_boxes_hide_lines_and_classes_in_all_charts(browser):
    shown = """return [...document.querySelectorAll(arguments[0])].map((each) => getComputedStyle(each).display)"""
    lines = "#table-1-small-curves svg.chart [data-series='1']"
    assert set(browser.execute_script(shown, lines)) == {"inline"}
    click(browser, "#table-1-small-curves [data-filter][data-series='1']")
    assert set(browser.execute_script(shown, lines)) == {"none"}
    classes = "#table-1-small-features [data-pair='table-1-small-0'] svg.chart [data-series='3']"
    assert browser.execute_script(shown, classes) == ["inline", "inline"]  # before and after
    click(browser, "#table-1-small-features [data-filter][data-series='3']")
    assert browser.execute_script(shown, classes) == ["none", "none"]
    click(browser, "#table-1-small-features [data-all][data-on='true']")
    assert browser.execute_script(shown, classes) == ["inline", "inline"]


def test_pointing_at_an_image_marks_it_on_both_sides_and_shows_its_picture(browser):
    data = browser.execute_script("return JSON.parse(document.getElementById('features-table-1-small-0').textContent)")
    place = next(i for i, picture in enumerate(data["picture"]) if picture >= 0)
    left, right = browser.find_elements("css selector", "[data-points='features-table-1-small-0']")
    point_at(browser, left, data["x"][0][place] / 400, data["y"][0][place] / 400)
    ring = "return ['cx', 'cy'].map((name) => Number(arguments[0].querySelector('.ring').getAttribute(name)))"
    [x, y] = browser.execute_script(ring, right)
    chosen = next(i for i in range(len(data["x"][1])) if [data["x"][1][i], data["y"][1][i]] == [x, y])
    near = (data["x"][0][chosen] - data["x"][0][place]) ** 2 + (data["y"][0][chosen] - data["y"][0][place]) ** 2
    assert near < 9  # that image, or one that lies over it
    words = browser.find_element("css selector", "[data-description='features-table-1-small-0']").text
    assert words.startswith(f"Image {data['rows'][chosen]}: {data['names'][data['truth'][chosen]]}; predicted ")
    press(browser, right, RIGHT, DOWN)
    settles(browser, browser.find_element("css selector", "[data-description='features-table-1-small-0']").text, STATUS)
    painted = """const canvas = document.querySelector("[data-canvas='features-table-1-small-0']");
        return canvas.hidden ? 0 : Math.max(...canvas.getContext("2d").getImageData(0, 0, 120, 120).data)"""
    for _ in range(40):  # on to an image that has a picture
        if browser.execute_script(painted) > 0:
            break
        press(browser, right, RIGHT)
    assert browser.execute_script(painted) > 0


def test_pointing_at_a_matrix_names_both_classes_and_all_values(browser):
    data = browser.execute_script("return JSON.parse(document.getElementById('matrix-table-1-small-0').textContent)")
    count, (row, column) = len(data["names"]), (7, 3)
    box = browser.find_element("css selector", "[data-matrix='matrix-table-1-small-0']")
    point_at(browser, box, (column + 0.5) / count, (row + 0.5) / count)
    before, after = (cells[row][column] / 1000 for cells in data["cells"])
    said = [f"{data['names'][row]} · {data['names'][column]}", f"{before:.3f} → {after:.3f}"]
    assert browser.execute_script(TIP).split("\n")[:2] == said
    marked = "return document.querySelectorAll('[data-matrix=\"matrix-table-1-small-0\"] .cell:not([hidden])').length"
    assert browser.execute_script(marked) == 3
    press(browser, box, DOWN)
    assert browser.execute_script(TIP).startswith(f"{data['names'][row + 1]} · {data['names'][column]}")
    click(browser, "[data-order='matrix-table-1-small-0'][value='1']")
    point_at(browser, box, (column + 0.5) / count, (row + 0.5) / count)
    one, other = (data["names"][data["orders"][1][place]] for place in (row, column))
    assert browser.execute_script(TIP).startswith(f"{one} · {other}")


def test_the_arrow_keys_read_a_curve(browser):
    chart = browser.find_element("css selector", "#table-1-small-curves svg[data-lines$='-d']")
    press(browser, chart, RIGHT, RIGHT)
    said = browser.execute_script(TIP).split("\n")
    assert said[0] == "epoch 4"
    assert [line.split(":")[0] for line in said[1:]] == ["CE", "CE+OPL", "Center", "OLE"]
    settles(browser, ", ".join(said), STATUS)


def test_a_menu_changes_the_comparison_in_all_parts(browser):
    browser.execute_script("""
        const menu = document.querySelector("[data-compare]");
        menu.selectedIndex = 1;
        menu.dispatchEvent(new Event("change"));""")
    visible = "return [...document.querySelectorAll('[data-of]:not([hidden])')].map((box) => box.dataset.pair)"
    found = browser.execute_script(visible)
    assert found.count("table-1-small-1") == 4  # cosines, features, classes and pictures
    assert "table-1-small-0" not in found


def test_terms_are_explained_to_mouse_and_keyboard(browser):
    term = browser.find_element("css selector", ".verdict .term")
    press(browser, term)
    assert browser.execute_script(TIP).startswith("OPL: orthogonal projection loss")
    press(browser, term, "\ue00c")  # escape
    assert browser.execute_script(TIP) == ""


@pytest.mark.parametrize("allowed", [True, False])
def test_a_table_is_copied_as_markdown(browser, runs, allowed):
    """By the clipboard, or, where a page from a file may not use it, the old way; then pasted to see what came out."""
    if not allowed:
        browser.execute_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    button = click(browser, "[data-copy='copy-table-1-small']")
    settles(browser, "Copied", "return arguments[0].textContent", button)
    settles(browser, "Copied to the clipboard", STATUS)
    browser.execute_script("document.querySelector('main').prepend(document.createElement('textarea'))")
    area = browser.find_element("css selector", "main > textarea")
    area.send_keys("\ue009v")  # control and v
    assert area.get_property("value") == document(build_table(ITEM, read_runs(runs), "small"))


def test_the_theme_follows_the_system_until_the_button_is_pressed(browser):
    color = "return getComputedStyle(document.body).backgroundColor"
    assert browser.execute_script(color) == "rgb(255, 255, 255)"
    look(browser, "dark")
    settles(browser, "rgb(15, 18, 22)", color)
    press(browser, browser.find_element("id", "theme"), ENTER)
    settles(browser, "rgb(255, 255, 255)", color)
    assert browser.find_element("id", "theme").accessible_name == "Dark theme"


def test_the_keyboard_reaches_every_chart(browser):
    reached = []
    for _ in range(60):
        browser.switch_to.active_element.send_keys(TAB)
        reached.append(browser.execute_script("return document.activeElement.outerHTML.slice(0, 200)"))
    assert 'class="skip"' in reached[0]
    for part in ('href="#table-1-small"', 'id="theme"', 'class="sort"', "data-copy", 'class="chart"', "<summary"):
        assert any(part in each for each in reached), part
