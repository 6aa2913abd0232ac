"""Nodes that the host runs (control flow, operators on sequences): operands, results and the programs of their regions.

The entry runs such a node through the host, on tensors whose sizes it states; what it does not know, it reads from the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from forge import dims, te
from forge.dims import Dim
from forge.errors import CompileError
from forge.ir import attributes
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.types import TensorType
from forge.lowering.memory import Location, MemoryPlan
from forge.lowering.objects import described, is_unranked_copy, place_of, runs_on_host, tensor_symbols
from forge.ops.core.op import Op
from forge.tir.expr import Expr
from forge.tir.library import Control, Program
from forge.tir.stmt import Address, ControlOperand, ControlResult, LoadSymbol, MoveOutput, RunControl, Stmt

MAX_RANK = 8
_COPY = "optional_get"
"""The host's routine that copies a tensor of unknown rank."""


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


def find_control(fresh: Mapping[Node, tuple[str, ...]], known: Iterable[str]) -> list[ControlStep]:
    """Returns the nodes that the host runs, of ``fresh``: nodes and the symbols that they introduce.

    Their regions get inputs for sizes that they lack, after the others.

    Raises:
        CompileError: an operator with regions, or a type, that has no native code.
    """
    have = set(known)
    found = []
    for node, symbols in fresh.items():
        if runs_on_host(node):
            _check(node)
            found.append(ControlStep(node, symbols, _pass_sizes(node, have)))
        have.update(symbols)
    return found


def find_unranked_copies(graph: Graph, found: Iterable[ControlStep]) -> list[ControlStep]:
    """Copies of tensors of unknown rank that are not yet ``found``: outputs that the host makes."""
    have = {step.node for step in found}
    return [ControlStep(n, ()) for n in graph.nodes if is_unranked_copy(n) and n not in have]


def _check(node: Node) -> None:
    where = f"compile: node {node.name or node.op} ({node.op})"
    if node.op_def.host_routine is None and not is_unranked_copy(node):
        raise CompileError(f"{where}: this operator has no native code; run it with target='reference'")
    for value in [*node.operands, *node.results]:
        if value is not None and isinstance(value.type, TensorType) and value.rank > MAX_RANK:
            raise CompileError(f"{where}: got {value.type}; expected at most {MAX_RANK} dimensions")


def _pass_sizes(node: Node, known: Collection[str]) -> tuple[str, ...]:
    missing = sorted({s for region in node.regions for s in _missing(region) if s in known})
    for region in node.regions:
        for symbol in missing:
            region.add_input(size_type(symbol), f"size_{symbol}")
    return tuple(missing)


def size_type(symbol: str) -> TensorType:
    """Returns an empty tensor whose shape gives a size."""
    return TensorType((0, dims.symbol(symbol)), "bool")


def _missing(region: Graph) -> set[str]:
    """Symbols that ``region`` uses and does not bind."""
    used = {s for v in region.inputs for s in tensor_symbols(v.type)}
    for node in region.walk():
        used.update(s for v in node.results for s in tensor_symbols(v.type))
        used.update(attributes.symbols(node.attrs))
    return used - {dims.symbol_name(d) for v in region.inputs if isinstance(v.type, TensorType) for d in v.shape}


def control_of(step: ControlStep, regions: Sequence[Program]) -> Control:
    """Returns the facts that the host needs about a node."""
    op = step.node.op_def
    options = op.host_options(step.node) if isinstance(op, Op) else {}
    return Control(place_of(step.node), op.host_routine or _COPY, tuple(regions), **options)


def run_control(step: ControlStep, number: int, plan: MemoryPlan, address: Callable[[Value], Address]) -> list[Stmt]:
    """Returns statements that run control-flow node ``number`` of the program and bind the sizes of its results."""
    operands = [_operand(v, plan, address) for v in step.operands]
    types_ = [size_type(s) for s in step.sizes]
    operands += [ControlOperand(None, t.dtype, te.shape_of(t.shape)) for t in types_]
    if step.node.op_def.destination_passing:
        written = [ControlResult(k, v.dtype, te.shape_of(v.shape), address(v)) for k, v in enumerate(step.node.results)]
        return [RunControl(number, tuple(operands), tuple(written))]
    places = [plan.location(v) for v in step.node.results]
    results = [_result(v, place, step.symbols) for v, place in zip(step.node.results, places)]
    moves = [MoveOutput(result.number, place.index) for result, place in zip(results, places) if place.base == "output"]
    return [RunControl(number, tuple(operands), tuple(results)), *_bind(step, plan), *moves]


def _operand(value: Value, plan: MemoryPlan, address: Callable[[Value], Address]) -> ControlOperand:
    dtype, shape = described(value)
    if shape is None:
        return ControlOperand(None, dtype, (), plan.location(value).index)
    return ControlOperand(address(value), dtype, te.shape_of(shape))


def _result(value: Value, place: Location, fresh: Collection[str]) -> ControlResult:
    """Its number is that of its block; of an output that the host makes, one that no block has."""

    def wanted(extent: Dim) -> Expr | None:
        return te.dim(extent) if set(dims.symbols(extent)).isdisjoint(fresh) else None

    dtype, shape = described(value)
    number = -1 - place.index if place.base == "output" else place.index
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
        raise CompileError(f"compile: node {step.name} ({step.node.op}): the size {unbound[0]!r} is not a dimension of a result")
    return [LoadSymbol(te.symbol_var(s), places[s]) for s in step.symbols]


def legalize(graph: Graph) -> None:
    """Puts what native code has in the place of nodes in other forms (``Op.legalize``)."""
    for node in list(graph.nodes):
        values = node.op_def.legalize(Builder(graph, node, node.location), node) if isinstance(node.op_def, Op) else None
        if values is None:
            continue
        for old, new in zip(node.results, values, strict=True):
            new.name = old.name
            graph.replace_uses(old, new)
        graph.remove(node)
