"""Writes ``docs/reference/tensorflow_operators.md``: the operators of TensorFlow that have converters."""

from __future__ import annotations

from forge.frontends.support import MISSING
from forge.frontends.tensorflow.coverage import coverage
from forge.frontends.tensorflow.registry import REGISTRY

HEADING = """# Operators of TensorFlow

`forge support tensorflow` lists them, `forge support model.pb` or `forge support FOLDER` those of a model. Files are read without
TensorFlow: frozen graphs (`.pb`, `.pbtxt`) and SavedModels with their variables.

{loaded} operators can be loaded. Functions are expanded where they are called. Loops that count become scans, lists and arrays of
tensors are tensors; `Switch`, `Merge` and frames are turned into branches and loops. Variables that a call writes are states of
a session, all others are constants, and so are tables. Modules of StableHLO (`XlaCallModule`) are converted by the converters of
[StableHLO](stablehlo_operators.md).

## Converters of your own

`register` adds converters by names of operators, in the place of Forge's too. Positional parameters are inputs, keyword-only ones
attributes; those that are element types are given to converters that list them.

```text
from forge.frontends.tensorflow import register

@register("AcmeScaled")
def scaled(g, x, *, factor=1.0):
    return g.call("multiply", x, g.scalar(factor, x))
```

## Operators

| operator | loaded |
| --- | --- |
"""


def tensorflow_page() -> str:
    """The text of the page, from the table of converters."""
    rows = coverage()
    text = HEADING.format(loaded=sum(row.how != MISSING for row in rows))
    return text + "".join(_row(row.op, row.how) for row in rows)


def _row(op: str, how: str) -> str:
    return f"| `{op}` | {'yes' if how != MISSING else 'no: ' + REGISTRY.refusal('', op)} |\n"
