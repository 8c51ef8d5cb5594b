"""The study keeps to its plan, docs/study.md: equal weights for all arms, and new seeds for the confirmation."""

from opl.experiments.cluster.jobs import jobs_of
from opl.experiments.tables import item, recipe
from opl.experiments.tables.study_screen import ARMS


def seeds_of(name, tmp_path):
    table = item(name)
    jobs = jobs_of(table, "small", table.seeds_at("small"), tmp_path, lambda each: recipe(each, "small"))
    return {job.seed for job in jobs}


def test_the_confirmation_has_six_seeds_and_none_of_the_screens(tmp_path):
    assert seeds_of("study-screen", tmp_path) == {0, 1, 2}
    assert seeds_of("study", tmp_path) == {3, 4, 5, 6, 7, 8}


def test_every_arm_of_the_screen_has_the_same_weights_and_otherwise_the_settings_of_cross_entropy():
    names = [row.recipe for row in item("study-screen").rows]
    for arm in ARMS:
        own = [name.rpartition("-")[2] for name in names if name.rpartition("-")[0] == f"screen-resnet8-{arm}"]
        assert own == ["0.1", "0.3", "1"], arm
    base = recipe("screen-resnet8-ce", "small")
    for name in names:
        other = recipe(name, "small")
        assert (other.data, other.model, other.optimizer, other.schedule, other.epochs) == (
            base.data, base.model, base.optimizer, base.schedule, base.epochs,
        )  # fmt: skip
