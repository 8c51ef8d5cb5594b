"""`opl demo`: its summary of runs that were written by hand."""

import pytest

from _finished_runs import write_finished
from opl.experiments.cli import demo
from opl.experiments.paper import recipe


def write_runs(folder, accuracies, ds):
    for name, tops, d in zip(("digits-ce", "digits-opl"), accuracies, ds, strict=True):
        for seed, top1 in enumerate(tops):
            write_finished(folder, name, seed, top1, result={"test/d": d + seed * (1 + d) / 200})


@pytest.mark.parametrize(
    ("accuracies", "ds", "expected"),
    [
        (
            ((97.0, 97.5, 98.0), (97.4, 97.2, 98.2)),
            (0.72, 0.40),
            "OPL moved images of different classes apart (d 0.73 → 0.41); no clear effect on accuracy yet: "
            "97.6 vs 97.5 %, 3 seeds.",
        ),
        (
            ((90.0, 91.0, 92.0), (95.0, 96.1, 97.0)),
            (0.40, 0.72),
            "OPL moved images of different classes closer together (d 0.41 → 0.73) and raised accuracy: "
            "96.0 vs 91.0 %, 3 seeds.",
        ),
        (
            ((97.0,), (97.4,)),
            (0.72, 0.40),
            "OPL changed d (0.72 → 0.40); too few seeds to judge accuracy: 97.4 vs 97.0 %, 1 seed.",
        ),
    ],
)  # fmt: skip
def test_the_summary_follows_from_the_runs(tmp_path, accuracies, ds, expected):
    write_runs(tmp_path, accuracies, ds)
    text, explained = demo._summary(tmp_path, "small")
    assert text == expected
    assert explained.startswith("(d: mean |cosine| between the features of two images of different classes")


def test_the_summary_names_the_two_measures_that_moved_most_and_their_direction(tmp_path):
    for name, scores in {"digits-ce": (75.0, 0.013, 98.0), "digits-opl": (81.0, 0.030, 98.1)}.items():
        for seed in range(3):
            noise = (seed - 1) * 0.1
            map_at_r, ece, knn = scores
            result = {"test/map_at_r": map_at_r + noise, "test/ece": ece + noise / 100, "test/knn": knn + noise}
            write_finished(tmp_path, name, seed, 97.0, result=result)
    moved = demo._summary(tmp_path, "small")[-1]
    assert moved == (
        "Moved most: MAP@R 75.00 → 81.00 (better, 3 of 3 seeds), ECE 0.0130 → 0.0300 (worse, 3 of 3 seeds)."
    )


def test_the_last_lines_name_the_page_the_picture_and_what_to_try(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "small" / "demo"
    write_runs(folder, ((97.0, 97.5), (97.4, 97.2)), (0.72, 0.40))
    monkeypatch.setattr(demo.Reproduce, "run", lambda job: 0 if job.seeds == 2 else 1)
    assert demo.Demo(seeds=2, out=tmp_path).run() == 0
    text = capsys.readouterr().out
    for part in (str(folder / "report.html"), str(folder / "demo.png"), "opl try FOLDER", "opl reproduce table-1"):
        assert part in text
    assert demo.Demo(seeds=3, out=tmp_path).run() == 1
    assert not capsys.readouterr().out


def test_gif_writes_the_animation_of_the_first_seed_and_names_it(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "small" / "demo"
    write_runs(folder, ((97.0, 97.5), (97.4, 97.2)), (0.72, 0.40))
    monkeypatch.setattr(demo.Reproduce, "run", lambda job: 0)
    monkeypatch.setattr(demo, "recipe", lambda name, scale: recipe(name, "tiny"))
    assert demo.Demo(seeds=2, out=tmp_path, gif=True).run() == 0
    assert (folder / "demo.gif").read_bytes()[:6] == b"GIF89a"
    assert f"{folder / 'demo.gif'} (the features, epoch by epoch)" in capsys.readouterr().out


def test_every_epoch_of_the_demo_is_validated_on_images_that_are_not_tested():
    made = recipe("digits-opl", "small")
    assert made.eval_every == 1
    parts = made.data.load(0)
    rows = [set(part.rows.tolist()) for part in (parts.train, parts.val, parts.test)]
    assert [len(indices) for indices in rows] == [719, 180, 898]
    assert len(set.union(*rows)) == 1797
