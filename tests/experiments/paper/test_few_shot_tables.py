"""The tables of few-shot learning."""

from opl.experiments import paper
from opl.experiments.paper import item


def test_tables_of_few_shot_learning_ask_for_what_they_show():
    for name in ("table-6", "table-7", "table-s3"):
        asked = item(name)
        written = {measure_name.replace("-", "/", 1) for each in asked.measures for measure_name in each.names}
        assert set(asked.metrics) == written
        assert all(row.recipe in paper.recipes() for row in asked.rows)
        assert all(set(row.paper) <= set(asked.metrics) for row in asked.rows)
