"""What is in a model: operators, parameters, arithmetic, memory, and what has no native code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forge import dims, dtypes
from forge.dims import Dim
from forge.errors import ForgeError
from forge.ir.arrays import identity
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.types import TensorType
from forge.lowering.groups import form_groups
from forge.lowering.memory import materialize_outputs, plan_memory, steps_of
from forge.ops.control.external import external_functions
from forge.ops.control.registered import registered_functions
from forge.ops.core.op import Op


@dataclass(frozen=True)
class OperatorSummary:
    """All nodes of one operator."""

    name: str
    count: int
    flops: Dim
    parameters: int
    compilable: bool


@dataclass(frozen=True)
class ModelSummary:
    """Sizes are in bytes. ``arena`` is the memory for intermediate results, or a text where it cannot be known."""

    operators: tuple[OperatorSummary, ...]
    parameters: int
    parameter_bytes: int
    flops: Dim
    arena: Dim | str
    registered: tuple[str, ...]  # names of the registered functions that it calls
    external: tuple[str, ...] = ()  # names of the user's functions in C or C++ that it calls

    @property
    def uncompilable(self) -> list[str]:
        return [o.name for o in self.operators if not o.compilable]


def summarize(graph: Graph) -> ModelSummary:
    """Counts and costs of ``graph``, regions included; the operator with most arithmetic first (symbols count as 1)."""
    by_name: dict[str, list[Node]] = {}
    for node in graph.walk():
        if node.op != "constant":
            by_name.setdefault(node.op, []).append(node)
    operators = [_summarize_operator(name, nodes) for name, nodes in by_name.items()]
    operators.sort(key=lambda o: (-at_one(o.flops), -o.count, o.name))
    constants = [*_constants(graph), *graph.params.values()]
    parameters, parameter_bytes = sum(a.size for a in constants), sum(a.nbytes for a in constants)
    flops, external = sum(o.flops for o in operators), tuple(sorted(set(external_functions(graph))))
    registered = tuple(registered_functions(graph))
    return ModelSummary(tuple(operators), parameters, parameter_bytes, flops, _arena(graph), registered, external)


def flops_of(node: Node) -> Dim:
    """Arithmetic operations of one evaluation of ``node``; 0 where unknown."""
    if not isinstance(node.op_def, Op) or not all(isinstance(v.type, TensorType) for v in node.results):
        return 0
    operands = node.op_def.arguments(node.operands)
    cost: Dim = node.op_def.flops(node.attrs, [v.tensor_type for v in node.results], *operands)
    return cost


def bytes_of(value: Value) -> Dim:
    """Bytes of a tensor; 0 of anything else."""
    if not isinstance(value.type, TensorType):
        return 0
    return dtypes.itemsize(value.dtype) * dims.product(value.shape)


def has_native_code(node: Node) -> bool:
    """Whether the operator declares a way to native code."""
    op = node.op_def
    if not isinstance(op, Op) or op.lowering_missing:
        return False
    is_built = type(op).lower is not Op.lower or type(op).decompose is not Op.decompose
    return is_built or op.kernel is not None or op.host_routine is not None


def _summarize_operator(name: str, nodes: Sequence[Node]) -> OperatorSummary:
    parameters = sum(v.constant.size for n in nodes for v in n.operands if v is not None and v.constant is not None)
    return OperatorSummary(name, len(nodes), sum(map(flops_of, nodes)), parameters, all(map(has_native_code, nodes)))


def at_one(value: Dim) -> int:
    """``value`` with every symbol 1."""
    return dims.evaluate(value, dict.fromkeys(dims.symbols(value), 1))


def _constants(graph: Graph) -> list[Any]:
    found = [v.constant for n in graph.walk() for v in n.results]
    arrays = {identity(a): a for a in found if a is not None and a.dtype != object}
    return list(arrays.values())


def _arena(graph: Graph) -> Dim | str:
    try:
        copy = graph.copy()
        materialize_outputs(copy)
        return plan_memory(copy, steps_of(form_groups(copy))).arena_size
    except ForgeError:
        return "unknown (data-dependent)"
