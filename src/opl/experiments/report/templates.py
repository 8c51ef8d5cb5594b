"""The Jinja templates of the page; all text is escaped unless it is markup already."""

from functools import cache
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from ..charts.style import shorten
from ..charts.svg import swatch
from ..statistics import GAIN, LOSS, Decision
from .glossary import TERMS, split_terms, term_id


def render(macro: str, /, **values: object) -> Markup:
    """Call a macro of `macros.html`.

    Example:
        >>> str(render("absent", sentence="a < b"))
        '<p class="absent">a &lt; b</p>'
    """
    return Markup(getattr(_environment().get_template("macros.html").module, macro)(**values))


def render_page(**values: object) -> str:
    """Fill `page.html`."""
    return _environment().get_template("page.html").render(**values)


def read_asset(name: str) -> Markup:
    """Read a style sheet or script of this package."""
    return Markup(_read(name))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    functions = (shorten, swatch, split_terms)
    environment.filters |= {function.__name__: function for function in functions} | {"pill": _pill}
    environment.globals["terms"] = {term: term_id(term) for term in TERMS}
    return environment


def _read(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _pill(decision: Decision) -> str:
    """Return the CSS class of a verdict, which sets its color."""
    return {GAIN: "pill gain", LOSS: "pill loss"}.get(decision.verdict, "pill alike" if decision.equivalent else "pill")
