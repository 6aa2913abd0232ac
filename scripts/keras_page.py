"""Writes ``docs/reference/keras_layers.md``: the layers of Keras, and operations of ``keras.ops``, that have converters."""

from __future__ import annotations

from forge.frontends.keras.coverage import coverage
from forge.frontends.keras.registry import FUNCTIONS, OPS, REGISTRY
from forge.frontends.support import MISSING, Coverage

HEADING = """# Layers of Keras

`forge support keras` lists them, `forge support model.keras` those of a model. Files are read without Keras.

Of the {layers} layers, names of other versions included, {loaded} can be loaded, and {loaded_operations} of the {operations}
operations of `keras.ops`, which a functional model has where it calls them on symbolic tensors. Layers that act in training alone
give what they get. Masks are carried from layer to layer as Keras carries them. Models inside of models, and layers that are
called several times, are converted where they are called; their weights are there once.

A file with a `Lambda` is refused: it has Python code, which is never run.

## Converters of your own

`register` adds converters of custom layers; `domain` is the package of `keras.saving.register_keras_serializable`, "Custom" if it
was given none. Positional parameters are the arguments of `call`, keyword-only ones the configuration. `g.weight(0)` is the first
variable of the layer.

```text
from forge.frontends.keras import register

@register("Scaled", domain="acme")
def scaled(g, x, *, factor=1.0):
    return g.call("multiply", x, g.call("multiply", g.weight(0), g.scalar(factor, x)))
```

## Layers

| layer | loaded |
| --- | --- |
"""
FUNCTIONS_HEADING = """
## Functions of TensorFlow between layers of Keras 2

| function | loaded |
| --- | --- |
"""
OPERATIONS_HEADING = """
## Operations of `keras.ops`

| class | loaded |
| --- | --- |
"""


def keras_page() -> str:
    """The text of the page, from the table of converters."""
    rows = coverage()
    layers, operations, functions = ([row for row in rows if row.domain == domain] for domain in ("", OPS, FUNCTIONS))
    text = HEADING.format(
        layers=len(layers), loaded=_count(layers), operations=len(operations), loaded_operations=_count(operations))
    tables = ((text, layers), (OPERATIONS_HEADING, operations), (FUNCTIONS_HEADING, functions))
    return "".join(heading + "".join(map(_row, found)) for heading, found in tables)


def _count(rows: list[Coverage]) -> int:
    return sum(row.how != MISSING for row in rows)


def _row(row: Coverage) -> str:
    reason = REGISTRY.refusal(row.domain, row.op)
    return f"| `{row.op}` | {'yes' if row.how != MISSING else f'no: {reason}' if reason else 'no'} |\n"
