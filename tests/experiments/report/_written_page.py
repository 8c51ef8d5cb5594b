"""The page of a folder as text, its charts and tables, and text that tries to be markup."""

import html
import re

from markupsafe import escape

from _runs import ITEMS
from opl.experiments.report.page import write_report

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&"


def page_of(folder, items=ITEMS):
    return write_report(folder, items).read_text(encoding="utf-8")


def chart_of(page, start):
    """The SVG whose description begins with this text."""
    position = page.index(f'aria-label="{escape(start)}')
    return page[position : page.index("</svg>", position)]


def table_of(page, key):
    """The cells of a table as text, the heading first."""
    position = page.index(f'id="{key}"')
    rows = page[position : page.index("</table>", position)].split("<tr")[1:]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[html.unescape(re.sub("<.*?>", "", cell)) for cell in row] for row in cells]
