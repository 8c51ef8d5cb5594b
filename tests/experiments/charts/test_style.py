"""Labels, colors and symbols that both renderers share."""

from _chart_values import HOSTILE

from opl.experiments.charts import style


def test_labels_are_short_printable_and_never_empty():
    assert style.shorten("it's <b>x</b>") == "it's <b>x</b>"
    assert style.shorten("x" * 90) == "x" * 39 + "…"
    assert style.shorten("a\x00b\nc") == "a b c"
    assert style.shorten("") == "(no name)"
    assert all(0 < len(style.shorten(name)) <= 40 and style.shorten(name).isprintable() for name in HOSTILE)


def test_pairs_of_color_and_symbol_repeat_after_seventy():
    pairs = [(style.color(i), style.marker(i)) for i in range(70)]
    assert len(set(pairs)) == 70
    assert style.color(1) == style.ACCENT
    assert len({style.glyph(i) for i in range(7)}) == len({style.marker(i) for i in range(7)}) == 7
