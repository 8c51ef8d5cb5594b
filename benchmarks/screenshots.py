"""Screenshots of a report page at 1,400, 800 and 390 pixels, light and dark, and copies of its figures.

    python benchmarks/screenshots.py runs/small/demo --out shots

For each width and theme: the first screen and the whole page. Figures (`figure-*.png` in the folder) are copied next to
them. Needs Chromium, chromedriver and selenium.
"""

import argparse
import base64
import shutil
import sys
from pathlib import Path
from typing import Any

SIZES = {1400: 900, 800: 1000, 390: 844}
THEMES = ("light", "dark")
TALLEST = 16_000  # pixels: browsers draw no taller screenshot
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND")


def main() -> int:
    """Write the page, then all screenshots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder of runs")
    parser.add_argument("--out", type=Path, default=Path("shots"), help="where to write the screenshots")
    arguments = parser.parse_args()
    browser = shutil.which("chromium")
    if browser is None or shutil.which("chromedriver") is None:
        print("chromium or chromedriver is not installed: apt-get install chromium chromium-driver", file=sys.stderr)
        return 2
    page = _page(arguments.folder)
    arguments.out.mkdir(parents=True, exist_ok=True)
    driver = _open(browser)
    try:
        for width, height in SIZES.items():
            for theme in THEMES:
                for file in _shoot(driver, page, (width, height), theme, arguments.out):
                    print(file)
    finally:
        driver.quit()
    for figure in sorted(arguments.folder.rglob("figure-*.png")):
        print(shutil.copy(figure, arguments.out / figure.name))
    return 0


def _page(folder: Path) -> Path:
    from opl.experiments.paper import ITEMS
    from opl.experiments.report.page import write_report

    return write_report(folder, ITEMS).resolve()


def _open(browser: str) -> Any:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in FLAGS:
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def _shoot(driver: Any, page: Path, size: tuple[int, int], theme: str, out: Path) -> list[Path]:
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": theme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get(page.as_uri())
    whole = min(TALLEST, driver.execute_script("return document.documentElement.scrollHeight"))
    stem = f"{page.parent.name}-{width}-{theme}"
    made = []
    for name, tall in (("first", height), ("whole", whole)):
        clip = {"x": 0, "y": 0, "width": width, "height": tall, "scale": 1}
        picture = {"format": "png", "captureBeyondViewport": True, "clip": clip}
        data = driver.execute_cdp_cmd("Page.captureScreenshot", picture)["data"]
        made.append(out / f"{stem}-{name}.png")
        made[-1].write_bytes(base64.b64decode(data))
    return made


if __name__ == "__main__":
    raise SystemExit(main())
