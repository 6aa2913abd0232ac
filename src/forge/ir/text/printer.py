"""Text of modules, in Relay's syntax. ``parser.parse_module`` reads it back.

Intermediate values are numbered in the order of printing; the last expression of a body is its result. Rank-0 constants stand
inline, others as ``meta[relay.Constant][k]``, with their arrays in ``Printed.constants``. An attribute that has its default is
omitted. Extensions over Relay: symbolic dimensions, ``None`` for an absent operand, types where inference alone would not give
them (the extent of a data-dependent result is a symbol), and regions, printed as functions in braces after the call:

    %2 = if(%c, %x) { then_branch = fn (%a: float32) { exp(%a) }, else_branch = fn (%b: float32) { %b } };
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from forge import dtypes
from forge.errors import ForgeError
from forge.ir import types as T
from forge.ir.arrays import identity, to_bytes
from forge.ir.builder import infer
from forge.ir.call import CALL, result_types
from forge.ir.functions.states import replaced
from forge.ir.graph import Graph, Module
from forge.ir.nodes import CONSTANT, Node, Value
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
        names: append ``/* name="..." */`` where a node, its results or a constant are named, and ``place`` where it
            says more of where in a program the node was (as ``save`` does).
        metadata: append the large constants as a ``#[metadata]`` section, which makes the text complete.
        indent: of one level.
    """
    printed = print_with_constants(module, types, names, indent)
    if not metadata or not printed.constants:
        return printed.text
    return f"{printed.text}\n#[metadata]\n{metadata_text(printed.constants)}\n"


def print_graph(graph: Graph) -> str:
    """Text of one graph, as it stands in a module; without the names of constants' arrays it cannot be read back."""
    head = f"def @{name_text(graph.name)}" if graph.name else "fn "
    return _Printer({graph.name: graph}, False, False, "  ").function(head, graph, 0) + "\n"


def print_with_constants(module: Module, types: bool = False, names: bool = False, indent: str = "  ") -> Printed:
    """Like ``print_module``, with the large constants as arrays."""
    printer = _Printer(module.graphs, types, names, indent)
    bodies = [printer.function(f"def @{name_text(name)}", graph, 0) for name, graph in module.graphs.items()]
    return Printed("\n\n".join(bodies) + "\n", printer.constants)


def metadata_text(constants: Sequence[np.ndarray]) -> str:
    """JSON of arrays: dtype, shape, base64 of their bytes (see ``arrays``)."""
    return json.dumps({"relay.Constant": [_entry(a) for a in constants]})


def _entry(array: np.ndarray) -> dict[str, object]:
    data = base64.b64encode(to_bytes(array)).decode()
    return {"dtype": dtypes.canonical(array.dtype), "shape": list(array.shape), "data": data}


class _Printer:
    def __init__(self, functions: Mapping[str, Graph], show_types: bool, show_names: bool, indent: str) -> None:
        self.functions = functions
        self.show_types = show_types
        self.show_names = show_names
        self.indent = indent
        self.constants: list[np.ndarray] = []
        self.constant_number: dict[Hashable, int] = {}

    def function(self, head: str, graph: Graph, depth: int) -> str:
        scope = _Scope(self, graph, depth + 1)
        parameters = [self.parameter(graph, v, scope.parameters[v]) for v in graph.inputs]
        unread = [(n, s.initial) for n, s in graph.states.items() if all(v.name != n for v in graph.inputs)]
        parameters += [f"state %{name_text(n)} = {self.literal(initial)}" for n, initial in unread if initial is not None]
        parameters += [f"{k}={attribute_text(v)}" for k, v in graph.attributes.items()]
        body = "\n".join(self.indent * (depth + 1) + line for line in scope.lines())
        result = self._result_type(graph)
        return f"{head}({', '.join(parameters)}){result} {{\n{body}\n{self.indent * depth}}}"

    def parameter(self, graph: Graph, value: Value, name: str) -> str:
        if value.name not in graph.states:
            return f"{'donated ' if value.name in graph.donated else ''}%{name}: {value.type}"
        initial = graph.states[value.name].initial
        return f"state %{name}: {value.type}" + ("" if initial is None else f" = {self.literal(initial)}")

    def _result_type(self, graph: Graph) -> str:
        if not self.show_types:
            return ""
        return f" -> {_type_list([v.type for v in graph.outputs])}"

    def literal(self, array: np.ndarray) -> str:
        return scalar_text(array) or self.meta(array)

    def meta(self, array: np.ndarray) -> str:
        number = self.constant_number.setdefault(identity(array), len(self.constants))
        if number == len(self.constants):
            self.constants.append(array)
        return f"meta[relay.Constant][{number}]"

    def differs_from_inferred(self, node: Node) -> bool:
        """Whether the types of the results are not what a reader of the text would infer."""
        try:
            if node.op_def is CALL:
                types = list(result_types(node.attrs.function, self.functions[node.attrs.function], node.operands))
            else:
                types = infer(node.op_def, node.operands, node.attrs, node.regions)
        except (ForgeError, KeyError):  # the module is broken; ``verify`` says how
            return True
        return [str(v.type) for v in node.results] != list(map(str, types))


