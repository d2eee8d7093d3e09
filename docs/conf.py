"""The site: Sphinx over the same Markdown that GitHub shows, with the reference made from docstrings and the command.

Its source is the root of the repository, so that a link between two pages is the same link everywhere.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from _reference import commands, contents, public_name  # noqa: E402 - beside this file, which Sphinx executes

import hookpatch  # noqa: E402

project = "hookpatch"
author = "The hookpatch developers"
copyright = author
version = release = hookpatch.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "plugins/README.md", "plugins/*/README.md", "plugins/*/*/messages.md"]
exclude_patterns = [  # not gone into
    *("**/.*", "build", "dist", "hookpatch", "tests", "docs/examples", "plugins/*/tests", "plugins/*/*/*/**"),
]

myst_heading_anchors = 4  # as GitHub makes them
myst_links_external_new_tab = False

nitpicky = True
# What is not ours has no page here, and the site is built without a network.
nitpick_ignore_regex = [(r"py:.*", r"(?!hookpatch).*"), (r"py:.*", r"hookpatch[\w.]*\._.*")]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
add_module_names = False
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_preprocess_types = False

html_theme = "furo"
html_title = "hookpatch"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_root"]  # the site's root leads to docs/index.html
html_domain_indices = False  # the index has all that a list of our few modules would
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "native"


def _fill(app: Any, docname: str, source: list[str]) -> None:
    if docname == root_doc:
        source[0] += contents(source[0])
    if docname == "docs/reference/commands":
        source[0] += commands()


def _link_facts(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Make a link of ``Facts``, the options that all verbs take, wherever a docstring names it."""
    lines[:] = [line.replace("``Facts``", ":py:class:`Facts <hookpatch._engine.patch.patch.Facts>`") for line in lines]


def _resolve(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Lead ``hookpatch._session.session.Session``, as annotations have it, to the public name ``hookpatch.Session``."""
    name = public_name(node.get("reftarget", ""))
    if name is None:
        return None
    found = env.get_domain("py").resolve_any_xref(env, node["refdoc"], app.builder, name, node, contnode)
    return found[0][1] if found else None


def setup(app: Any) -> None:
    app.connect("source-read", _fill)
    app.connect("autodoc-process-docstring", _link_facts)
    app.connect("missing-reference", _resolve)
