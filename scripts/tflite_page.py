"""Writes ``docs/reference/tflite_operators.md``: the operators of TFLite that have converters."""

from __future__ import annotations

from forge.frontends.support import MISSING
from forge.frontends.tflite.coverage import coverage
from forge.frontends.tflite.registry import CUSTOM, REGISTRY

HEADING = """# Operators of TFLite

`forge support tflite` lists them, `forge support model.tflite` those of a model. Files are read without TensorFlow.

Of the {count} builtin operators of the schema {loaded} can be loaded, in all versions. Tensors may be float32, float16, integers
and strings. Quantized ones keep their integers: by tensor, by channel, in 8, 16 and 4 bits; and so do weights that are quantized
alone (dynamic range) or stored as float16. What a quantized operator computes is what its numbers stand for, rounded to the
nearest integer; kernels of TFLite round in fixed point, so that a result may be one step from theirs. Sparse weights are made
dense.

Branches, loops, subgraphs and composites are converted where they run. Variables are states of a session, which all signatures
of the model share, and tables are constants.

## Converters of your own

`register` adds converters of builtin operators by their names, and of custom ones with `domain="custom"`. A converter gets
numbers, and its result is quantized where the model says so; `g.operator.custom_options` are the bytes of its options.

```text
from forge.frontends.tflite import register

@register("AcmeScaled", domain="custom")
def scaled(g, x):
    return g.call("multiply", x, g.scalar(2, x))
```

## Builtin operators

| operator | loaded |
| --- | --- |
"""
CUSTOM_HEADING = """
## Custom operators

| operator | loaded |
| --- | --- |
"""


def tflite_page() -> str:
    """The text of the page, from the table of converters."""
    rows = coverage()
    builtin = [row for row in rows if row.domain != CUSTOM]
    text = HEADING.format(count=len(builtin), loaded=sum(row.how != MISSING for row in builtin))
    text += "".join(_row(row.domain, row.op, row.how) for row in builtin)
    custom = [row for row in rows if row.domain == CUSTOM]
    return text + (CUSTOM_HEADING + "".join(_row(row.domain, row.op, row.how) for row in custom) if custom else "")


def _row(domain: str, op: str, how: str) -> str:
    reason = REGISTRY.refusal(domain, op)
    return f"| `{op}` | {'yes' if how != MISSING else f'no: {reason}' if reason else 'no'} |\n"
