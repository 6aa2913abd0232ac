"""``forge support``: which operators of a format can be loaded and compiled."""

from __future__ import annotations

from typing import Annotated

import typer

from forge.cli import source
from forge.errors import OptionError

EXAMPLES = ("forge support onnx", "forge support onnx Resize")


def support(
    format_: Annotated[str, typer.Argument(metavar="FORMAT", help="The format: onnx.")],
    operator: Annotated[str | None, typer.Argument(help="Only this operator.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Lists the operators of a format, their versions, and whether Forge has a converter or expands a function."""
    if format_ != "onnx":
        raise OptionError(f"support: got {format_!r}; expected one of: onnx")
    from forge.frontends.onnx.coverage import MISSING, coverage

    rows = [r for r in coverage() if operator is None or r.op.lower() == operator.lower()]
    if not rows:
        raise OptionError(f"support onnx: no operator is called {operator!r}; 'forge support onnx' lists all")
    if as_json:
        source.print_json([{"domain": r.domain, "op": r.op, "versions": r.versions, "how": r.how} for r in rows])
        return
    shown = source.table("ONNX operators", "domain", "operator", "versions", "how")
    for r in rows:
        shown.add_row(r.domain or "ai.onnx", r.op, ", ".join(map(str, r.versions)), r.how)
    source.console().print(shown)
    loaded = {(r.domain, r.op) for r in rows} - {(r.domain, r.op) for r in rows if r.how == MISSING}
    source.say(f"{len(loaded)} of {len({(r.domain, r.op) for r in rows})} operators can be loaded in all versions")
