"""The style of figures: files, labels, colors, and the user's settings left alone."""

import pytest
from _figure_values import DRAWN, HOSTILE

from opl.errors import FolderError
from opl.experiments.charts import style

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


@pytest.mark.parametrize("name", DRAWN)
def test_equal_input_gives_equal_files(name, tmp_path):
    first, second = (style.save(DRAWN[name](), tmp_path / folder / "a.b") for folder in ("one", "two"))
    assert [path.name for path in first] == ["a.b.pdf", "a.b.png"]
    contents = [path.read_bytes() for path in first]
    assert contents == [path.read_bytes() for path in second]
    assert contents[0].startswith(b"%PDF")
    assert contents[1].startswith(b"\x89PNG")
    assert not list(tmp_path.rglob(".*"))


def test_a_figure_saved_again_is_the_same(tmp_path):
    figure = DRAWN["similarity"]()
    first, second = (style.save(figure, tmp_path / name) for name in ("one", "two"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_folder_that_cannot_be_written_to_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="give another folder"):
        style.save(DRAWN["search"](), tmp_path / "file" / "figure")


def test_a_figure_that_fails_leaves_no_file_behind(tmp_path):
    figure = DRAWN["search"]()

    def half(path, **_):
        path.write_bytes(b"half")
        raise MemoryError

    figure.savefig = half
    with pytest.raises(MemoryError):
        style.save(figure, tmp_path / "figure")
    assert not list(tmp_path.iterdir())


def test_drawing_leaves_the_users_settings_alone():
    import matplotlib

    with matplotlib.rc_context({"font.size": 31, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        figure = DRAWN["search"]()
        assert dict(matplotlib.rcParams) == before
    assert all(word.get_fontsize() < 20 for word in figure.axes[0].get_xticklabels())
    assert figure.axes[0].get_facecolor() == (1, 1, 1, 1)


def test_labels_are_short_printable_and_never_empty():
    assert style.shorten("it's <b>x</b>") == "it's <b>x</b>"
    assert style.shorten("x" * 90) == "x" * 39 + "…"
    assert style.shorten("a\x00b\nc") == "a b c"
    assert style.shorten("") == "(no name)"
    assert all(0 < len(style.shorten(name)) <= 40 and style.shorten(name).isprintable() for name in HOSTILE)


def test_colors_and_symbols_repeat_together_only_after_seventy():
    pairs = [(style.color(i), style.marker(i)) for i in range(70)]
    assert len(set(pairs)) == 70
    assert style.color(1) == style.ACCENT
    assert len({style.glyph(i) for i in range(7)}) == len({style.marker(i) for i in range(7)}) == 7
