"""The page in a real browser: from a file, with the network off. Skipped where Chromium or selenium is missing."""

import json
import shutil
import subprocess
import tarfile
import time

import pytest

from _runs import ITEM, ITEMS, write_everything
from opl.experiments.report.page import write_report
from opl.experiments.results.markdown import document
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import build_table

pytest.importorskip("plotly", reason="plotly is not installed: pip install plotly")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")
for _name in ("chromium", "chromedriver"):
    if shutil.which(_name) is None:
        pytest.skip(f"{_name} is not installed: apt-get install chromium chromium-driver", allow_module_level=True)

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND",
    "--window-size=1280,900",
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return write_everything(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium, runs):
    """The page of those runs, newly opened, in light and as wide as the window."""
    path = runs / "report.html"
    if not path.exists():
        write_report(runs, ITEMS)
    look(chromium, "light")
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.get(path.as_uri())
    chromium.execute_script("localStorage.clear()")
    return chromium


def look(driver, theme):
    wanted = [{"name": "prefers-color-scheme", "value": theme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})


def until(driver, script, *arguments, seconds=20):
    """What a script returns, once it is true."""
    end = time.monotonic() + seconds
    while True:
        found = driver.execute_script(script, *arguments)
        if found:
            return found
        assert time.monotonic() < end, f"never true: {script}"
        time.sleep(0.05)


def settles(driver, expected, script, *arguments, seconds=20):
    """Whether a script comes to return what is expected: a page answers when it has time to."""
    end = time.monotonic() + seconds
    while (found := driver.execute_script(script, *arguments)) != expected and time.monotonic() < end:
        time.sleep(0.05)
    assert found == expected


def click(driver, selector):
    """With the mouse, once the element is in the middle of the window."""
    element = driver.find_element("css selector", selector)
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()
    return element


def draw_all(driver):
    """Scroll to every chart, as a reader does; returns how many traces each has and should have."""
    count = driver.execute_script("return document.querySelectorAll('.chart').length")
    for place in range(count):
        driver.execute_script("document.querySelectorAll('.chart')[arguments[0]].scrollIntoView()", place)
        until(driver, "return document.querySelectorAll('.chart')[arguments[0]].querySelector('.main-svg')", place)
    return driver.execute_script("""
        return [...document.querySelectorAll(".chart")].map((chart) => [
            chart.data.length,
            JSON.parse(document.getElementById(chart.dataset.values).textContent).data.length,
            chart.querySelectorAll(".trace, .heatmaplayer image").length,
        ])""")


def test_it_opens_without_network_or_errors_and_draws_every_chart(browser):
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(browser.current_url)
    assert browser.execute_script("return typeof Plotly") == "undefined"  # nothing is in view yet
    charts = draw_all(browser)
    assert len(charts) == 4 * 3 + 2 * 2 + 2 + 2  # curves, matrices, features in the plane, the search
    assert all(drawn == wanted and shown for drawn, wanted, shown in charts)
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    assert asked
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)


def test_hovering_over_a_matrix_names_both_classes_and_the_value(browser):
    chart = until(browser, "return document.querySelector('[data-side$=\"-0\"]')")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    place = until(
        browser,
        """const area = arguments[0].querySelector(".nsewdrag");
        return area && (({left, top, width, height}) => ({left, top, width, height}))(area.getBoundingClientRect())""",
        chart,
    )
    cells = browser.execute_script("return (({x, y, z}) => ({x, y, z}))(arguments[0].data[0])", chart)
    row, column, count = 3, 7, len(cells["x"])
    at = {
        "x": place["left"] + (column + 0.5) * place["width"] / count,
        "y": place["top"] + (row + 0.5) * place["height"] / count,
    }
    for step in (2, 0):
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", **at, "x": at["x"] + step})
    said = until(browser, "return arguments[0].querySelector('.hoverlayer').textContent", chart)
    assert said == f"{cells['y'][row]} · {cells['x'][column]}: {cells['z'][row][column]:.3f}"


