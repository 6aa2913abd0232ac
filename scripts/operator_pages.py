"""The pages of ``docs/reference/operators``: what each operator means, takes and promises, from its class."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType
from typing import Any

from benchmarks import accuracy_results
from forge.frontends.onnx import REGISTRY
from forge.ir.op import Kind, Trait, all_ops
from forge.kernels import FAMILIES
from forge.ops.core.op import Op
from forge.ops.elementwise.rows import Elementwise
from scripts.operator_types import element_types

INDEX = """# Operators

Every operator of the graph IR, by family: the folder of `forge.ops` that defines it. `python -m scripts.write_docs` writes
the pages from the operators' classes. *Accuracy* is what tests hold compiled code to: `exact` is bit for bit, `rounding` a few
roundings of each element, `accumulating` a sum in another order; what is measured of functions is in [accuracy](../accuracy.md).
*Element types* are those of the first operand and of the results, found by asking type inference with the operands of a test
row. *ONNX* lists the operators whose converters name it, or whose converters call a composition that does.

| page | operators |
| --- | --- |
"""
_RANKED = re.compile(r"(.*)\d(d.*)")
_COMPOSED = ("forge.compose", "forge.frontends.onnx.converters")
KINDS = {
    Kind.ELEMENTWISE: "elementwise loops, fused with neighbours",
    Kind.INJECTIVE: "loops that move elements, fused into readers",
    Kind.REDUCTION: "reduction loops, with fused epilogue",
    Kind.ANCHOR: "several loops, or a kernel",
    Kind.OPAQUE: "never fused",
}


def operator_pages() -> dict[str, str]:
    """The text of each page, by path below ``docs``."""
    families: dict[str, list[Op[Any]]] = defaultdict(list)
    for op in sorted(all_ops(), key=lambda op: type(op).__module__):  # those of optional families register on first use
        if isinstance(op, Op):
            families[family(op)].append(op)
    names = {name: ", ".join(f"`{op.name}`" for op in operators) for name, operators in sorted(families.items())}
    rows = "".join(f"| [{name}]({name}.md) | {listed} |\n" for name, listed in names.items())
    pages = {f"operators/{name}.md": page(name, operators) for name, operators in families.items()}
    return {"operators/README.md": INDEX + rows, **pages}


def family(op: Op[Any]) -> str:
    """The page of an operator: the folder that defines it."""
    return type(op).__module__.split(".")[2]


def page(name: str, operators: list[Op[Any]]) -> str:
    return f"# {name}\n\n" + "\n".join(section(op) for op in operators)


def section(op: Op[Any]) -> str:
    """Heading, equation and facts of one operator."""
    facts = {
        "operands": ", ".join(_operands(op)),
        "attributes": ", ".join(_attributes(op)),
        "element types": element_types(op),
        "accuracy": "; ".join(filter(None, [(op.accuracy.name or "").lower(), accuracy_results.summary(op.name)])),
        "traits": ", ".join(sorted((t.name or "").lower().replace("_", " ") for t in Trait if t and t in op.traits)),
        "native code": native_code(op),
        "ONNX": ", ".join(onnx_operators(op.name)),
    }
    lines = "".join(f"- {key}: {text}\n" for key, text in facts.items() if text)
    return f"## `{op.name}`\n\n{_prose(op)}\n\n{lines}"


def _prose(op: Op[Any]) -> str:
    text = inspect.getdoc(type(op)) or ""
    return f"`{text}`" if isinstance(op, Elementwise) and "`" not in text else text.replace("``", "`")


def _operands(op: Op[Any]) -> Iterator[str]:
    for operand in op.operands:
        yield f"`{operand.name}{'...' if operand.variadic else ''}`{' (optional)' if operand.optional else ''}"


def _attributes(op: Op[Any]) -> Iterator[str]:
    for field in op.attribute_fields():
        default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
        if field.default_factory is not dataclasses.MISSING:
            default = f" = {field.default_factory()!r}"
        yield f"`{field.name}: {field.type}{default}`"


def native_code(op: Op[Any]) -> str:
    """How the operator becomes machine code."""
    if op.host_routine is not None:
        return "a program of its own for each region, which the runtime runs" if op.regions else "a function of the runtime"
    if op.kernel in FAMILIES:
        return f"kernel family `{op.kernel}`"
    if type(op).lower is not Op.lower:
        return KINDS[op.kind]
    return "by decomposition into other operators" if type(op).decompose is not Op.decompose else "none yet"


def onnx_operators(name: str) -> list[str]:
    """ONNX operators whose converters name the Forge operator, or build its name around a rank (``conv`` .. ``d``)."""
    ranked = _RANKED.fullmatch(name)
    pieces = set(ranked.groups()) if ranked else {name}
    return sorted({op for op, texts in _named_by_converters() if name in texts or pieces <= texts})


@cache
def _named_by_converters() -> list[tuple[str, frozenset[str]]]:
    domains = [(row, f"{row.domain}." if row.domain else "") for row in REGISTRY.rows()]
    return [(domain + row.op, _named_by(row.function)) for row, domain in domains]


def _named_by(function: Callable[..., Any]) -> frozenset[str]:
    """The texts in a converter; if none names an operator, those in the compositions and helpers that it calls."""
    seen: set[Callable[..., Any]] = set()

    def texts(caller: Callable[..., Any]) -> frozenset[str]:
        seen.add(caller)
        found = frozenset(_strings(caller))
        if found & _names():
            return found
        return found.union(*(texts(callee) for callee in _callees(caller) if callee not in seen))

    return texts(inspect.unwrap(function))


@cache
def _names() -> frozenset[str]:
    """Names of operators, without the rank where there is one (``nn.conv`` of ``nn.conv2d``)."""
    names = {op.name for op in all_ops()}
    return frozenset(names | {match[1] for name in names if (match := _RANKED.fullmatch(name))})


def _callees(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """The compositions and converters' helpers that the code of ``function`` names, or that it closes over."""
    code = getattr(function, "__code__", None)
    names = set() if code is None else {name for part in _codes(code) for name in part.co_names}
    scope = getattr(function, "__globals__", {})
    modules = [m for n in names if inspect.ismodule(m := scope.get(n)) and m.__name__.startswith(_COMPOSED)]
    candidates = [scope.get(n) for n in names] + [getattr(m, n, None) for m in modules for n in names]
    candidates += [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    yield from (c for c in candidates if inspect.isfunction(c) and c.__module__.startswith(_COMPOSED))


def _strings(function: Callable[..., Any]) -> Iterator[str]:
    """Strings in the code of a function and in what it closes over."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is not None:
        yield from _constants(code)
    for cell in getattr(function, "__closure__", None) or ():
        if isinstance(cell.cell_contents, str):
            yield cell.cell_contents
        elif callable(cell.cell_contents):
            yield from _strings(cell.cell_contents)


def _constants(code: CodeType) -> Iterator[str]:
    for constant in (c for part in _codes(code) for c in part.co_consts):
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple):
            yield from (x for x in constant if isinstance(x, str))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code, and that of functions inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
