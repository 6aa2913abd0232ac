"""Sequences and optionals in native code.

Each is a handle of fixed size, which lies where a tensor of one element would. The host runs the operators that make and read
them, in the way it runs control flow; what a handle refers to is the host's.
"""

from __future__ import annotations

from collections.abc import Iterable

from forge import dims
from forge.dims import Dim
from forge.errors import CompileError
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.types import OptionalType, SequenceType, TensorType, Type, UnrankedType
from forge.tir import expr as E
from forge.tir.expr import Buffer
from forge.tir.library import TensorSpec
from forge.tir.stmt import Function, seq, store

HANDLE_BYTES = 24  # forge_sequence

_NO_CODE = "expected a tensor of known rank, a sequence or an optional; run it with target='reference'"


def is_sequence(type_: Type) -> bool:
    """Returns whether a handle stands for values of the type."""
    return isinstance(type_, SequenceType | OptionalType)


def runs_on_host(node: Node) -> bool:
    """Returns whether the entry asks the host to run the node: control flow, and operators on sequences and optionals."""
    return bool(node.regions) or node.op_def.host_routine is not None or is_unranked_copy(node)


def place_of(node: Node) -> str:
    """Returns the name of a node, or of a result, and in which part of the model it is."""
    name = next((n for n in (node.name, *(v.name for v in node.results)) if n), node.op)
    return name if not node.location or node.location.endswith(name) else f"{name} in {node.location}"


def says_place(node: Node) -> bool:
    """Returns whether compiled models say where the node is, which is then part of their code."""
    return runs_on_host(node) or node.op_def.says_place


def is_handle_copy(node: Node) -> bool:
    """Returns whether the node copies a sequence or an optional."""
    return node.op_def.is_identity and is_sequence(node.result.type)


def is_unranked_copy(node: Node) -> bool:
    """Returns whether the node copies a tensor of unknown rank."""
    return node.op_def.is_identity and isinstance(node.result.type, UnrankedType)


def described(value: Value) -> tuple[str, tuple[Dim, ...] | None]:
    """Returns the element type and sizes of what stands for the value; no sizes: any rank.

    Raises:
        CompileError: nothing does.
    """
    match value.type:
        case TensorType(shape=shape, dtype=dtype):
            return dtype, shape
        case UnrankedType(dtype=dtype):
            return dtype, None
        case SequenceType():
            return "sequence", ()
        case OptionalType():
            return "optional", ()
    raise CompileError(f"compile: value %{value.name}: got {value.type}; {_NO_CODE}")


def tensor_symbols(type_: Type) -> list[str]:
    """Returns the symbols of a tensor's sizes; those of elements of sequences mean nothing outside of their type."""
    return dims.symbols(*type_.shape) if isinstance(type_, TensorType) else []


def fresh_symbols(graph: Graph, known: Iterable[str]) -> dict[Node, tuple[str, ...]]:
    """Returns, for each node, the symbols that its results introduce."""
    have, found = set(known), {}
    for node in graph.nodes:
        found[node] = tuple(dict.fromkeys(s for v in node.results for s in tensor_symbols(v.type) if s not in have))
        have.update(found[node])
    return found


def object_spec(type_: Type, name: str) -> TensorSpec:
    """Returns the spec of an input or output that is not a tensor of known rank; symbolic sizes of elements are any: -1."""
    match type_:
        case SequenceType(element=element):
            return TensorSpec(name, "sequence", (), object_spec(element, f"{name} (element)"))
        case OptionalType(element=element):
            return TensorSpec(name, "optional", (), object_spec(element, f"{name} (value)"))
        case TensorType(shape=shape, dtype=dtype):
            return TensorSpec(name, dtype, tuple(E.const(d if isinstance(d, int) else -1) for d in shape))
        case UnrankedType(dtype=dtype):
            return TensorSpec(name, dtype, (), has_rank=False)
    raise CompileError(f"compile: {name}: got {type_}; {_NO_CODE}")


def copy_handle() -> Function:
    """Returns the kernel that copies a handle."""
    words = E.const(HANDLE_BYTES // 8)
    source, target = Buffer("source", "int64", (words,), writable=False), Buffer("target", "int64", (words,))
    body = seq(store(target, k, E.load(source, k)) for k in range(HANDLE_BYTES // 8))
    return Function("copy_handle", (source, target), (), body)


def check_types(values: list[Value]) -> None:
    """Refuses what has no native code.

    Raises:
        CompileError: an object, or a tensor of unknown rank that a kernel would read.
    """
    for value in values:
        if is_sequence(value.type) or isinstance(value.type, TensorType):
            continue
        node = value.producer
        where = f"input %{value.name}" if node is None else f"node {node.name or node.op} ({node.op})"
        reader = next((n for n, _ in value.uses if n.regions or not runs_on_host(n)), None)
        if isinstance(value.type, UnrankedType) and node is not None and runs_on_host(node) and reader is None:
            continue
        needs = "" if reader is None else f"; node {reader.name or reader.op} ({reader.op}) needs to know its rank"
        raise CompileError(f"compile: {where}: got {value.type}{needs}; {_NO_CODE}")
