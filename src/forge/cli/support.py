"""``forge support``: which operators of a format, or of a model, can be loaded."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forge.cli import source, tables
from forge.errors import OptionError

if TYPE_CHECKING:
    from forge.frontends.formats import Format
    from forge.frontends.support import Support

EXAMPLES = (
    "forge support onnx", "forge support onnx Resize", "forge support torch", "forge support tflite", "forge support keras",
    "forge support model.onnx")


def support(
    subject: Annotated[str, typer.Argument(
        metavar="FORMAT_OR_MODEL", help="A format (onnx, torch, keras, stablehlo, tflite) or a model (.onnx, .keras).")],
    operator: Annotated[str | None, typer.Argument(help="Only this operator.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Lists the operators of a format or a model that Forge loads.

    An operator has a converter, or is a function whose body is expanded, or is missing. A model's operators come with the version
    that it imports, the number of nodes and the first of them.
    """
    from forge.frontends import formats

    names = formats.names()
    if subject in names:
        _format(formats.find(subject), operator, as_json)
        return
    path = Path(subject)
    if not path.exists() and formats.by_suffix(path) is None:
        models = ", ".join(formats.suffixes())
        raise OptionError(f"support: got {subject!r}; expected a format ({', '.join(names)}) or a model ({models})")
    _model(formats.recognize(path, "support")[0], path, operator, as_json)


def _support(found: Format) -> Support:
    if found.support is None:
        raise OptionError(f"support: {found.title}: models need no converters; expected another format")
    return found.support()


def _format(found: Format, operator: str | None, as_json: bool) -> None:
    from forge.frontends.support import MISSING

    name, support = found.name, _support(found)
    rows = [r for r in support.coverage() if _is_asked(r.op, operator)]
    if not rows:
        raise OptionError(f"support {name}: no operator is called {operator!r}; 'forge support {name}' lists all")
    if as_json:
        source.print_json([dataclasses.asdict(r) for r in rows])
        return
    cells = [(r.domain or support.registry.domain_name, r.op, ", ".join(map(str, r.versions)), r.how) for r in rows]
    tables.show(f"{found.title} operators", ("domain", "operator", "versions", "how"), cells)
    known = {(r.domain, r.op) for r in rows}
    loaded = known - {(r.domain, r.op) for r in rows if r.how == MISSING}
    loads = "loads" if len(known) == 1 else "load"
    source.say(f"{len(loaded)} of {source.count_text(len(known), 'operator')} {loads} in all versions")


def _model(found: Format, path: Path, operator: str | None, as_json: bool) -> None:
    from forge.frontends.support import MISSING

    support = _support(found)
    uses = [u for u in support.model_operators(path) if _is_asked(u.op, operator)]
    if operator is not None and not uses:
        raise OptionError(f"support: {path} has no operator {operator!r}; 'forge support {path}' lists all")
    if as_json:
        source.print_json([dataclasses.asdict(u) for u in uses])
        return
    columns = ("domain", "operator", "opset", "how", "count", "first node")
    rows = [(u.domain or support.registry.domain_name, u.op, str(u.opset or ""), u.how, str(u.count), u.first_node) for u in uses]
    tables.show(f"{path.name}: operators", columns, rows, right=("opset", "count"), spare=("first node",))
    loaded = sum(u.how != MISSING for u in uses)
    source.say(f"{loaded} of {source.count_text(len(uses), 'operator')} can be loaded")


def _is_asked(name: str, operator: str | None) -> bool:
    return operator is None or name.lower() == operator.lower()
