"""Hostile names, sentences and values stay text."""

import json
import re

from _written_page import HOSTILE, page_of

from _page import Reader
from _runs import write_run
from _vouched import vouch
from opl.experiments.item import Item, Row
from opl.experiments.report.templates import render


def test_hostile_names_and_sentences_stay_text(tmp_path):
    name = HOSTILE.replace("/", "⁄")  # a folder's name cannot have a slash
    write_run(tmp_path, name, error=HOSTILE, done=False)
    write_run(tmp_path, name, 1, class_names=(HOSTILE,) * 20, outputs=True)
    write_run(tmp_path, f"{name}2", 1, class_names=(HOSTILE,) * 20, outputs=True, method={"kind": HOSTILE})
    base, own = Row(HOSTILE, name, {}), Row("CE+OPL", f"{name}2", {}, name)
    items = {"t": Item("t", HOSTILE, "d", {"test/top1": HOSTILE}, (base, own), note=HOSTILE)}
    for known in (items, {}):
        read = Reader(page_of(tmp_path, known))
        assert [given for tag_name, given in read.tags if tag_name == "script" and "type" not in given] == [{}]
        assert all(given.get("src", "").startswith("data:") for tag_name, given in read.tags if tag_name == "img")
        assert not any(key.startswith("on") for _, given in read.tags for key in given)
        assert HOSTILE in read.words
    for path in tmp_path.rglob("recipe.json"):
        path.write_text(path.read_text().replace('"small"', json.dumps(HOSTILE)))
    assert not any(key.startswith("on") for _, given in Reader(page_of(tmp_path)).tags for key in given)


def test_a_lone_surrogate_does_not_stop_the_page(tmp_path):
    path = write_run(tmp_path, "cifar100-ce")
    (path / "recipe.json").write_text((path / "recipe.json").read_text().replace("06f8644cf3", "\\ud800"))
    vouch(path)
    assert "git checkout '?'" in Reader(page_of(tmp_path)).words


def test_values_for_scripts_are_json_without_markup():
    part = render("features", key="k", plane=False, names=(HOSTILE,), folded=False, charts=[], sheet=None, note=HOSTILE,
                  values={HOSTILE: [HOSTILE, 0.5]})  # fmt: skip
    [values] = Reader(part).values
    assert values == {HOSTILE: [HOSTILE, 0.5]}
    assert not re.search("<(img|script>)", part)
