"""The site: `sphinx-build -W -b html -c docs . build/site`, which `.ci/run` does. The root is the repository, so that
every link of a document is one of the site as well; links to other files become downloads.

Generated while it is built, and not committed: the reference of the commands, from their --help, the table of targets,
the gallery of kernels, and the times of "The cost of a layer".
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

import qconv

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

project = "qconv"
version = release = qconv.__version__
author = "the qconv maintainers"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = [
    *(
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "NOTICES.md",
        "bench/README.md",
        "tests/repository/mutants/README.md",
    ),
    "docs/**.md",
]
INCLUDED = ("functions", "gallery", "targets")  # in other pages
exclude_patterns = [".venv", ".git", "build", "dist", "src", *(f"docs/reference/{name}.md" for name in INCLUDED)]
nitpicky = False
default_role = "code"
smartquotes = False
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: name for name in ("AnyArray", "Axis", "Extents", "Form", "Function", "Numbers")}
autodoc_member_order = "bysource"
maximum_signature_line_length = 80
python_use_unqualified_type_names = True
html_theme = "furo"
html_title = f"qconv {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_show_copyright = False
html_extra_path = ["extra"]
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def generate(app: Sphinx) -> None:
    import costs
    import gallery
    import generated

    made = {f"reference/{name}": text for name, text in (generated.pages() | gallery.pages()).items()}
    for name, text in (made | {"static/costs-data.js": costs.script()}).items():
        path = ROOT / "docs" / name
        path.parent.mkdir(exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def draw_inline(app: Sphinx, tree: nodes.document, docname: str) -> None:
    """Drawings stand in the page itself, so that they have its colours, light or dark."""
    if app.builder.format != "html":
        return
    for image in list(tree.findall(nodes.image)):
        path = ROOT / str(image["uri"])
        if "drawings" in path.parts and path.suffix == ".svg":
            text = re.sub(r"<style>.*?</style>", "", path.read_text(), flags=re.DOTALL)
            image.replace_self(nodes.raw("", f'<div class="drawing">{text}</div>', format="html"))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", generate)
    app.connect("doctree-resolved", draw_inline)
    return {"parallel_read_safe": True}
