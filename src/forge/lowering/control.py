"""Nodes that the host runs (control flow, operators on sequences): operands, results and the programs of their regions.

The entry runs such a node through the host, on tensors whose sizes it states; what it does not know, it reads from the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from forge import dims, te
from forge.dims import Dim
from forge.errors import CompileError
from forge.ir import attributes
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Node, Value
from forge.ir.types import TensorType
from forge.lowering.memory import MemoryPlan
from forge.lowering.objects import HOSTED, KINDS, described, is_unranked_copy, runs_on_host, tensor_symbols
from forge.ops.control.control import LoopAttrs, ScanAttrs
from forge.ops.sequence.sequence import ConcatFromSequenceAttrs, SequenceMapAttrs, SplitToSequenceAttrs
from forge.tir.expr import Expr
from forge.tir.program import Control, Program
from forge.tir.stmt import Address, ControlOperand, ControlResult, LoadSymbol, MoveOutput, RunControl, Stmt

MAX_RANK = 8


@dataclass(eq=False)
class ControlStep:
    """A node, the symbols that its results introduce, and sizes that its regions use without having them from an operand."""

    node: Node
    symbols: tuple[str, ...]
    sizes: tuple[str, ...] = ()

    @property
    def operands(self) -> list[Value]:
        return [v for v in self.node.operands if v is not None]

    @property
    def name(self) -> str:
        return self.node.name or self.node.op


def introduced_symbols(graph: Graph, known: Iterable[str]) -> list[str]:
    """Symbols that nodes of ``graph`` introduce, in order."""
    have = dict.fromkeys(known)
    count = len(have)
    for node in graph.nodes:
        have.update(dict.fromkeys(s for v in node.results for s in tensor_symbols(v.type)))
    return list(have)[count:]


def find_control(graph: Graph, known: Iterable[str]) -> list[ControlStep]:
    """The nodes of ``graph`` that the host runs; their regions get inputs for sizes that they lack, behind the others.

    Raises:
        CompileError: an operator with regions, or a type, that has no native code.
    """
    have = set(known)
    found = []
    for node in graph.nodes:
        used = list(dict.fromkeys(s for v in node.results for s in tensor_symbols(v.type)))
        if runs_on_host(node):
            _check(node)
            found.append(ControlStep(node, tuple(s for s in used if s not in have), _pass_sizes(node, have)))
        have.update(used)
    return found


def find_unranked_copies(graph: Graph, found: Iterable[ControlStep]) -> list[ControlStep]:
    """Copies of tensors of unknown rank that are not yet ``found``: outputs that the host makes."""
    have = {step.node for step in found}
    return [ControlStep(n, ()) for n in graph.nodes if is_unranked_copy(n) and n not in have]


def _check(node: Node) -> None:
    where = f"compile: node {node.name or node.op} ({node.op})"
    if node.op not in HOSTED and not is_unranked_copy(node):
        raise CompileError(f"{where}: this operator has no native code; run it with target='reference'")
    for value in [*node.operands, *node.results]:
        if value is not None and isinstance(value.type, TensorType) and value.rank > MAX_RANK:
            raise CompileError(f"{where}: got {value.type}; expected at most {MAX_RANK} dimensions")
    if node.op == "loop":
        for value, dtype in zip(node.operands[:2], ("int64", "bool")):
            if value is not None and value.dtype != dtype:
                raise CompileError(f"{where}: number of trips and condition; got {value.type}; expected {dtype}")


def _pass_sizes(node: Node, known: Collection[str]) -> tuple[str, ...]:
    missing = sorted({s for region in node.regions for s in _missing(region) if s in known})
    for region in node.regions:
        for symbol in missing:
            region.add_input(size_type(symbol), f"size_{symbol}")
    return tuple(missing)


def size_type(symbol: str) -> TensorType:
    """An empty tensor that tells a size."""
    return TensorType((0, dims.symbol(symbol)), "bool")


def _missing(region: Graph) -> set[str]:
    """Symbols that ``region`` uses and does not bind."""
    used = {s for v in region.inputs for s in tensor_symbols(v.type)}
    for node in region.walk():
        used.update(s for v in node.results for s in tensor_symbols(v.type))
        used.update(attributes.symbols(node.attrs))
    return used - {dims.symbol_name(d) for v in region.inputs if isinstance(v.type, TensorType) for d in v.shape}


def control_of(step: ControlStep, regions: Sequence[Program]) -> Control:
    """What the host is told of a node."""
    node, attrs = step.node, step.node.attrs
    if isinstance(attrs, LoopAttrs):
        trips, condition = ([*node.operands, None, None][k] is not None for k in (0, 1))
        return Control(step.name, node.op, tuple(regions), attrs.num_carried, has_trips=trips, has_condition=condition)
    if isinstance(attrs, ScanAttrs):
        stacked = len(node.results) - attrs.num_states
        directions = [*(attrs.input_directions or (0,) * attrs.num_scan_inputs), *(attrs.output_directions or (0,) * stacked)]
        backwards = tuple(bool(d) for d in directions)
        return Control(step.name, node.op, tuple(regions), attrs.num_states, attrs.num_scan_inputs, backwards=backwards)
    kind = KINDS.get(node.op, "optional_get" if node.op == "copy" else node.op)
    return dataclasses.replace(Control(step.name, kind, tuple(regions)), **_options(attrs))


def _options(attrs: object) -> dict[str, Any]:
    match attrs:
        case SplitToSequenceAttrs(axis=axis, keepdims=keepdims):
            return {"axis": axis, "drops_axis": not keepdims}
        case ConcatFromSequenceAttrs(axis=axis, new_axis=new_axis):
            return {"axis": axis, "adds_axis": new_axis}
        case SequenceMapAttrs(num_sequences=count):
            return {"carried": count}
    return {}


def run_control(step: ControlStep, number: int, plan: MemoryPlan, address: Callable[[Value], Address]) -> list[Stmt]:
    """Statements that run control-flow node ``number`` of the program and bind the sizes of its results."""
    operands = [_operand(v, plan, address) for v in step.operands]
    types_ = [size_type(s) for s in step.sizes]
    operands += [ControlOperand(None, t.dtype, te.shape_of(t.shape)) for t in types_]
    results = [_result(v, _number(v, plan), step.symbols) for v in step.node.results]
    places = [plan.location(v) for v in step.node.results]
    moves = [MoveOutput(result.number, place.index) for result, place in zip(results, places) if place.base == "output"]
    return [RunControl(number, tuple(operands), tuple(results)), *_bind(step, plan), *moves]


def _number(value: Value, plan: MemoryPlan) -> int:
    """A block's number; of an output that the host makes, a number that no block has."""
    location = plan.location(value)
    return -1 - location.index if location.base == "output" else location.index


