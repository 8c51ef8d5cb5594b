"""A page of `opl report`, read as a browser reads it."""

import json
import re
from html.parser import HTMLParser


class Reader(HTMLParser):
    """A page as a browser takes it: elements, the text between them, and JSON blocks."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.ids, self.headings, self.values, self.text = [], [], [], [], []
        self.inside = []
        self.feed(page)

    def handle_starttag(self, name, attributes):
        given = dict(attributes)
        self.tags.append((name, given))
        self.ids += [given["id"]] if "id" in given else []
        self.inside.append((name, given))
        if name in ("img", "input", "meta"):
            self.inside.pop()

    def handle_endtag(self, name):
        while self.inside and self.inside.pop()[0] != name:
            pass

    def handle_data(self, data):
        name, given = self.inside[-1] if self.inside else ("", {})
        if name == "script":
            self.values += [json.loads(data)] if given.get("type") == "application/json" else []
        elif name != "style":
            self.text.append(data)
            self.headings += [(int(name[1]), data)] if re.fullmatch("h[1-6]", name) else []

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())
