"""``forge support``: which operators of a format, or of a model, can be loaded."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from forge.cli import source
from forge.errors import ImportModelError, OptionError

EXAMPLES = ("forge support onnx", "forge support onnx Resize", "forge support model.onnx")
FORMATS = ("onnx",)


def support(
    subject: Annotated[str, typer.Argument(metavar="FORMAT_OR_MODEL", help="A format (onnx), or a model of it (.onnx).")],
    operator: Annotated[str | None, typer.Argument(help="Only this operator.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Lists the operators of a format or a model that Forge loads.

    An operator has a converter, or is a function whose body is expanded, or is missing. A model's operators come with the version
    that it imports, the number of nodes and the first of them.
    """
    if subject in FORMATS:
        _format(operator, as_json)
    elif Path(subject).suffix == ".onnx":
        _model(Path(subject), operator, as_json)
    else:
        raise OptionError(f"support: got {subject!r}; expected a format ({', '.join(FORMATS)}) or a model (.onnx)")


def _format(operator: str | None, as_json: bool) -> None:
    from forge.frontends.onnx.coverage import MISSING, coverage

    rows = [r for r in coverage() if _is_asked(r.op, operator)]
    if not rows:
        raise OptionError(f"support onnx: no operator is called {operator!r}; 'forge support onnx' lists all")
    if as_json:
        source.print_json([{"domain": r.domain, "op": r.op, "versions": r.versions, "how": r.how} for r in rows])
        return
    shown = source.table("ONNX operators", "domain", "operator", "versions", "how")
    for r in rows:
        shown.add_row(r.domain or "ai.onnx", r.op, ", ".join(map(str, r.versions)), r.how)
    source.show(shown)
    loaded = {(r.domain, r.op) for r in rows} - {(r.domain, r.op) for r in rows if r.how == MISSING}
    source.say(f"{len(loaded)} of {source.count_text(len({(r.domain, r.op) for r in rows}), 'operator')} load in all versions")


def _model(path: Path, operator: str | None, as_json: bool) -> None:
    from forge.frontends.onnx import model_operators
    from forge.frontends.onnx.support import MISSING

    if not path.is_file():
        raise ImportModelError(f"{path}: no such file; expected a model (.onnx)")
    uses = [u for u in model_operators(path) if _is_asked(u.op, operator)]
    if operator is not None and not uses:
        raise OptionError(f"support: {path} has no operator {operator!r}; 'forge support {path}' lists all")
    if as_json:
        source.print_json([dataclasses.asdict(u) for u in uses])
        return
    columns = ("domain", "operator", "opset", "how", "count", "first node")
    shown = source.table(f"{path.name}: operators", *columns, right=("opset", "count"))
    for u in uses:
        shown.add_row(u.domain or "ai.onnx", u.op, str(u.opset), u.how, str(u.count), u.first_node)
    source.show(shown)
    loaded = sum(u.how != MISSING for u in uses)
    source.say(f"{loaded} of {source.count_text(len(uses), 'operator')} can be loaded")


def _is_asked(name: str, operator: str | None) -> bool:
    return operator is None or name.lower() == operator.lower()
