"""The page of a folder as text, and words that would like to be markup."""

from _runs import ITEMS
from opl.experiments.report.page import write_report

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&"


def page_of(folder, items=ITEMS):
    return write_report(folder, items).read_text(encoding="utf-8")
