"""Writes ``docs/reference/pytorch_operators.md``: the operators of PyTorch that have converters."""

from __future__ import annotations

from forge.frontends.support import CONVERTER
from forge.frontends.torch.coverage import CORE_ATEN, coverage, missing_core

HEADING = """# PyTorch operators

[PyTorch](../guides/pytorch.md) says how models are loaded. `forge support torch` lists all operators,
`forge support model.pt2` those of a program.

## Files

`torch.export.save` writes a program and its weights to a `.pt2` file. Forge reads it without torch, and unpickles
nothing: weights are views of the file, and what is pickled in it (example inputs, objects of custom classes) is never read.
Wherever the command line takes a model, it takes such a file. All operators of a file have to be in the table below; torch can
make a program of fewer operators before it is saved: `exported.run_decompositions()`.

```python
import torch

network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
exported = torch.export.export(network, (torch.randn(2, 4),), dynamic_shapes=({{0: torch.export.Dim("batch")}},))
torch.export.save(exported, "model.pt2")
```

## Operators

{count:,} overloads of {names:,} operators have a converter; in-place variants (`add_.Tensor`) are converted as the operator
itself. Of the {core} overloads of Core ATen, to which torch takes the others apart, {loaded} have one{missing}.

| operator | overloads |
| --- | --- |
"""


def torch_page() -> str:
    """The text of the page, from the table of converters."""
    overloads: dict[str, list[str]] = {}
    for row in coverage():
        if row.how == CONVERTER:
            name, _, overload = row.op.partition(".")
            overloads.setdefault(f"{row.domain}.{name}".lstrip("."), []).append(overload)
    lacking = missing_core()
    heading = HEADING.format(
        count=sum(map(len, overloads.values())), names=len(overloads), core=len(CORE_ATEN), loaded=len(CORE_ATEN) - len(lacking),
        missing="" if not lacking else "; missing: " + ", ".join(f"`{op}`" for op in lacking))
    rows = ((name, ", ".join(f"`{overload}`" for overload in found if overload)) for name, found in sorted(overloads.items()))
    return heading + "".join(f"| `{name}` | {cell} |\n" for name, cell in rows)
