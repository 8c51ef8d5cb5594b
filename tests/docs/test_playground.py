"""The playground and the board in a real browser: numbers of the library, mouse and keyboard, no request."""

import json
from pathlib import Path

import pytest
import torch

import opl
from _browser import click, open_browser, press, visit

pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[2] / "docs"
LEFT, RIGHT, END = "\ue012", "\ue014", "\ue010"
NUMBERS = "return ['s', 'd', 'loss'].map((name) => Number(document.getElementById(`pg-${name}`).textContent))"
POINTS = "return [playground.points(), playground.labels()]"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The part of the site that is the playground, as a page of its own."""
    body = (DOCS / "_playground.html").read_text(encoding="utf-8")
    files = ("site.css", "playground-path.js", "playground.js")
    style, *scripts = ((DOCS / "_static" / name).as_uri() for name in files)
    parts = [f'<link rel="stylesheet" href="{style}">', body, *(f'<script src="{uri}"></script>' for uri in scripts)]
    file = tmp_path_factory.mktemp("page") / "playground.html"
    file.write_text(f"<!doctype html><html lang='en'><title>p</title>{''.join(parts)}", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def browser(chromium, page):
    return visit(chromium, page)


def choose(browser, name, value):
    browser.execute_script(
        "const box = document.getElementById(`pg-${arguments[0]}`); box.value = arguments[1];"
        "box.dispatchEvent(new Event('input')); box.dispatchEvent(new Event('change'))",
        *(name, str(value)),
    )


def by_library(points, labels, gamma, form):
    features = torch.tensor(points, dtype=torch.float64, requires_grad=True)
    result = opl.orthogonal_projection(features, torch.tensor(labels), gamma=gamma, form=form)
    [gradient] = torch.autograd.grad(result.loss, features)
    return [result.loss.item(), result.same.item(), result.other.item()], gradient


@pytest.mark.parametrize("form", opl.functional.FORMS)
@pytest.mark.parametrize("dim", [2, 3])
def test_loss_and_gradient_are_those_of_the_library(browser, form, dim):
    generator = torch.Generator().manual_seed(dim)
    for classes, gamma in ((1, 0.5), (2, 0.0), (3, 0.5), (6, 1.7)):
        points = torch.randn(4 * classes, dim, generator=generator, dtype=torch.float64).tolist()
        labels = [row % classes for row in range(len(points))]
        seen = browser.execute_script("return playground.projection(...arguments)", points, labels, gamma, form)
        numbers, gradient = by_library(points, labels, gamma, form)
        assert [seen["loss"], seen["s"], seen["d"]] == pytest.approx(numbers, abs=1e-6)
        torch.testing.assert_close(torch.tensor(seen["gradients"], dtype=torch.float64), gradient, atol=1e-6, rtol=0)


def test_the_page_shows_the_numbers_of_its_points_for_every_control(browser):
    for space, classes, preset, gamma, form in (
        *((2, 3, "random", 0.5, "mean_abs"), (3, 6, "star", 1.0, "squared")),
        *((2, 2, "two", 0.0, "mean"), (3, 5, "crowded", 2.0, "abs_mean"), (2, 4, "collapse", 0.5, "mean_abs")),
    ):
        for name, value in (
            ("space", space),
            ("classes", classes),
            ("preset", preset),
            ("gamma", gamma),
            ("form", form),
        ):
            choose(browser, name, value)
        points, labels = browser.execute_script(POINTS)
        assert (len(points[0]), len(set(labels))) == (space, classes)
        (loss, same, other), _ = by_library(points, labels, gamma, form)
        assert browser.execute_script(NUMBERS) == pytest.approx([same, other, loss], abs=1e-4)


def test_descent_lowers_the_loss_and_three_classes_become_orthogonal_on_the_sphere(browser):
    for name, value in (("space", 3), ("preset", "random"), ("gamma", 1)):
        choose(browser, name, value)
    browser.execute_script("for (let k = 0; k < 400; k++) { playground.step(); } playground.remember()")
    same, other, loss = browser.execute_script(NUMBERS)
    assert same > 0.99
    assert other < 0.01
    assert loss < 0.02


def test_the_history_goes_back_to_earlier_points(browser):
    before, _ = browser.execute_script(POINTS)
    for _ in range(3):
        click(browser, "#pg-step")
    after, _ = browser.execute_script(POINTS)
    assert after != before
    choose(browser, "history", 0)
    assert browser.execute_script(POINTS)[0] == before


def test_keys_select_and_move_a_point(browser):
    plot = browser.find_element("css selector", "#pg-plot")
    before, _ = browser.execute_script(POINTS)
    press(browser, plot, "n", RIGHT, RIGHT, LEFT)
    after, _ = browser.execute_script(POINTS)
    changed = [row for row, (first, second) in enumerate(zip(before, after, strict=True)) if first != second]
    assert changed == [1]
    angle = torch.acos(torch.dot(torch.tensor(before[1]), torch.tensor(after[1]))).item()
    assert angle == pytest.approx(0.05, abs=1e-3)
    said = browser.find_element("css selector", "#pg-said").text
    assert said.startswith("Point 2 of 12, class A, at ")


def test_a_point_can_be_dragged(browser):
    box = "const {left, top, width} = arguments[0].getBoundingClientRect(); return [left, top, width]"
    plot = browser.find_element("css selector", "#pg-plot")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    left, top, width = browser.execute_script(box, plot)
    [[x, y], *_], _ = browser.execute_script(POINTS)
    at = [{"x": left + width * (0.5 + a / 2.5), "y": top + width * (0.5 - b / 2.5)} for a, b in ((x, y), (-0.6, 0.8))]
    for kind, place in (("mousePressed", at[0]), ("mouseMoved", at[1]), ("mouseReleased", at[1])):
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, **place, "button": "left", "clickCount": 1})
    moved, _ = browser.execute_script(POINTS)
    assert any(point == pytest.approx([-0.6, 0.8], abs=0.02) for point in moved)


def test_the_slider_shows_the_epochs_of_a_real_training(browser):
    text = (DOCS / "_static" / "playground-path.js").read_text(encoding="utf-8")
    runs = json.loads(text.removeprefix("window.OPL_PATHS = ").rstrip().rstrip(";"))["runs"]
    choose(browser, "path", 1)
    for epoch in (0, len(runs[1]["epochs"]) - 1):
        choose(browser, "epoch", epoch)
        (loss, same, other), _ = by_library(runs[1]["epochs"][epoch], runs[1]["labels"], runs[1]["gamma"], "mean_abs")
        assert browser.execute_script(NUMBERS) == pytest.approx([same, other, loss], abs=1e-4)


def test_it_opens_without_errors(browser):
    assert browser.get_log("browser") == []
