"""The site: `make docs` builds it without a request to another host. Text in MyST Markdown, API by autodoc."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs")]

import opl

project = "opl"
author = project_copyright = "The opl authors"
release = version = opl.__version__
repository = os.environ.get("OPL_REPOSITORY", "").rstrip("/")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "_site"]
exclude_patterns = ["_build"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", r".*")]  # types of other libraries have no pages here; test_site checks all links
default_role = "code"  # docstrings are Markdown: single backticks are code

myst_enable_extensions = ["dollarmath", "deflist", "attrs_inline", "attrs_block", "colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # outputs are stored in the notebooks; a test executes them
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"

html_theme = "furo"
html_title = f"opl {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_theme_options = (
    {"source_repository": f"{repository}/", "source_branch": "main", "source_directory": "docs/"}
    if (repository)
    else {}
)
