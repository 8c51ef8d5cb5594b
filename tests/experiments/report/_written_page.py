"""The page of a folder as text, parts of it, and words that would like to be markup."""

import html
import re

from _runs import ITEMS
from opl.experiments.report.page import write_report

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&"


def page_of(folder, items=ITEMS):
    return write_report(folder, items).read_text(encoding="utf-8")


def chart_of(page, start):
    """The SVG whose description begins with these words."""
    place = page.index(f'aria-label="{html.escape(start)}')
    return page[place : page.index("</svg>", place)]


def table_of(page, key):
    """The cells of a table as text, the heading first."""
    place = page.index(f'id="{key}"')
    rows = page[place : page.index("</table>", place)].split("<tr")[1:]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[html.unescape(re.sub("<.*?>", "", cell)) for cell in row] for row in cells]
