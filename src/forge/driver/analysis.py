"""What is in a model: operators, parameters, arithmetic, memory, and what has no native code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from forge import dims, dtypes
from forge.dims import Dim
from forge.errors import ForgeError
from forge.ir.arrays import identity
from forge.ir.nodes import Graph, Node, Value
from forge.ir.types import TensorType
from forge.lowering.groups import form_groups
from forge.lowering.memory import materialise_outputs, plan_memory, steps_of
from forge.ops.core.op import Op


@dataclass(frozen=True)
class OperatorSummary:
    """All nodes of one operator. ``flops`` is None where it depends on symbols; then ``flops_text`` tells how."""

    name: str
    count: int
    flops: int | None
    flops_text: str
    parameters: int
    compilable: bool


@dataclass(frozen=True)
class ModelSummary:
    """Sizes are in bytes. ``arena`` is the memory for intermediate results, in text where it depends on symbols."""

    operators: tuple[OperatorSummary, ...]
    parameters: int
    parameter_bytes: int
    flops_text: str
    arena: str

    @property
    def uncompilable(self) -> list[str]:
        return [o.name for o in self.operators if not o.compilable]


def summarize(graph: Graph) -> ModelSummary:
    """Counts and costs of ``graph``, regions included; the operator with most arithmetic first (symbols count as 1)."""
    nodes = [n for n in graph.walk() if n.op != "constant"]
    by_name: dict[str, list[Node]] = {}
    for node in nodes:
        by_name.setdefault(node.op, []).append(node)
    operators = {name: _summarize_operator(name, group) for name, group in by_name.items()}
    cost = {name: at_one(_sum(map(flops_of, group))) for name, group in by_name.items()}
    constants = _constants(graph)
    total = _sum(flops_of(n) for n in nodes)
    return ModelSummary(
        tuple(sorted(operators.values(), key=lambda o: (-cost[o.name], -o.count, o.name))),
        sum(a.size for a in constants),
        sum(a.nbytes for a in constants),
        _text(total),
        _arena(graph),
    )


def flops_of(node: Node) -> Dim:
    """Arithmetic operations of one evaluation of ``node``; 0 where unknown."""
    if not isinstance(node.op_def, Op) or not all(isinstance(v.type, TensorType) for v in node.results):
        return 0
    cost: Dim = node.op_def.flops(node.operands, node.attrs, [v.tensor_type for v in node.results])
    return cost


def bytes_of(value: Value) -> Dim:
    """Bytes of a tensor; 0 of anything else."""
    if not isinstance(value.type, TensorType):
        return 0
    size: Dim = dtypes.itemsize(value.dtype)
    for extent in value.shape:
        size = size * extent
    return size


def has_native_code(node: Node) -> bool:
    """Whether the operator declares a way to native code."""
    op = node.op_def
    if not isinstance(op, Op) or op.lowering_missing:
        return False
    own = type(op)
    if op.host_routine is not None:
        return True
    return op.kernel is not None or own.lower is not Op.lower or own.decompose is not Op.decompose


def _summarize_operator(name: str, nodes: Sequence[Node]) -> OperatorSummary:
    total = _sum(flops_of(n) for n in nodes)
    parameters = sum(v.constant.size for n in nodes for v in n.operands if v is not None and v.constant is not None)
    native = all(has_native_code(n) for n in nodes)
    return OperatorSummary(name, len(nodes), total if isinstance(total, int) else None, _text(total), parameters, native)


def _sum(values: Iterable[Dim]) -> Dim:
    total: Dim = 0
    for value in values:
        total = total + value
    return total


def at_one(value: Dim) -> int:
    """``value`` with every symbol 1."""
    return dims.evaluate(value, dict.fromkeys(dims.symbols(value), 1))


def _text(value: Dim) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _constants(graph: Graph) -> list[Any]:
    found = [v.constant for n in graph.walk() for v in n.results]
    arrays = {identity(a): a for a in found if a is not None and a.dtype != object}
    return list(arrays.values())


def _arena(graph: Graph) -> str:
    try:
        copy = graph.copy()
        materialise_outputs(copy)
        size = plan_memory(copy, steps_of(form_groups(copy))).arena_size
    except ForgeError:
        return "unknown (data-dependent)"
    return _text(size)


