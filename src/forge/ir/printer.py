"""Text of modules, in Relay's syntax. ``parser.parse_module`` reads it back.

Intermediate values are numbered in the order of printing; the last expression of a body is its result. Rank-0 constants stand
inline, others as ``meta[relay.Constant][k]``; their arrays are ``Printed.constants``. An attribute that has its default is omitted.
Extensions over Relay: symbolic dimensions, ``None`` for an absent operand, and regions, printed as functions in braces
behind the call:

    %2 = if(%c, %x) { then_branch = fn (%a: float32) { exp(%a) }, else_branch = fn (%b: float32) { %b } };
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from forge import dtypes
from forge.ir import types
from forge.ir.nodes import Graph, Module, Node, Value
from forge.ir.text import attribute_text, name_text, scalar_text


@dataclass
class Printed:
    """The text, and the arrays that it refers to."""

    text: str
    constants: list[np.ndarray] = field(default_factory=list)


def print_module(module: Module, types: bool = False, names: bool = False, metadata: bool = False, indent: str = "  ") -> str:
    """Text of ``module``.

    Args:
        types: append ``/* ty=... */`` to every expression.
        names: append ``/* name="..." */`` where a node or its results are named (as ``save`` does).
        metadata: append the large constants as a ``#[metadata]`` section, which makes the text complete.
        indent: of one level.
    """
    printed = print_with_constants(module, types, names, indent)
    if not metadata or not printed.constants:
        return printed.text
    return f"{printed.text}\n#[metadata]\n{metadata_text(printed.constants)}\n"


def print_with_constants(module: Module, types: bool = False, names: bool = False, indent: str = "  ") -> Printed:
    """Like ``print_module``, with the large constants as arrays."""
    printer = _Printer(types, names, indent)
    bodies = [printer.function(f"def @{name_text(name)}", graph, 0) for name, graph in module.graphs.items()]
    return Printed("\n\n".join(bodies) + "\n", printer.constants)


def metadata_text(constants: Sequence[np.ndarray]) -> str:
    """JSON of arrays: dtype, shape, base64 of the little-endian bytes."""
    entries = [
        {
            "dtype": dtypes.canonical(a.dtype),
            "shape": list(a.shape),
            "data": base64.b64encode(np.ascontiguousarray(a).tobytes()).decode(),
        }
        for a in constants
    ]
    return json.dumps({"relay.Constant": entries})


class _Printer:
    def __init__(self, show_types: bool, show_names: bool, indent: str) -> None:
        self.show_types = show_types
        self.show_names = show_names
        self.indent = indent
        self.constants: list[np.ndarray] = []
        self.constant_number: dict[int, int] = {}

    def function(self, head: str, graph: Graph, depth: int) -> str:
        scope = _Scope(self, graph, depth + 1)
        parameters = [f"%{scope.parameters[v]}: {v.type}" for v in graph.inputs]
        parameters += [f"{k}={attribute_text(v)}" for k, v in graph.attributes.items()]
        body = "\n".join(self.indent * (depth + 1) + line for line in scope.lines())
        result = self._result_type(graph)
        return f"{head}({', '.join(parameters)}){result} {{\n{body}\n{self.indent * depth}}}"

    def _result_type(self, graph: Graph) -> str:
        if not self.show_types:
            return ""
        listed = ", ".join(str(v.type) for v in graph.outputs)
        return f" -> {listed}" if len(graph.outputs) == 1 else f" -> ({listed})"

    def meta(self, array: np.ndarray) -> str:
        number = self.constant_number.setdefault(id(array), len(self.constants))
        if number == len(self.constants):
            self.constants.append(array)
        return f"meta[relay.Constant][{number}]"


class _Scope:
    """Names inside one graph."""

    def __init__(self, printer: _Printer, graph: Graph, depth: int) -> None:
        self.printer = printer
        self.graph = graph
        self.depth = depth
        self.parameters = _unique_names(graph.inputs)
        self.names: dict[Value, str] = {v: f"%{n}" for v, n in self.parameters.items()}
        self.inlined = self._inlined_result()

    def lines(self) -> list[str]:
        lines = []
        number = 0
        for node in self.graph.nodes:
            if node.op == "constant" or node is self.inlined:
                continue
            for value in node.results:
                self.names[value] = f"%{number}" if len(node.results) == 1 else f"%{number}.{value.index}"
            lines.append(f"%{number} = {self.call(node)};")
            number += 1
        return [*lines, self._result()]

    def _inlined_result(self) -> Node | None:
        """The node that stands as the body's last expression: the producer of the only output, used nowhere else."""
        if len(self.graph.outputs) != 1:
            return None
        value = self.graph.outputs[0]
        node = value.producer
        if node is None or value.uses or len(node.results) != 1 or node.op == "constant":
            return None
        return node

    def _result(self) -> str:
        if self.inlined is not None:
            return self.call(self.inlined)
        listed = ", ".join(self.operand(v) for v in self.graph.outputs)
        return listed if len(self.graph.outputs) == 1 else f"({listed},)" if not listed else f"({listed})"

    def call(self, node: Node) -> str:
        arguments = [self.operand(v) for v in node.operands]
        for f in dataclasses.fields(node.attrs):
            value = getattr(node.attrs, f.name)
            if f.default is dataclasses.MISSING or not _same(value, f.default):
                arguments.append(f"{f.name}={attribute_text(value)}")
        text = f"{node.op}({', '.join(arguments)})"
        if node.regions:
            text += self._regions(node)
        return text + self._notes(node)

    def _regions(self, node: Node) -> str:
        labels = [*node.op_def.regions, *[f"region{k}" for k in range(len(node.op_def.regions), len(node.regions))]]
        functions = [self.printer.function(f"{n} = fn ", r, self.depth) for n, r in zip(labels, node.regions)]
        return " { " + ", ".join(functions) + " }"

    def _notes(self, node: Node) -> str:
        notes = []
        if self.printer.show_types or _introduces_symbols(node):
            listed = ", ".join(str(v.type) for v in node.results)
            notes.append(f"ty={listed}" if len(node.results) == 1 else f"ty=({listed})")
        if self.printer.show_names:
            if node.name:
                notes.append(f"name={json.dumps(node.name)}")
            if any(v.name for v in node.results):
                notes.append(f"results={json.dumps([v.name for v in node.results])}")
        return f" /* {' '.join(notes)} */" if notes else ""

    def operand(self, value: Value | None) -> str:
        if value is None:
            return "None"
        array = value.constant
        if array is not None:
            return scalar_text(array) or self.printer.meta(array)
        return self.names[value]


def _same(value: object, default: object) -> bool:
    return type(value) is type(default) and value == default


def _introduces_symbols(node: Node) -> bool:
    """Whether a result's extent is a symbol that the operands' types and the attributes do not have."""
    known: set[str] = set()
    for value in node.operands:
        if value is not None:
            known.update(types.symbols(value.type))
    known.update(_attribute_symbols(tuple(node.attributes.values())))
    return any(s not in known for v in node.results for s in types.symbols(v.type))


def _attribute_symbols(value: object) -> list[str]:
    from forge import dims

    if isinstance(value, dims.DimExpr):
        return dims.symbols(value)
    if isinstance(value, tuple):
        return [s for v in value for s in _attribute_symbols(v)]
    return []


def _unique_names(values: Sequence[Value]) -> dict[Value, str]:
    """Names of parameters: their own where that is free and not a number, else with a suffix."""
    taken: set[str] = set()
    names: dict[Value, str] = {}
    for number, value in enumerate(values):
        base = value.name or f"p{number}"
        name, suffix = base, 0
        while name in taken:
            suffix += 1
            name = f"{base}_{suffix}"
        taken.add(name)
        names[value] = name_text(name)
    return names
