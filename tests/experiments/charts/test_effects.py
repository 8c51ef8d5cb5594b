"""The forest plot over all tables: one line per setting, one diamond per task."""

import re

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from opl.experiments.charts.effects import draw_effects
from opl.experiments.paper import ITEMS
from opl.experiments.results.summary import Setting, measure_effects, summarize_task


def setting(item: str, task: str, label: str, metric: str, pairs: tuple[float, ...]) -> Setting:
    baseline = tuple(60.0 + index for index in range(len(pairs)))
    values = tuple(base + pair for base, pair in zip(baseline, pairs, strict=True))
    return Setting(item, task, label, label, "ResNet-8", metric, pairs, values, baseline)


SETTINGS = [
    setting("table-1", "classification", "CE+OPL", "test/top1", (1.0, 1.5, 2.0)),
    setting("table-6", "few-shot learning", "RFS+OPL <b>", "episodes/5-way-1-shot", (-3.0, -2.0)),
    setting("demo", "classification", "CE+OPL", "test/top1", (0.5, 0.0, 1.0)),
]


def test_settings_are_grouped_by_task_with_the_mean_of_each_task_below():
    text = draw_effects(SETTINGS, ITEMS)
    labels = re.findall(r'text-anchor="end"[^>]*>([^<]*)<', text)
    assert labels == [
        "table-1: CE+OPL",
        "demo: CE+OPL",
        "classification: mean of 2 settings",
        "table-6: RFS+OPL &lt;b&gt;, 1-shot",  # one setting has no mean
    ]
    assert text.count("<path") == 1


def test_numbers_are_those_of_the_summary_and_positions_are_linear():
    text = draw_effects(SETTINGS, ITEMS)
    classification = (SETTINGS[0], SETTINGS[2])
    effects = [*measure_effects(classification), summarize_task("classification", classification).effect]
    for effect in effects:
        assert f">{effect.mean:+.2f} [{effect.low:+.2f}, {effect.high:+.2f}]<" in text
    centers = [float(value) for value in re.findall(r'cx="([^"]+)"', text)]
    first, second, third = effects[0].mean, effects[1].mean, -2.5
    assert (centers[0] - centers[1]) / (centers[1] - centers[2]) == pytest.approx(
        (first - second) / (second - third), rel=0.02
    )


def test_a_setting_with_one_seed_has_no_interval():
    single = setting("demo", "classification", "CE+OPL", "test/top1", (0.5,))
    assert ">+0.50<" in draw_effects([single], ITEMS)


def test_a_long_label_fits_into_the_drawing():
    label = "CIFAR-100, class-dependent, TL+OPL, pruned samples in no pair, weight 0.1, gamma from 0 to 1"
    text = draw_effects([setting("demo", "classification", label, "test/top1", (0.5, 0.0))], ITEMS)
    [left, width] = re.findall(r'viewBox="([-\d.]+) \S+ ([\d.]+)', text)[0]
    end = float(re.findall(r'x="([\d.]+)"[^>]*text-anchor="end"', text)[0])
    path = TextPath((0, 0), f"demo: {label}", size=11, prop=FontProperties(family="DejaVu Sans"))  # a wide font
    assert float(left) <= end - path.get_extents().width
    assert float(left) + float(width) == 940
