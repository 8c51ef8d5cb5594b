"""The pictures on the page."""

from _written_page import page_of

from _page import Reader
from _runs import opl, write_run, write_table


def test_runs_without_outputs_have_no_pictures(tmp_path):
    write_run(tmp_path, "cifar100-ce")
    write_run(tmp_path, "cifar100-opl", method=opl(1.0))
    read = Reader(page_of(tmp_path))
    assert "table-1-small-table" in read.ids
    for part in ("features", "classes", "pictures", "sweeps"):
        assert f"table-1-small-{part}" not in read.ids


def test_pictures_carry_their_class_in_words(tmp_path):
    page = page_of(write_table(tmp_path, seeds=1))
    part = page[page.index('id="table-1-small-pictures"') :]
    images = [given for name, given in Reader(part).tags if name == "img"]
    assert 0 < len(images) <= 3 * 12  # three comparisons, six pictures each way
    assert all(given["alt"].startswith("Test picture of the class ") for given in images)
    others = [given for name, given in Reader(page.replace(part, "")).tags if name == "img"]
    assert all(given["alt"] == "" for given in others)  # what they show is said beside them
