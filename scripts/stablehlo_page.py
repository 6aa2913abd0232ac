"""Writes ``docs/reference/stablehlo_operators.md``: the operations of StableHLO that have converters."""

from __future__ import annotations

from forge.frontends.stablehlo.coverage import SPECIFICATION, coverage, missing_operations
from forge.frontends.stablehlo.registry import COMPOSITE, CUSTOM_CALL, REGISTRY
from forge.frontends.support import MISSING

HEADING = """# Operations of StableHLO

`forge support stablehlo` lists them, `forge support model.mlirbc` those of a module. Files, text, bytecode and what `jax.export`
writes are read without jax; `forge.from_jax` takes functions of jax.

Of the {count} operations of the specification {loaded} can be loaded. Functions of a module are converted in place where they are
called. A composite is its decomposition, unless its name has a converter. Models run on one device: collective operations give
what they get, and groups of several devices are refused. Reductions, scatters, sorts and windows may have any body.

## Converters of your own

`register` adds converters: of operations, with `domain="custom_call"` of targets of custom calls, whose attributes are those of
their `backend_config`, and with `domain="composite"` of composites by their names.

```text
from forge.frontends.stablehlo import register

@register("acme.scaled", domain="custom_call")
def scaled(g, x, *, factor):
    return g.call("multiply", x, g.scalar(factor, x))
```

## The operations

| operation | loaded |
| --- | --- |
"""
_TITLES = {"": "", "chlo": "\n## CHLO\n\n| operation | loaded |\n| --- | --- |\n", CUSTOM_CALL: """
## Targets of custom calls

| target | loaded |
| --- | --- |
"""}


def stablehlo_page() -> str:
    """The text of the page, from the table of converters."""
    rows = [row for row in coverage() if row.domain != COMPOSITE]
    text = HEADING.format(count=len(SPECIFICATION), loaded=len(SPECIFICATION) - len(missing_operations()))
    for domain, title in _TITLES.items():
        text += title
        for row in rows:
            if row.domain == domain:
                text += f"| `{row.op}` | {_how(row.domain, row.op) if row.how == MISSING else 'yes'} |\n"
    return text


def _how(domain: str, op: str) -> str:
    reason = REGISTRY.refusal(domain, op)
    return f"no: {reason}" if reason else "no"
