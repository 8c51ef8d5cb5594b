"""The search on the page."""

import re

from _written_page import chart_of, page_of

from _runs import write_everything


def test_a_search_is_drawn_where_settings_differ(tmp_path):
    page = page_of(write_everything(tmp_path))
    part = page[page.index('id="figure-6-small-sweeps"') :]
    heat = part[: part.index("</table>")]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in heat.split("<tr")[1:]]
    assert rows[0][1:] == ["0.5", "1"]
    assert [row[0] for row in rows[1:]] == ["0.1", "0.5", "1", "2"]
    assert rows[3][2] == "-"  # weight 1 with gamma 1 was never run
    chart = chart_of(part, "top-1 % over weight λ: ")
    assert (chart.count('class="baseline"'), chart.count('class="thick"')) == (1, 2)
    assert "CE+OPL, γ 0.5" in chart
    assert chart.count('class="seed"') == 3 * (4 + 3)  # every seed is a dot
