"""The effect of the paper's OPL over all tables, from the records of this repository."""

import re
import runpy
from pathlib import Path

import pytest
from scipy import stats

from opl.experiments.paper import ITEMS
from opl.experiments.results.comparisons import describe_difference, lines
from opl.experiments.results.document import collect_verdicts, read_comparable
from opl.experiments.results.summary import collect_settings, measure_effects, summarize
from opl.experiments.results.tables import build_table
from opl.experiments.statistics import interval

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def runs():
    return read_comparable(ROOT / "results", ITEMS)


@pytest.fixture(scope="module")
def settings(runs):
    return collect_settings(ITEMS.values(), runs, "small")


@pytest.fixture(scope="module")
def tasks(settings):
    return summarize(settings)


def of_task(settings, task):
    return [setting for setting in settings if setting.task == task]


def dersimonian_laird(effects):
    """The mean and the half-width of its interval, as the method was published, in plain loops."""
    errors = [effect.variance / effect.size for effect in effects]
    fixed = sum(e.mean / v for e, v in zip(effects, errors, strict=True)) / sum(1 / v for v in errors)
    q = sum((e.mean - fixed) ** 2 / v for e, v in zip(effects, errors, strict=True))
    scale = sum(1 / v for v in errors) - sum(v**-2 for v in errors) / sum(1 / v for v in errors)
    between = max(0.0, (q - len(effects) + 1) / scale)
    total = sum(1 / (v + between) for v in errors)
    mean = sum(e.mean / (v + between) for e, v in zip(effects, errors, strict=True)) / total
    return mean, stats.t.ppf(0.975, len(effects) - 1) / total**0.5


def test_a_setting_is_counted_once_and_has_the_papers_opl(settings):
    keys = [(setting.recipe, setting.metric) for setting in settings]
    assert len(keys) == len(set(keys))
    assert not any("gamma" in setting.recipe or "released" in setting.recipe for setting in settings)
    recipes = [setting.recipe for setting in settings]
    assert "meta-base-opl" not in recipes  # a part of meta-pnf-opl
    assert "cifar10-views-nt-xent-opl" in recipes
    assert "cifar10-views-opl" not in recipes  # OPL in place of NT-Xent, not added to it
    assert ("cifar100-search-opl", "val/top1") not in keys  # counted by its test images


def test_random_effects_follow_from_the_records_and_results_md_states_them(settings, tasks):
    assert {summary.task for summary in tasks} >= {"classification", "label noise", "few-shot learning"}
    text = (ROOT / "RESULTS.md").read_text()
    for summary in tasks:
        chosen = of_task(settings, summary.task)
        assert (summary.effect.mean, summary.effect.half) == pytest.approx(dersimonian_laird(measure_effects(chosen)))
        assert summary.settings == len(chosen)
        assert f"| {summary.task} | {len(chosen)} | {describe_difference(summary.effect)} |" in text
    batches = [setting for setting in of_task(settings, "classification") if setting.item == "figure-6"]
    over_settings = interval([interval(setting.pairs).mean for setting in batches])
    assert (len(batches), round(over_settings.mean, 2), round(over_settings.half, 2)) == (9, 1.27, 0.72)


def test_sentences_of_the_summary_follow_from_the_records_and_results_md_has_them(settings, tasks):
    text = (ROOT / "RESULTS.md").read_text()
    for summary in tasks:
        chosen = of_task(settings, summary.task)
        [sentence] = [part for part in text.split("- **") if part.startswith(f"{summary.task.capitalize()}: ")]
        sentence = " ".join(sentence.partition("\n\n")[0].split())
        mean, half = dersimonian_laird(measure_effects(chosen))
        word = "OPL gains" if mean > half else "OPL loses" if mean < -half else "no effect shown"
        assert f": {word}.**" in sentence
        sizes = {setting.network: sum(other.network == setting.network for other in chosen) for setting in chosen}
        network = max(sizes, key=sizes.get)
        assert network.rstrip("-") in sentence
        for same in (True, False):
            group = [setting for setting in chosen if (setting.network == network) is same]
            if 1 < len(group) < len(chosen):
                mean, half = dersimonian_laird(measure_effects(group))
                assert f"{mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}]" in sentence
        if len(sizes) > 1:
            assert f"{sizes[network]} of the {len(chosen)} settings" in sentence
        else:
            assert ("Both" if len(chosen) == 2 else f"All {len(chosen)}") + " settings use" in sentence


def test_the_readme_has_the_mean_of_every_task_the_largest_gain_first(settings, tasks):
    text = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| (.*) \| ([+-][\d.]+) \[([+-][\d.]+), ([+-][\d.]+)\] \| (.*) \|$", text, re.MULTILINE)
    assert [row[0] for row in rows] == sorted(
        (summary.task for summary in tasks),
        key=lambda task: -dersimonian_laird(measure_effects(of_task(settings, task)))[0],
    )
    for task, mean, low, high, verdict in rows:
        expected, half = dersimonian_laird(measure_effects(of_task(settings, task)))
        assert [float(mean), float(low), float(high)] == pytest.approx(
            [expected, expected - half, expected + half], abs=0.006
        )
        assert verdict == ("OPL gains" if float(low) > 0 else "OPL loses" if float(high) < 0 else "no effect shown")


