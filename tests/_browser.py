"""A real browser for pages that are files, with the network off, and what tests do with it."""

import contextlib
import shutil
import time

import pytest

WEBDRIVER = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")
for _name in ("chromium", "chromedriver"):
    if shutil.which(_name) is None:
        pytest.skip(f"{_name} is not installed: apt-get install chromium chromium-driver", allow_module_level=True)

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND",
    "--window-size=1280,900",
)  # fmt: skip


@contextlib.contextmanager
def open_browser(profile):
    """A Chromium with this folder as its profile."""
    options = WEBDRIVER.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = WEBDRIVER.Chrome(options=options, service=WEBDRIVER.ChromeService(shutil.which("chromedriver")))
    driver.set_script_timeout(60)
    try:
        yield driver
    finally:
        driver.quit()


def visit(driver, path, width=1280, theme="light"):
    """Open a page anew, in a theme and at a width."""
    look(driver, theme)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(path.as_uri())
    driver.execute_script("localStorage.clear()")
    return driver


def look(driver, theme, media=""):
    wanted = [{"name": "prefers-color-scheme", "value": theme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": wanted})


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


def draw(driver):
    """Wait until the page was drawn twice: it hears only then that it was scrolled, and hides what it tells."""
    driver.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
    )


def point_at(driver, element, x, y):
    """Move the mouse to a place inside an element, given as shares of its width and height."""
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    draw(driver)
    box = driver.execute_script("return (({left, top, width, height}) => [left, top, width, height])"
                                "(arguments[0].getBoundingClientRect())", element)  # fmt: skip
    at = {"x": box[0] + x * box[2], "y": box[1] + y * box[3]}
    driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", **at})


def press(driver, element, *keys):
    """Focus an element and press keys."""
    driver.execute_script("arguments[0].focus()", element)
    draw(driver)
    for key in keys:
        driver.switch_to.active_element.send_keys(key)
