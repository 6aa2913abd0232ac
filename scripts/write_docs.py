"""Writes the pages of ``docs/reference/`` that come from tables in the sources. ``--check``: fails where one is out of date."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import forge
from benchmarks import accuracy_results, machine_tables, operator_results
from forge.driver.pipeline import levels_table
from forge.exporters.onnx.coverage import WITHOUT_ONNX, ways
from forge.knobs import KNOBS
from forge.options import settings_table
from scripts import loader_stubs
from scripts.formats_page import formats_page, loaders_page
from scripts.keras_page import keras_page
from scripts.onnx_page import onnx_page
from scripts.operator_pages import operator_pages
from scripts.speed_picture import speed_picture
from scripts.stablehlo_page import stablehlo_page
from scripts.tensorflow_page import tensorflow_page
from scripts.tflite_page import tflite_page
from scripts.torch_page import torch_page
from scripts.zoo_page import zoo_page
from tests.seeds import items as seeds

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs" / "reference"

OPT_LEVELS = """# Optimization levels

`ir.compile(opt_level=...)` and `forge compile -O` take 0 to 4; the default is 3. Results agree at all levels, within the
rounding of sums in another order. Higher levels take longer to compile. The table comes from `forge.driver.pipeline`; stages run
from top to bottom.

Inside `with forge.PassContext(opt_level=1, required_pass=["use_winograd"], disabled_pass=["fusion"]):` what is compiled follows
the context: single stages run below their level, or not at all (those of level 0 cannot be left out). Its `config` takes the
options that [settings](settings.md) marks. What is given to `ir.compile` itself wins.

"""

SETTINGS = """# Settings

## Options of a compilation

Arguments of `ir.compile`, and of `forge compile`, `bench`, `profile` and `tune`; those marked *config* can be set for a block by
`with forge.PassContext(config={"set_float16": True}):`. The table comes from `forge.options`.

{options}
## Environment variables

All that Forge reads. A value that means nothing is an error, and a misspelt name gets a warning with the right one. The table
comes from `forge.knobs`.

| variable | default | meaning |
| --- | --- | --- |
"""


ONNX_EXPORT = """# Operators as ONNX

How `ir.to_onnx` and `forge export` write each operator: by a *row* of the exporter's table, as its *parts* (other
operators), or as its tensor *expressions* (arithmetic on positions and elements; right, but slower than an operator would
be). Complex numbers are refused, and what stands at the end. The table comes from `forge.exporters.onnx.coverage`.

Of the 2,033 cases of the onnx package's backend suite {count} give the expected outputs when they are imported, exported and
run by onnxruntime, or where that has no kernel by the onnx package's evaluator. `tests/onnx_backend/excluded.txt` has the
reasons of the others.

| operator | written by |
| --- | --- |
"""


def onnx_export() -> str:
    """The page about the ONNX exporter."""
    rows = "".join(f"| `{name}` | {way} |\n" for name, way in ways() if way)
    missing = "".join(f"| `{name}` | {reason} |\n" for name, reason in WITHOUT_ONNX.items())
    suite = ROOT / "tests" / "onnx_backend"
    exported = (suite / "exported.txt").read_text(encoding="utf-8").split()
    head = ONNX_EXPORT.replace("{count}", f"{len(exported):,}")
    return f"{head}{rows}\nRefused:\n\n| operator | reason |\n| --- | --- |\n{missing}"


def pages() -> dict[str, str]:
    """The text of each generated page and picture, by its path from ``docs/reference``; and that of the stub of the loaders."""
    head = SETTINGS.replace("{options}", settings_table())
    settings = head + "".join(f"| `{k.name}` | {f'`{k.default}`' if k.default else ''} | {k.meaning} |\n" for k in KNOBS)
    onnx = {"onnx_operators.md": onnx_page(), "onnx_export.md": onnx_export()}
    tables = {"accuracy.md": accuracy_results.page(), "performance.md": machine_tables.page(),
              "performance_operators.md": operator_results.page(),
              "seeds.md": seeds.page(), "pytorch_operators.md": torch_page(), "pytorch_models.md": zoo_page(),
              "stablehlo_operators.md": stablehlo_page(), "tflite_operators.md": tflite_page(),
              "tensorflow_operators.md": tensorflow_page(),
              "keras_layers.md": keras_page(),
              "formats.md": formats_page(), "api/loaders.rst": loaders_page(), **onnx}
    stubs = {os.path.relpath(loader_stubs.STUB, DOCS): loader_stubs.stub()}
    pictures = {"../static/speed.svg": speed_picture(), "../static/graph.svg": graph_picture()}
    made = {"opt_levels.md": OPT_LEVELS + levels_table(), "settings.md": settings, **tables, **pictures, **stubs}
    return {**made, **operator_pages()}


def graph_picture() -> str:
    """The picture of the model of the demo, as ``ir.plot()`` draws it."""
    return forge.load(ROOT / "examples" / "digits" / "digits.onnx").plot().svg + "\n"


def stale() -> list[str]:
    """Names of pages that are missing or differ from their tables, and of those whose operators are gone."""
    current = pages()
    old = [n for n, text in current.items() if not (DOCS / n).is_file() or (DOCS / n).read_text(encoding="utf-8") != text]
    return old + sorted(n for n in operator_files() if n not in current)


def operator_files() -> list[str]:
    return [f"operators/{path.name}" for path in (DOCS / "operators").glob("*.md")]


def main() -> int:
    if "--check" in sys.argv[1:]:
        old = stale()
        if old:
            sys.stderr.write(f"out of date: {', '.join(old)}; run: python -m scripts.write_docs\n")
        return int(bool(old))
    (DOCS / "operators").mkdir(exist_ok=True)
    for name in set(operator_files()) - set(pages()):
        (DOCS / name).unlink()
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