def test_the_page_of_the_pretrained_study_has_the_pooled_effects_of_the_records():
    read_effects = runpy.run_path(str(ROOT / "benchmarks" / "pretrained.py"))["read_effects"]
    effects = {name: e for name, e in read_effects(ROOT / "results").items() if re.search("erm-opl(-long)?$", name)}
    page = (ROOT / "docs" / "results" / "study-pretrained.md").read_text(encoding="utf-8")
    for title, ending in (("both", ""), ("3 epochs", "-opl"), ("6 epochs", "-long")):
        chosen = [effect for name, effect in effects.items() if name.endswith(ending)]
        mean, half = dersimonian_laird(chosen)
        above = f"{sum(effect.mean > 0 for effect in chosen)} of {len(chosen)}"
        row = re.escape(f"| {title} | {mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}] | ") + r"\d\.\d+ \| " + above
        assert re.search(row, page), row


def test_table_8_is_analyzed_by_weight_and_gamma(runs):
    table = build_table(ITEMS["table-8"], runs, "small")
    [sentence] = [note for note in table.notes if note.startswith("Two-way analysis")]
    for part in ("gamma 444 (2 df", "weight 308 (4 df", "interaction 394 (8 df", "error 66 (30 df)"):
        assert part in sentence


def test_unequal_variances_of_rows_are_noted_below_the_table(runs):
    item = ITEMS["table-3"].for_scale("small")
    accuracy = {
        (run.recipe["name"], run.seed): run.result.get("test/top1") for run in runs if run.recipe["scale"] == "small"
    }
    differences = []
    for row in item.rows:
        pairs = [(accuracy.get((row.recipe, seed)), accuracy.get((row.baseline, seed))) for seed in range(3)]
        if row.baseline and all(None not in pair for pair in pairs):
            differences.append([with_opl - without for with_opl, without in pairs])
    spreads = [stats.tstd(values) for values in differences]
    [note] = [note for note in build_table(item, runs, "small").notes if "last epoch" in note and "Bartlett" in note]
    assert f"span {min(spreads):.2f} to {max(spreads):.2f}" in note
    assert f"p {stats.bartlett(*differences).pvalue:.2g}" in note


def test_means_and_selected_numbers_form_separate_families(runs):
    item = ITEMS["table-7"].for_scale("small")
    decisions = lines(item, runs, "small")[-2].decisions
    averages = [decision.comparisons for name, decision in decisions.items() if name in item.aggregates]
    targets = [decision.comparisons for name, decision in decisions.items() if name not in item.aggregates]
    assert (averages, targets) == ([2], [8] * 4)
    noisy = lines(ITEMS["table-3"], runs, "small")
    line = next(line for line in noisy if line.recipe == "mnist-noisy-pair-tl-opl")
    assert {name: decision.comparisons for name, decision in line.decisions.items()} == {
        "test/top1": 6,
        "selected/top1": 6,
    }


def test_every_comparison_names_the_baseline_that_it_was_computed_with(runs):
    from opl.experiments.charts.forest import contrasts

    item = ITEMS["table-s2"]
    table = lines(item, runs, "small")
    by_recipe = {line.recipe: line for line in table}
    assert by_recipe["cifar100-neuralscale-vgg11-opl"].baseline == "VGG-11"
    [drawn] = [contrast for contrast in contrasts(item, table) if contrast.label == "VGG-11+OPL"]
    assert drawn.versus == " vs VGG-11"


def test_a_setting_with_one_seed_has_no_effect_of_its_own(runs):
    first = [run for run in runs if run.seed == 0]
    assert collect_settings(ITEMS.values(), first, "small") == []
    assert collect_settings(ITEMS.values(), runs, "small")


def holm_loop(p_values):
    """Holm's step-down adjustment as published, in a loop."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def test_both_verdicts_of_every_comparison_are_listed_and_changes_are_bold(runs):
    """The verdicts by rows alone are t-tests of SciPy, Holm-adjusted over all comparisons of the table."""
    page = (ROOT / "docs" / "results" / "verdicts.md").read_text()
    listed = {(one.item, one.label): one for one in collect_verdicts(runs, ITEMS)}
    for name in ("table-7", "table-8", "study"):
        item = ITEMS[name].for_scale("small")
        table = [line for line in lines(item, runs, "small") if line.decisions]
        pairs = {(line.label, metric): line.pairs[metric] for line in table for metric in item.main}
        adjusted = holm_loop([stats.ttest_1samp(values, 0).pvalue for values in pairs.values()])
        for ((label, metric), values), p in zip(pairs.items(), adjusted, strict=True):
            title = item.metrics[metric].removesuffix(" %")
            [one] = [
                one
                for (place, text), one in listed.items()
                if place == f"{name}, small" and text.startswith(f"{label} vs ") and text.endswith(f", {title}")
            ]
            expected = ("a gain" if sum(values) > 0 else "a loss") if p < 0.05 else None
            assert one.single == expected or (expected is None and one.single[:2] in ("un", "eq"))
            [line] = [line for line in table if line.label == label]
            assert one.moderated == line.decisions[metric].verdict
            cell = one.moderated if one.single == one.moderated else f"**{one.moderated}**"
            assert (
                f"| {name}, small | {one.label} | {describe_difference(one.difference)} | {one.single} | {cell} |"
                in page
            )
    changed = sum(one.single != one.moderated for one in listed.values())
    assert f"{changed} of {len(listed)} verdicts differ" in page
