"""`metrics.jsonl`: every epoch exactly once, and a changed line is noticed."""

import json

import pytest

from _vouched import metric_lines
from opl.errors import DamagedError
from opl.experiments.run_folder import RunFolder

RECORDS = [{"epoch": epoch, "train/loss": 1.5 / (epoch + 1), "val/top1": 40.0 + epoch} for epoch in range(4)]


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    made = RunFolder.of(tmp_path, "r", 0)
    made.start({"name": "r", "seed": 0}, {})
    for record in RECORDS:
        made.log(record)
    return made


def test_lines_are_json_with_a_crc_and_come_back(folder):
    text = (folder.path / "metrics.jsonl").read_text()
    assert text == metric_lines(RECORDS, (folder.path / "recipe.json").read_bytes())
    assert [json.loads(line)["val/top1"] for line in text.splitlines()] == [40.0, 41.0, 42.0, 43.0]
    assert folder.metrics() == RECORDS


def test_a_line_cut_short_is_no_record(folder):
    with (folder.path / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 4, "tr')
    assert folder.metrics() == RECORDS


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("41.0", "91.0"),
        lambda text: "".join(text.splitlines(keepends=True)[1:]),
        lambda text: text + text.splitlines(keepends=True)[-1],
        lambda text: text.replace("\n", "", 1),
        lambda text: text.replace("}", "", 1),
        lambda text: text[:-1],
        lambda text: text[:-1] + "\x0b",
        lambda text: "\n" + text,
        lambda text: "[" * 100_000 + "\n" + text,
    ],
)
def test_lines_that_were_changed_lost_or_doubled_are_noticed(folder, change):
    file = folder.path / "metrics.jsonl"
    file.write_text(change(file.read_text()))
    with pytest.raises(DamagedError, match=r"metrics.jsonl (is not what the run wrote|has no end of line)"):
        folder.metrics()


def test_a_checkpoint_restores_what_was_lost_and_forgets_what_came_after(folder):
    for content in (b"", b"\xff\xfe\n", (folder.path / "metrics.jsonl").read_bytes()):
        (folder.path / "metrics.jsonl").write_bytes(content)
        folder.restore_metrics(RECORDS[:3])
        assert folder.metrics() == RECORDS[:3]
        folder.log(RECORDS[3])
        assert folder.metrics() == RECORDS


def test_a_link_in_its_place_is_noticed(folder, tmp_path):
    file = folder.path / "metrics.jsonl"
    for target in (tmp_path / "elsewhere.jsonl", file):  # of another run, and a link to itself
        (tmp_path / "elsewhere.jsonl").write_text(metric_lines(RECORDS[:2]))
        file.unlink()
        file.symlink_to(target)
        assert folder.faults() == {"metrics.jsonl": "cannot be read (Too many levels of symbolic links)"}


def test_the_records_of_another_run_are_noticed(folder, tmp_path):
    other = RunFolder.of(tmp_path, "r", 1)
    other.start({"name": "r", "seed": 1}, {})
    (other.path / "metrics.jsonl").write_bytes((folder.path / "metrics.jsonl").read_bytes())
    assert other.faults() == {"metrics.jsonl": "is not what the run wrote (line 1)"}