def _operand(value: Value, plan: MemoryPlan, address: Callable[[Value], Address]) -> ControlOperand:
    dtype, shape = described(value)
    if shape is None:
        return ControlOperand(None, dtype, (), plan.location(value).index)
    return ControlOperand(address(value), dtype, te.shape_of(shape))


def _result(value: Value, number: int, fresh: Collection[str]) -> ControlResult:
    def wanted(extent: Dim) -> Expr | None:
        return te.dim(extent) if set(dims.symbols(extent)).isdisjoint(fresh) else None

    dtype, shape = described(value)
    return ControlResult(number, dtype, None if shape is None else tuple(map(wanted, shape)))


def _bind(step: ControlStep, plan: MemoryPlan) -> list[Stmt]:
    places: dict[str, Address] = {}
    for value in step.node.results:
        for axis, extent in enumerate(described(value)[1] or ()):
            base = ("shape", plan.location(value).index)
            name = dims.symbol_name(extent)
            if name is not None:
                places.setdefault(name, Address(base, te.dim(8 * axis)))
    unbound = [s for s in step.symbols if s not in places]
    if unbound:
        raise CompileError(f"compile: node {step.name} ({step.node.op}): the size {unbound[0]!r} is no dimension of a result")
    return [LoadSymbol(te.symbol_var(s), places[s]) for s in step.symbols]


def straighten_scans(graph: Graph) -> None:
    """Makes every scan of ``graph`` run along first dimensions, with transposes around it."""
    for node in list(graph.nodes):
        if isinstance(node.attrs, ScanAttrs) and (node.attrs.input_axes or node.attrs.output_axes):
            _straighten(graph, node, node.attrs)


def _straighten(graph: Graph, node: Node, attrs: ScanAttrs) -> None:
    first = attrs.num_states
    builder = Builder(graph, node, node.location)
    operands = list(node.operands)
    for k, axis in enumerate(attrs.input_axes or ()):
        value = operands[first + k]
        assert value is not None
        operands[first + k] = _transposed(builder, value, _to_front(axis % value.rank, value.rank))
    axes = {first + k: axis for k, axis in enumerate(attrs.output_axes or ())}
    kept = dataclasses.replace(attrs, input_axes=None, output_axes=None)
    result_types = [_moved(v, axes.get(k, 0)) for k, v in enumerate(node.results)]
    straight = Node(node.op_def, operands, kept, result_types, node.regions, node.name, node.location)
    graph.insert(straight, node)
    for k, (old, new) in enumerate(zip(node.results, straight.results)):
        order = _to_front(axes[k] % old.rank, old.rank) if k in axes else tuple(range(old.rank))
        replacement = _transposed(builder, new, tuple(order.index(d) for d in range(old.rank)))
        replacement.name = old.name
        graph.replace_uses(old, replacement)
    graph.remove(node)


def _to_front(axis: int, rank: int) -> tuple[int, ...]:
    return (axis, *(d for d in range(rank) if d != axis))


def _moved(value: Value, axis: int) -> TensorType:
    order = _to_front(axis % value.rank, value.rank) if value.rank else ()
    return TensorType(tuple(value.shape[d] for d in order), value.dtype)


def _transposed(builder: Builder, value: Value, order: tuple[int, ...]) -> Value:
    return value if order == tuple(range(len(order))) else builder.call("transpose", value, axes=order)
