"""A program of TensorFlow as records: graphs of nodes, and the functions that these call.

Inputs of nodes are node and number of output everywhere. Function bodies, which name outputs (``node:values:0``), are resolved
by what operators say of their outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from forge.errors import ImportModelError
from forge.frontends.tensorflow.messages import dtype_of
from forge.frontends.tensorflow.tensors import array_of

Ref = tuple[str, int]
"""A node's name, and the number of its output."""
Shape = tuple[int | None, ...] | None
"""None for sizes that are not known, or for a rank that is not."""
MAX_NODES = 1 << 22
PLACEHOLDERS = ("Placeholder", "PlaceholderV2")
ITERATOR = "IteratorGetNext"
"""What gives the next data that a graph computes with: inputs, as placeholders are."""
_LAST_WITHOUT_SCALARS = 21
"""Version of graphs up to which a placeholder of rank 0 is one whose rank is not known."""


@dataclass(frozen=True)
class FunctionName:
    """A function as an attribute, with the attributes that it is called with."""

    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    """An operator in a graph.

    Attributes:
        controls: names of nodes that run before.
        types: attributes that are element types, or lists of these; all others are in ``attributes``.
    """

    name: str
    op: str
    inputs: tuple[Ref, ...]
    controls: tuple[str, ...]
    attributes: Mapping[str, Any]
    types: Mapping[str, Any]


@dataclass(frozen=True)
class Argument:
    """An argument of a function; ``dtype`` is empty where its type is one of an attribute."""

    name: str
    dtype: str
    shape: Shape = None


@dataclass(frozen=True)
class Body:
    """The graph of a model, or of a function.

    Attributes:
        results: outputs of a function by name.
        effects: nodes that run though nothing reads them.
    """

    name: str
    nodes: Mapping[str, Node]
    arguments: tuple[Argument, ...] = ()
    results: Mapping[str, Ref] = field(default_factory=dict)
    effects: tuple[str, ...] = ()

    @cached_property
    def read(self) -> frozenset[Ref]:
        """Outputs of nodes that others read, or that are results."""
        return frozenset([*self.results.values(), *(ref for node in self.nodes.values() for ref in node.inputs)])

    @cached_property
    def users(self) -> Mapping[str, tuple[str, ...]]:
        """Names of nodes -> those that read them, or run after them."""
        found: dict[str, dict[str, None]] = {}
        for node in self.nodes.values():
            for name in (*(ref[0] for ref in node.inputs), *node.controls):
                found.setdefault(name, {})[node.name] = None
        return {name: tuple(readers) for name, readers in found.items()}

    def node(self, name: str) -> Node:
        """Raises ImportModelError: there is none."""
        if name not in self.nodes:
            raise ImportModelError(f"node {name!r} is read, and there is none in {self.name!r}; the model is invalid")
        return self.nodes[name]


@dataclass(frozen=True)
class Tensor:
    """What a signature says of an input or output: the name of a tensor, its type and sizes."""

    ref: Ref
    dtype: str
    shape: Shape


@dataclass(frozen=True)
class Signature:
    """A function that a model offers."""

    name: str
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]


@dataclass
class TensorFlowModel:
    """A program.

    Attributes:
        where: what it is called in messages.
        main: its graph, outside of functions.
        signatures: what a SavedModel offers, the one to serve first.
        variables: contents of variables by what handles call them, read when they are first used.
        folder: of the file, for assets; None where there is none.
        effects: nodes of the main graph that run though nothing reads them.
    """

    where: str
    main: Body
    library: Mapping[str, Any]
    signatures: tuple[Signature, ...] = ()
    variables: Mapping[str, Callable[[], np.ndarray]] = field(default_factory=dict)
    folder: Any = None
    effects: tuple[str, ...] = ()
    _bodies: dict[str, Body] = field(default_factory=dict)

    def function(self, name: str) -> Body:
        """The body of a function.

        Raises:
            ImportModelError: there is none.
        """
        if name not in self._bodies:
            if name not in self.library:
                raise ImportModelError(f"function {name!r} is called, and the model does not have it; the model is invalid")
            self._bodies[name] = read_function(self.library[name], self.library)
        return self._bodies[name]

    @cached_property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.main.nodes) + sum(len(f.node_def) for f in self.library.values())


_PRINTS, _ASSERT = ("PrintV2", "LogicalPrint"), "Assert"


def read(body: Body, node: Node) -> tuple[Ref, ...]:
    """Inputs of a node that count: texts that it shows are left out, but for constants of an assertion."""
    if node.op in _PRINTS:
        return ()
    if node.op == _ASSERT:
        constants = [ref for ref in node.inputs[1:] if ref[0] in body.nodes and body.nodes[ref[0]].op == "Const"]
        return (*node.inputs[:1], *constants)
    return node.inputs


def needs(body: Body, node: Node) -> list[str]:
    """Names of nodes that are converted before one."""
    before = () if node.op == "Const" else node.controls
    return [*before, *(ref[0] for ref in read(body, node))]


def read_graph(graph: Any, name: str = "graph") -> Body:
    """The nodes of a ``GraphDef``."""
    nodes: dict[str, Node] = {}
    is_old = graph.versions.producer <= _LAST_WITHOUT_SCALARS
    for node in graph.node:
        data, controls = _split(node.input)
        _add(nodes, node, tuple(_numbered(text) for text in data), controls)
        if is_old and node.op in PLACEHOLDERS and not nodes[node.name].attributes.get("shape"):
            nodes[node.name] = replace(nodes[node.name], attributes={**nodes[node.name].attributes, "shape": None})
    return Body(name, nodes)