class _Scope:
    """Names inside one graph."""

    def __init__(self, printer: _Printer, graph: Graph, depth: int) -> None:
        self.printer = printer
        self.graph = graph
        self.depth = depth
        self.parameters = _unique_names(graph.inputs)
        self.names: dict[Value, str] = {v: f"%{n}" for v, n in self.parameters.items()}
        self.nodes = [n for n in graph.nodes if n.op_def is not CONSTANT]
        self.inlined = self._inlined_result()

    def lines(self) -> list[str]:
        lines = []
        for number, node in enumerate(self.nodes):
            if node is self.inlined:
                continue
            for value in node.results:
                self.names[value] = f"%{number}" if len(node.results) == 1 else f"%{number}.{value.index}"
            lines.append(f"%{number} = {self.call(node)};")
        return [*lines, self._result()]

    def _inlined_result(self) -> Node | None:
        """The last node, which stands as the body's last expression, if its result is the only output and used nowhere else."""
        outputs = self.graph.outputs
        if not self.nodes or len(outputs) != 1 or outputs[0].producer is not self.nodes[-1]:
            return None
        return None if outputs[0].uses or len(self.nodes[-1].results) != 1 else self.nodes[-1]

    def _result(self) -> str:
        names = replaced(self.graph)
        given = [self.operand(v) for v in self.graph.outputs] if self.inlined is None else [self.call(self.inlined)]
        listed = ", ".join(f"%{name_text(names[k])} = {text}" if k in names else text for k, text in enumerate(given))
        return listed if len(given) == 1 and not names else f"({listed})"

    def call(self, node: Node) -> str:
        arguments = [self.operand(v) for v in node.operands]
        callee = node.op
        if node.op_def is CALL:
            callee = f"@{name_text(node.attrs.function)}"
        else:
            arguments += _attributes(node)
        text = f"{callee}({', '.join(arguments)})"
        if node.regions:
            text += self._regions(node)
        return text + self._notes(node)

    def _regions(self, node: Node) -> str:
        labels = [*node.op_def.regions, *[f"region{k}" for k in range(len(node.op_def.regions), len(node.regions))]]
        functions = [self.printer.function(f"{n} = fn ", r, self.depth) for n, r in zip(labels, node.regions)]
        return " { " + ", ".join(functions) + " }"

    def _notes(self, node: Node) -> str:
        notes = []
        if self.printer.show_types or self.printer.differs_from_inferred(node):
            notes.append(f"ty={_type_list([v.type for v in node.results])}")
        if self.printer.show_names:
            if node.name:
                notes.append(f"name={json.dumps(node.name)}")
            if any(v.name for v in node.results):
                notes.append(f"results={json.dumps([v.name for v in node.results])}")
            if node.location not in ("", node.name):
                notes.append(f"place={json.dumps(node.location)}")
        return f" /* {' '.join(notes)} */" if notes else ""

    def operand(self, value: Value | None) -> str:
        if value is None:
            return "None"
        array = value.constant
        if array is None:
            return self.names.get(value) or f"%{name_text(f'undefined {value.name}')}"
        text = self.printer.literal(array)
        return f"{text} /* name={json.dumps(value.name)} */" if self.printer.show_names and value.name else text


def _attributes(node: Node) -> list[str]:
    """The attributes that do not have their default."""
    texts = []
    for f in dataclasses.fields(node.attrs):
        text = attribute_text(getattr(node.attrs, f.name))
        if f.default is dataclasses.MISSING or text != attribute_text(f.default):
            texts.append(f"{f.name}={text}")
    return texts


def _type_list(types: Sequence[T.Type]) -> str:
    return str(types[0]) if len(types) == 1 else f"({', '.join(map(str, types))})"


def _unique_names(values: Sequence[Value]) -> dict[Value, str]:
    """Names of parameters: their own, else ``p0``, ...; with a suffix where another parameter has it already."""
    taken: set[str] = {v.name for v in values}
    names: dict[Value, str] = {}
    used: set[str] = set()
    for number, value in enumerate(values):
        base = value.name or f"p{number}"
        name, suffix = base, 0
        while name in used or (name != value.name and name in taken):
            suffix += 1
            name = f"{base}_{suffix}"
        used.add(name)
        names[value] = name_text(name)
    return names
