"""An item shows the numbers that are measured at a scale."""

from opl.experiments.item import Item, Measure


def test_a_column_is_left_out_where_only_other_scales_measure_it():
    measures = (
        Measure(("attack",), ("attack-long", "attack-quick"), ("paper",)),
        Measure(("attack", "--short"), ("attack-short", "attack-quick"), ("small", "tiny")),
    )
    titles = {"test/top1": "clean", "attack/long": "long", "attack/short": "short", "attack/quick": "quick"}
    item = Item("x", "X", "d", titles, (), compared=("test/top1", "attack/short"), measures=measures)
    assert list(item.for_scale("paper").metrics) == ["test/top1", "attack/long", "attack/quick"]
    assert list(item.for_scale("tiny").metrics) == ["test/top1", "attack/short", "attack/quick"]
    assert item.for_scale("paper").compared == ("test/top1",)
    assert item.for_scale("tiny").compared == item.compared
