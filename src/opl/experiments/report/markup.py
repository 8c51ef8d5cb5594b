"""Injection-safe markup: all text is escaped unless it is already `Markup`."""

from html import escape

VOID = {"img", "input", "meta"}


class Markup(str):
    """Text that is safe to put on the page without escaping."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element; `class_` is `class`, `aria_label` is `aria-label`; True is a bare attribute, None and False omit it.

    Example:
        >>> tag("p", "a < b", tag("b", "!"), class_="quiet", data_id=None)
        '<p class="quiet">a &lt; b<b>!</b></p>'
    """
    given = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    end = "" if name in VOID else f"{join(*children)}</{name}>"
    return Markup(f"<{name}{given}>{end}")


def join(*children: object) -> Markup:
    """Concatenate children; None is skipped.

    Example:
        >>> join("a", None, tag("i", "<"))
        'a<i>&lt;</i>'
    """
    return Markup("".join(child if isinstance(child, Markup) else _text(child) for child in children))


def no_break(words: str) -> Markup:
    """A title whose hyphenated names are not broken across lines.

    Example:
        >>> no_break("on ResNet-56")
        'on <span class="unbroken">ResNet-56</span>'
    """
    parts = [tag("span", word, class_="unbroken") if "-" in word and len(word) < 20 else word for word in words.split()]
    return Markup(" ".join(join(part) for part in parts))


def _text(child: object) -> str:
    return "" if child is None else escape(str(child))


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