def read_function(function: Any, library: Mapping[str, Any]) -> Body:
    """The body of a ``FunctionDef``."""
    from forge.frontends.tensorflow.registry import OUTPUTS

    name = function.signature.name
    arguments = tuple(
        Argument(a.name, dtype_of(a.type) if a.type else "", _argument_shape(function, k))
        for k, a in enumerate(function.signature.input_arg))
    own = {a.name for a in arguments}
    starts: dict[str, Mapping[str, int] | None] = {}
    for node in function.node_def:
        known = library[node.op].signature.output_arg if node.op in library else None
        declared = [_declared(arg) for arg in known] if known is not None else OUTPUTS.get(node.op)
        starts[node.name] = None if declared is None else _starts(declared, node)

    def resolved(text: str) -> Ref:
        parts = text.split(":")
        if len(parts) == 1 or parts[0] in own and parts[0] not in starts:
            return parts[0], 0
        if len(parts) != 3 or not parts[2].isdigit():
            raise ImportModelError(f"function {name!r} reads {text!r}; expected node:output:number; the model is invalid")
        places = starts.get(parts[0])
        if places is not None and parts[1] not in places:
            raise ImportModelError(
                f"function {name!r} reads {text!r}; {parts[0]!r} has the outputs {', '.join(places)}; the model is invalid")
        return parts[0], (0 if places is None else places[parts[1]]) + int(parts[2])

    nodes: dict[str, Node] = {}
    for node in function.node_def:
        data, controls = _split(node.input)
        _add(nodes, node, tuple(resolved(text) for text in data), controls)
    results = {}
    for arg in function.signature.output_arg:
        if arg.name not in function.ret:
            raise ImportModelError(f"function {name!r}: nothing gives its result {arg.name!r}; the model is invalid")
        results[arg.name] = resolved(function.ret[arg.name])
    effects = tuple(dict.fromkeys(function.control_ret.values()))
    return Body(name, nodes, arguments, results, effects)


def _declared(arg: Any) -> tuple[str, str]:
    return arg.name, arg.number_attr or arg.type_list_attr


def _starts(declared: Sequence[tuple[str, str]], node: Any) -> dict[str, int]:
    """Where each named output of a node begins among its outputs."""
    found, total = {}, 0
    for name, counted_by in declared:
        found[name] = total
        if not counted_by:
            total += 1
        else:
            attribute = node.attr[counted_by]
            total += len(attribute.list.type) if attribute.WhichOneof("value") == "list" else max(attribute.i, 0)
    return found


def _argument_shape(function: Any, position: int) -> Shape:
    if position not in function.arg_attr:
        return None
    shapes = function.arg_attr[position].attr.get("_output_shapes")
    return shape_of(shapes.list.shape[0]) if shapes is not None and shapes.list.shape else None


def _split(inputs: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Names of tensors, and of nodes that only run before."""
    return [i for i in inputs if not i.startswith("^")], tuple(i[1:].partition(":")[0] for i in inputs if i.startswith("^"))


def _numbered(text: str) -> Ref:
    name, _, number = text.partition(":")
    return name, int(number) if number.isdigit() else 0


def parse_ref(text: str) -> Ref:
    """``name`` or ``name:i``."""
    name, colon, number = text.rpartition(":")
    return (name, int(number)) if colon and number.isdigit() else (text, 0)


def _add(nodes: dict[str, Node], node: Any, inputs: tuple[Ref, ...], controls: tuple[str, ...]) -> None:
    if node.name in nodes:
        raise ImportModelError(f"node {node.name!r} is there twice; expected names of their own; the model is invalid")
    if len(nodes) >= MAX_NODES:
        raise ImportModelError(f"got more than {MAX_NODES} nodes; expected fewer")
    attributes: dict[str, Any] = {}
    types: dict[str, Any] = {}
    for name, value in node.attr.items():
        if not name.startswith("_"):
            _decode(name, value, attributes, types)
    nodes[node.name] = Node(node.name, node.op, inputs, controls, attributes, types)


def _decode(name: str, value: Any, attributes: dict[str, Any], types: dict[str, Any]) -> None:
    kind = value.WhichOneof("value")
    if kind == "type":
        types[name] = _dtype_name(value.type)
    elif kind == "list" and value.list.type:
        types[name] = tuple(_dtype_name(number) for number in value.list.type)
    elif kind == "list":
        lists = value.list
        attributes[name] = (
            tuple(lists.i) or tuple(lists.f) or tuple(lists.b) or tuple(_text(s) for s in lists.s)
            or tuple(shape_of(s) for s in lists.shape) or tuple(_function(f) for f in lists.func)
            or tuple(array_of(t) for t in lists.tensor))
    elif kind is not None:
        decode = _DECODERS.get(kind)
        attributes[name] = getattr(value, kind) if decode is None else decode(getattr(value, kind))


def _dtype_name(number: int) -> str:
    """Of types that no tensor here can have, the number: only readers of them mind."""
    try:
        return dtype_of(number)
    except ImportModelError:
        return f"type {number}"


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def _function(value: Any) -> FunctionName:
    attributes: dict[str, Any] = {}
    for name, given in value.attr.items():
        _decode(name, given, attributes, attributes)
    return FunctionName(value.name, attributes)


def shape_of(shape: Any) -> Shape:
    """A ``TensorShapeProto``."""
    if shape.unknown_rank:
        return None
    return tuple(None if d.size < 0 else d.size for d in shape.dim)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "s": _text, "shape": shape_of, "tensor": lambda value: Constant(value), "func": _function}


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor in a model, decoded when it is read."""

    message: Any

    def array(self) -> np.ndarray:
        """Raises ImportModelError: it is not valid."""
        return array_of(self.message)