def test_matrices_change_their_order_and_their_row(browser):
    chart = until(browser, "return document.querySelector('[data-side$=\"-0\"]')")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    until(browser, "return arguments[0].data", chart)
    names, cells = browser.execute_script("return [arguments[0].data[0].x, arguments[0].data[0].z]", chart)
    browser.execute_script("document.querySelectorAll('[data-order]')[1].click()")
    until(browser, "return arguments[0].data[0].x.join() !== arguments[1].join()", chart, names)
    new_names, new_cells = browser.execute_script("return [arguments[0].data[0].x, arguments[0].data[0].z]", chart)
    assert sorted(new_names) == sorted(names)
    assert new_cells[2][5] == cells[names.index(new_names[2])][names.index(new_names[5])]
    browser.execute_script("""
        const choice = document.querySelector("[data-panel]");
        choice.selectedIndex = 2;
        choice.dispatchEvent(new Event("change"));""")
    until(browser, "return arguments[0].data[0].z[2][5] !== arguments[1]", chart, new_cells[2][5])


def test_the_switch_shows_each_seed_and_the_check_boxes_hide_rows(browser):
    chart = until(browser, "return document.querySelector('#curves .chart')")
    browser.execute_script("arguments[0].scrollIntoView()", chart)
    until(browser, "return arguments[0].data", chart)
    shown = """const seen = arguments[0].data.filter((trace) => trace.visible !== false);
        return [seen.length, [...new Set(seen.map((trace) => trace.meta.kind))].join()]"""
    settles(browser, [8, "mean"], shown, chart)
    click(browser, "#curves input[value=seed]")
    settles(browser, [14, "seed"], shown, chart)  # three seeds of four rows, and two unfinished runs
    click(browser, "#curves .filters input")
    settles(browser, [11, "seed"], shown, chart)
    click(browser, "#curves input[value=mean]")
    settles(browser, [6, "mean"], shown, chart)


@pytest.mark.parametrize("allowed", [True, False])
def test_a_table_is_copied_as_markdown(browser, runs, allowed):
    """By the clipboard, or, where a page from a file may not use it, the old way; then pasted to see what came out."""
    if not allowed:
        browser.execute_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    button = click(browser, "[data-copy='copy-table-1-small']")
    until(browser, "return arguments[0].textContent === 'Copied'", button)
    settles(browser, "Copied to the clipboard", "return document.getElementById('said').textContent")
    browser.execute_script("document.querySelector('main').prepend(document.createElement('textarea'))")
    area = browser.find_element("css selector", "main > textarea")
    area.send_keys("\ue009v")  # control and v
    assert area.get_property("value") == document(build_table(ITEM, read_runs(runs), "small"))


def test_nothing_is_wider_than_a_phone(browser):
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    browser.refresh()
    draw_all(browser)
    browser.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390


def test_dark_is_dark_and_the_button_changes_it(browser):
    colors = """const chart = document.querySelector(".chart");
        return [getComputedStyle(document.body).backgroundColor, chart.layout?.font.color]"""
    chart = browser.find_element("css selector", ".chart")
    browser.execute_script("arguments[0].scrollIntoView()", chart)
    until(browser, "return arguments[0].layout", chart)
    light = browser.execute_script(colors)
    look(browser, "dark")
    until(browser, "return matchMedia('(prefers-color-scheme: dark)').matches")
    assert light[0] == "rgb(255, 255, 255)"
    settles(browser, "rgb(15, 18, 22)", "return getComputedStyle(document.body).backgroundColor")
    until(browser, "return arguments[0].layout.font.color !== arguments[1]", chart, light[1])
    browser.execute_script("document.getElementById('theme').focus()")
    browser.switch_to.active_element.send_keys("\ue007")  # enter
    settles(browser, light, colors)
    assert browser.find_element("id", "theme").accessible_name == "Dark theme"


def test_the_keyboard_reaches_what_can_be_done(browser):
    reached = []
    for _ in range(14):
        browser.switch_to.active_element.send_keys("\ue004")  # tab
        reached.append(browser.execute_script("return document.activeElement.outerHTML.slice(0, 60)"))
    assert 'class="skip"' in reached[0]
    for part in ('href="#tables"', 'id="theme"', "<summary", "data-copy"):
        assert any(part in each for each in reached), part


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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser, axe, theme):
    look(browser, theme)
    browser.refresh()
    draw_all(browser)
    browser.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    browser.execute_script(axe)
    found = browser.execute_async_script(
        "axe.run({resultTypes: ['violations']}).then((result) => arguments[0](result.violations))"
    )
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert not serious, json.dumps([(each["id"], [node["html"] for node in each["nodes"][:3]]) for each in serious])
