"""Functions, branches, loops, variables, tables and what has no meaning for results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims
from forge.compose.checks import check_that
from forge.compose.lookup import mapped
from forge.frontends.control import build_region, choose, repeat
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.importer import called
from forge.frontends.tensorflow.model import Body, FunctionName, Ref
from forge.frontends.tensorflow.registry import converts, takes_handles
from forge.frontends.tensorflow.resources import TABLES, VARIABLES, Operand, PendingList, Resource, writes
from forge.frontends.tensorflow.restore import variable_name
from forge.ir.nodes import Value
from forge.ir.types import TensorType, symbols


@converts("PartitionedCall", "StatefulPartitionedCall", outputs="output*Tout")
@takes_handles
def call(g: Context, *inputs: Operand, f: Any) -> list[Operand]:
    return called(g, f, inputs)


def _written(g: Context, *functions: FunctionName) -> list[str]:
    """Labels of variables that functions may write, in an order of their own."""
    known = g.scope.state.resources
    if not writes(g.scope.state.model, *(f.name for f in functions)):
        return []
    return [label for label in sorted(known.written) if label in known.types]


@converts("If", "StatelessIf", outputs="output*Tout")
@takes_handles
def if_(g: Context, condition: Operand, *inputs: Operand, then_branch: Any, else_branch: Any) -> list[Operand]:
    flag = _truth(g, g.tensor(condition))
    return choose(g, flag, (then_branch, else_branch), inputs, called, _written(g, then_branch, else_branch))


def _truth(g: Context, value: Value) -> Value:
    """Of a number, whether it is not 0; of a tensor, whether it has elements."""
    if value.rank:
        count = dims.product(value.shape)
        return g.call("not_equal", g.size(count), g.constant(0, "int64"))
    return value if value.dtype == "bool" else g.call("not_equal", value, g.scalar(0, value))


@converts("Case", "StatelessCase", outputs="output*Tout")
@takes_handles
def case(g: Context, index: Operand, *inputs: Operand, branches: tuple[Any, ...]) -> list[Operand]:
    if not branches:
        raise g.invalid("got no branches; expected one or more")
    return choose(g, g.tensor(index), branches, inputs, called, _written(g, *branches))


@converts("While", "StatelessWhile", outputs="output*T")
@takes_handles
def while_(g: Context, *inputs: Operand, cond: Any, body: Any) -> list[Operand]:
    graph = g.scope.state.model.function(body.name)
    results = list(graph.results.values())
    if not len(graph.arguments) == len(results) == len(inputs):
        raise g.invalid(f"got {len(graph.arguments)} arguments and {len(results)} results of the body; expected {len(inputs)}")
    kept = [_origin(graph, ref) == (argument.name, 0) for argument, ref in zip(graph.arguments, results)]
    written = _written(g, cond, body)
    operands = settled(g, inputs, lambda inner, given: called(inner, body, given), written)
    return repeat(g, operands, cond, body, lambda inner, f, given: _flagged(inner, f, given, cond), written, kept)


def _flagged(g: Context, function: Any, operands: Sequence[Operand], cond: Any) -> list[Operand]:
    found = called(g, function, operands)
    return [_truth(g, g.tensor(found[0]))] if function is cond and len(found) == 1 else found


def _origin(body: Body, ref: Ref) -> Ref:
    """Where a value comes from that is passed on unchanged."""
    for _ in range(len(body.nodes)):
        node = body.nodes.get(ref[0])
        if node is None or node.op != "Identity" or len(node.inputs) != 1:
            break
        ref = node.inputs[0]
    return ref


def settled(g: Context, operands: Sequence[Operand], body: Any, written: Sequence[str] = ()) -> list[Operand]:
    """What a loop begins with, lists without elements as tensors of the sizes that the first round gives them."""
    pending = {k: operand for k, operand in enumerate(operands) if isinstance(operand, PendingList)}
    if not pending:
        return list(operands)
    types: list[Any] = []

    def first_round(inner: Context, arguments: list[Value]) -> list[Value]:
        carried = iter(arguments)
        given = [next(carried) if isinstance(v, Value) else v for v in operands]
        types.extend(v.type if isinstance(v, Value) else v for v in body(inner, given))
        return []

    build_region(g, [v.type for v in operands if isinstance(v, Value)], first_round)
    found, known = list(operands), _known_symbols(g)
    for k, operand in pending.items():
        if isinstance(types[k], TensorType):
            if not known.issuperset(dims.symbols(*types[k].shape[1:])):
                raise g.unsupported(
                    f"sizes {types[k].shape[1:]} of a list's elements are computed in the loop; expected elements of one shape")
            found[k] = allocated(g, operand, types[k].shape[1:])
    return found


def _known_symbols(g: Context) -> set[str]:
    """Symbols of sizes that what is converted may use."""
    found, scope = set[str](), g.scope
    while True:
        graph = scope.graph
        for value in (*graph.inputs, *(result for node in graph.nodes for result in node.results)):
            found.update(symbols(value.type))
        if scope.parent is None:
            return found
        scope = scope.parent


def allocated(g: Context, pending: PendingList, shape: Sequence[Any]) -> Value:
    """A list as a tensor of zeros."""
    zero = g.constant(False if pending.dtype == "bool" else 0, pending.dtype)
    if isinstance(pending.count, Value):
        count = g.cast(g.reshape(pending.count, ()), "int64")
        size = g.scope.counted(g, count)
        return g.call("full", zero, shape=(size, *shape)) if isinstance(size, int) else _sized(g, zero, count, size, shape)
    return g.call("full", zero, shape=(pending.count, *shape))


def _sized(g: Context, zero: Value, count: Value, size: Any, shape: Sequence[Any]) -> Value:
    rows = g.reshape(g.cast(g.count(count, size), zero.dtype), (size, *(1,) * len(shape)))
    zeros = g.call("zeros_like", rows)
    return g.call("broadcast_to", zeros, shape=(size, *shape))


@converts(*VARIABLES)
@takes_handles
def variable(g: Context, *, shape: Any = None, dtype: str = "float32") -> Resource:
    name = variable_name(g.node)
    known = g.scope.state.resources
    if shape is not None and None not in shape:
        known.types.setdefault(name, TensorType(tuple(shape), dtype))
    return Resource(name, "reference" if g.node.op.startswith("Variable") else "variable")


def _variable(g: Context, handle: Operand) -> str:
    if not isinstance(handle, Resource) or handle.kind == "table":
        raise g.invalid("got a tensor or a table; expected a variable")
    return handle.name


@converts("ReadVariableOp", "ResourceGatherNdRead", "_ReadVariablesOp")
@takes_handles
def read_variable(g: Context, handle: Operand) -> Value:
    return g.scope.variable(_variable(g, handle))


@converts("VarIsInitializedOp", "IsVariableInitialized")
@takes_handles
def is_initialized(g: Context, handle: Operand) -> Value:
    return g.constant(True, "bool")


@converts("VariableShape")
@takes_handles
def variable_shape(g: Context, handle: Operand, *, out_type: str = "int32") -> Value:
    return g.call("shape_of", g.scope.variable(_variable(g, handle)), dtype=out_type)


_STEPS = {"Add": "add", "Sub": "subtract"}


@converts("AssignVariableOp", "Assign", "AssignAddVariableOp", "AssignSubVariableOp", "AssignAdd", "AssignSub")
@takes_handles
def assign(g: Context, handle: Operand, value: Operand) -> list[Operand]:
    label, given = _variable(g, handle), g.tensor(value)
    step = _STEPS.get(g.node.op.removeprefix("Assign")[:3])
    if step is not None:
        given = g.call(step, g.scope.variable(label), given)
    g.scope.set_variable(label, given)
    return [handle]


_SCATTERS = {"Update": "update", "Add": "add", "Mul": "mul", "Max": "max", "Min": "min"}


@converts(*(f"{prefix}Scatter{kind}" for prefix in ("Resource", "") for kind in _SCATTERS))
@takes_handles
def scatter(g: Context, handle: Operand, indices: Operand, updates: Operand) -> list[Operand]:
    label = _variable(g, handle)
    before, places, rows = g.scope.variable(label), g.tensor(indices), g.tensor(updates)
    kind = _SCATTERS[g.node.op.rpartition("Scatter")[2]]
    rows = rows if rows.rank else g.broadcast(rows, (*places.shape, *before.shape[1:]))
    tuples = g.reshape(g.cast(places, "int64"), (1, *places.shape))
    g.scope.set_variable(label, g.call("scatter_nd", before, tuples, rows, mode=kind))
    return [handle]


@converts(
    "ResourceScatterNdUpdate", "ResourceScatterNdAdd", "ResourceScatterNdMin", "ResourceScatterNdMax", "ScatterNdUpdate",
    "ScatterNdAdd")
@takes_handles
def scatter_nd(g: Context, handle: Operand, indices: Operand, updates: Operand) -> list[Operand]:
    label, places = _variable(g, handle), g.cast(g.tensor(indices), "int64")
    tuples = g.moved(places, (places.rank - 1, *range(places.rank - 1)))
    kind = _SCATTERS[g.node.op.rpartition("Nd")[2]]
    g.scope.set_variable(label, g.call("scatter_nd", g.scope.variable(label), tuples, g.tensor(updates), mode=kind))
    return [handle]


@converts("ResourceGather")
@takes_handles
def resource_gather(g: Context, handle: Operand, indices: Operand, *, batch_dims: int = 0) -> Value:
    table = g.scope.variable(_variable(g, handle))
    return g.call("take", table, g.tensor(indices), axis=batch_dims, batch_dims=batch_dims)


@converts("ResourceGatherNd")
@takes_handles
def resource_gather_nd(g: Context, handle: Operand, indices: Operand) -> Value:
    places = g.tensor(indices)
    order = (places.rank - 1, *range(places.rank - 1))
    return g.call("gather_nd", g.scope.variable(_variable(g, handle)), g.moved(places, order))


@converts(*TABLES)
@takes_handles
def table(g: Context, *, key_dtype: str = "int64", value_dtype: str = "int64", **attributes: Any) -> Resource:
    return Resource(variable_name(g.node), "table")


@converts("LookupTableFind", "LookupTableFindV2")
@takes_handles
def table_find(g: Context, handle: Operand, keys: Operand, default: Operand) -> Value:
    found, fallback = _table(g, handle), g.array(g.tensor(default))
    if fallback is None:
        raise g.unsupported("the default is computed at run time; expected a constant")
    return mapped(g, g.tensor(keys), *found, fallback.reshape(-1)[0])


@converts("LookupTableSize", "LookupTableSizeV2")
@takes_handles
def table_size(g: Context, handle: Operand) -> Value:
    return g.constant(len(set(_table(g, handle)[0].tolist())), "int64")


def _table(g: Context, handle: Operand) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(handle, Resource) or handle.kind != "table":
        raise g.invalid("got a tensor or a variable; expected a table")
    found = g.scope.state.resources.tables.get(handle.name)
    if found is None:
        raise g.unsupported(f"table {handle.name!r} is filled at run time, or from a file; expected one of constants")
    return found


@converts(
    "NoOp", "InitializeTableV2", "InitializeTable", "LookupTableImportV2", "LookupTableImport", "Print", "PrintV2",
    "ScalarSummary", "HistogramSummary", "TensorSummary", "TensorSummaryV2", "ImageSummary", "MergeSummary",
    "DisableCopyOnRead", "ControlTrigger", "InitializeTableFromTextFileV2")
@takes_handles
def nothing(g: Context, *inputs: Operand, **attributes: Any) -> list[Operand]:
    """Prints, notes, and what fills tables once: its first input, for those that pass it on."""
    return [inputs[0]] if g.node.op == "Print" and inputs else []


@converts("Assert")
def assert_(g: Context, condition: Value, *data: Value, summarize: int = 3) -> list[Value]:
    known = g.array(condition)
    texts = [str(a.reshape(-1)[0]) for v in data if v.dtype == "string" and (a := g.array(v)) is not None and a.size == 1]
    if known is None or not known.all():
        check_that(g, g.reshape(condition, ()), " ".join(texts)[:200] or "an assertion of the model does not hold")
    return []


@converts("Placeholder", "PlaceholderV2")
def placeholder(g: Context, *, dtype: str = "", shape: Any = None) -> Value:
    raise g.invalid("it is an input of the graph that the signature does not have; expected it among the inputs")
