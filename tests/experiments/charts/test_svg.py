"""SVG elements: foreign text is escaped, and positions are proportional to values."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from opl.experiments.charts import svg

HOSTILE = "</text><script>alert(1)</script>\"'`&"


def test_text_and_attributes_are_escaped_and_markup_is_kept():
    inner = svg.element("tspan", HOSTILE)
    parsed = ElementTree.fromstring(svg.element("text", HOSTILE, inner, class_=HOSTILE, aria_label="a", id=None))
    assert (parsed.text, parsed[0].text) == (HOSTILE, HOSTILE)
    assert parsed.attrib == {"class": HOSTILE, "aria-label": "a"}
    assert [child.tag for child in parsed.iter()] == ["text", "tspan"]


def test_a_scale_is_linear_and_ticks_are_round_values_inside():
    scale = svg.Scale(2, 4, 100, 0)
    assert [scale.at(value) for value in (2, 3, 4)] == [100, 50, 0]
    rng = np.random.default_rng(0)
    for low, width in zip(rng.normal(size=200) * 10, 10 ** rng.uniform(-6, 6, 200), strict=True):
        marks = svg.ticks(low, low + width)
        assert 1 <= len(marks) <= 6
        steps = np.diff(marks)
        assert len(marks) == 1 or steps == pytest.approx([steps[0]] * len(steps), rel=1e-3)
        assert all(low - 1e-9 <= mark <= low + width + 1e-9 for mark in marks)


def test_axes_label_the_given_values_and_the_grid_lines():
    drawn = svg.axes(svg.Scale(0, 10, 40, 90), svg.Scale(0, 1, 200, 0), {0: "0", 10: "ten"}, "epoch")
    labels = {text: (x, y) for x, y, text in re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)<', drawn)}
    assert labels["ten"][0] == "90"
    assert labels["0.4"][1] == "120"
    assert labels["epoch"][0] == "65"


def test_a_chart_says_what_it_shows_and_can_be_reached_by_the_keyboard():
    chart = ElementTree.fromstring(svg.drawing(HOSTILE, 40, 20, lines="key"))
    assert (chart.get("role"), chart.get("tabindex"), chart.get("viewBox")) == ("img", "0", "0 0 40 20")
    assert chart.get("aria-label") == f"{HOSTILE} {svg.KEYS}"
    assert chart.get("data-lines") == "key"
    assert svg.KEYS not in svg.drawing("no script", 4, 2)
