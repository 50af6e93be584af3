"""Sphinx reads the staged pages with this. `python3 -m website` calls it, with every warning an error."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "python" / "src"), str(Path(__file__).resolve().parents[1])]

project = "weft"
html_title = "weft"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = ["**.md"]
# Headings are named as in the repository's own links.
myst_heading_anchors = 6
# Two hyphens stay two hyphens.
smartquotes = False
# Docstrings have `code`, as pages have.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
# It writes a page's own part of the navigation only: the whole in each page takes three times as long as everything else.
html_theme = "sphinx_rtd_theme"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
# Blocks are shortened with …, which no language has.
suppress_warnings = ["misc.highlighting_failure"]
