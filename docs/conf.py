"""The site: ``make site`` builds it from these pages, the notebooks and the docstrings. Every warning is an error.

Pages are plain Markdown that reads well on a code host, too: their order in the site's side bar is here, not in them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, String, Text
from sphinx.application import Sphinx

import forge

FOLDER = Path(__file__).parent

project = "Forge"
author = "The Forge Authors"
copyright = author  # noqa: A001 - the name that Sphinx reads
version = release = forge.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
root_doc = "index"
exclude_patterns = ["README.md"]

html_theme = "furo"
html_title = f"Forge {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

myst_heading_anchors = 4
myst_enable_extensions = ["strikethrough"]
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_merge_streams = True

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
maximum_signature_line_length = 88
napoleon_numpy_docstring = False
copybutton_exclude = ".linenos, .gp, .go"

SIDE_BAR = {
    "Start": [f"start/{name}" for name in (
        "install", "onnx", "pytorch", "torch_compile", "transformers", "jax", "tensorflow", "tflite", "keras", "quantized",
        "cli", "c")],
    "Guides": [f"guides/{name}" for name in (
        "faster", "quantization", "quantized_models", "comparing", "editing", "deploy", "other_machines", "troubleshooting",
        "pytorch", "torch_compile", "transformers", "nn", "language_models", "programs", "tensors", "callbacks",
        "extending", "onnxruntime", "relay")],
    "Notebooks": ["notebooks/pytorch_to_library", "notebooks/quantize_and_compare"],
    "Reference": [f"reference/{name}" for name in (
        "api/index", "formats", "settings", "opt_levels", "operators/README", "onnx_operators", "pytorch_operators",
        "stablehlo_operators", "tensorflow_operators", "tflite_operators",
        "keras_layers", "pytorch_models", "onnx_export", "text_format", "accuracy", "performance",
        "performance_dynamic", "performance_operators", "comparison", "scope", "seeds")],
    "Inside": [f"internals/{name}" for name in ("tour", "architecture", "benchmarks", "bandwidth")],
}
"""Captions of the side bar, and the pages under each. A page that is missing here is a warning of Sphinx, and so an error."""


def contents(caption: str, pages: list[str]) -> str:
    """A table of contents that only the side bar shows."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *pages, "```", ""])


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Appends to the pages that others are below of what Markdown has no words for."""
    if page == "index":
        source[0] += "".join(contents(caption, pages) for caption, pages in SIDE_BAR.items())
    if page == "reference/operators/README":
        source[0] += contents("", sorted(p.stem for p in (FOLDER / page).parent.glob("*.md") if p.stem != "README"))


def keep_first_line(app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]) -> None:
    """Napoleon takes text before a colon in the first line of a property for its type: a comment stands there instead."""
    if what == "property":
        lines[:0] = ["..", ""]


class RelayLexer(RegexLexer):
    """Text of graphs (``docs/reference/text_format.md``)."""

    name = "Relay"
    aliases: ClassVar[list[str]] = ["relay"]
    tokens: ClassVar[dict[str, Any]] = {"root": [
        (r"(//|#).*", Comment),
        (r'"[^"\n]*"', String),
        (r"\b(def|if|else|let|state|donated|public|Tensor|True|False|None)\b", Keyword),
        (r"[%@][\w.]+", Name.Variable),
        (r"\b\d[\w.]*", Number),
        (r"[\w.]+(?=\()", Name.Function),
        (r"[\w.]+|\s+|.", Text),
    ]}


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_contents)
    app.connect("autodoc-process-docstring", keep_first_line, priority=400)  # napoleon's is 500
    app.add_lexer("relay", RelayLexer)
