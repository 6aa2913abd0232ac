"""Branches, loops, variables and tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import dtypes
from forge.compose.lookup import mapped
from forge.frontends.control import choose, repeat
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.importer import inlined, subgraph_of
from forge.frontends.tflite.registry import converts, refuse, takes_integers
from forge.frontends.tflite.resources import Resource, handle_name, table_name
from forge.ir.nodes import Value

Operand = Value | Resource | None

for _name in ("CONCAT_EMBEDDINGS", "LSH_PROJECTION", "SKIP_GRAM"):
    refuse(_name, "it labels or hashes texts, which is done before a model runs: leave it out of the model")
refuse("CALL", "no release of TFLite has run it: convert the model again")
refuse("DELEGATE", "it stands for a part of the model in the form of another system: give the model as it was before")


@converts("IF")
@takes_integers
def if_(
    g: Context, condition: Value, *inputs: Value | None, then_subgraph_index: int = 0, else_subgraph_index: int = 0
) -> list[Value | None]:
    return _chosen(g, condition, (then_subgraph_index, else_subgraph_index), inputs)


def _operands(g: Context, inputs: Sequence[Value | None], first: int = 0) -> list[Operand]:
    """Inputs from number ``first`` on, handles among them."""
    numbers = g.operator.inputs[first:]
    return [g.scope.handles.get(number) or value for number, value in zip(numbers, inputs)]


def _results(g: Context, found: Sequence[Value | Resource]) -> list[Value | None]:
    for position, value in enumerate(found):
        if isinstance(value, Resource):
            g.set_handle(value, position)
    return [value if isinstance(value, Value) else None for value in found]


def _chosen(g: Context, index: Value, branches: Sequence[int], inputs: Sequence[Value | None]) -> list[Value | None]:
    written = g.scope.state.resources.written(g.scope.state.model, *branches)
    return _results(g, choose(g, index, branches, _operands(g, inputs, 1), inlined, written))


@converts("WHILE", "STABLEHLO_WHILE")
@takes_integers
def while_(
    g: Context, *inputs: Value | None, cond_subgraph_index: int = 0, body_subgraph_index: int = 0
) -> list[Value | None]:
    operands = _operands(g, inputs)
    written = g.scope.state.resources.written(g.scope.state.model, cond_subgraph_index, body_subgraph_index)
    graph = subgraph_of(g, body_subgraph_index)
    if not len(graph.inputs) == len(graph.outputs) == len(operands):
        raise g.invalid(
            f"got {len(graph.inputs)} inputs and {len(graph.outputs)} results of the body; expected {len(operands)}")
    kept = [before == after for before, after in zip(graph.inputs, graph.outputs)]
    return _results(g, repeat(g, operands, cond_subgraph_index, body_subgraph_index, inlined, written, kept))


@converts("STABLEHLO_CASE")
@takes_integers
def case(g: Context, index: Value, *inputs: Value | None, branch_subgraph_indices: tuple[int, ...] = ()) -> list[Value | None]:
    if not branch_subgraph_indices:
        raise g.invalid("got no branches; expected one or more")
    return _chosen(g, index, branch_subgraph_indices, inputs)


@converts("STABLEHLO_COMPOSITE")
@takes_integers
def composite(
    g: Context, *inputs: Value | None, name: str = "", decomposition_subgraph_index: int = 0,
    composite_attributes: tuple[int, ...] = (), composite_attributes_format: int = 0, version: int = 0,
) -> list[Value | None]:
    """What its decomposition computes."""
    return _results(g, inlined(g, decomposition_subgraph_index, _operands(g, inputs)))


@converts("CALL_ONCE")
@takes_integers
def call_once(g: Context, *, init_subgraph_index: int = 0) -> list[Value]:
    """What it leaves in variables and tables is what they are at first: see ``resources``."""
    return []


@converts("VAR_HANDLE")
@takes_integers
def var_handle(g: Context, *, container: str = "", shared_name: str = "") -> list[Value | None]:
    g.set_handle(Resource(handle_name({"container": container, "shared_name": shared_name})))
    return [None]


@converts("READ_VARIABLE")
@takes_integers
def read_variable(g: Context, handle: Value | None) -> Value:
    return g.scope.variable(_label(g))


@converts("ASSIGN_VARIABLE")
@takes_integers
def assign_variable(g: Context, handle: Value | None, value: Value) -> list[Value]:
    g.scope.set_variable(_label(g), value)
    return []


def _label(g: Context) -> str:
    found = g.scope.state.resources.labels.get(g.resource().name)
    if found is None:
        raise g.invalid(f"got the table {g.resource().name!r}; expected a variable")
    return found


@converts("HASHTABLE")
@takes_integers
def hashtable(g: Context, *, table_id: int = 0, key_dtype: str = "int64", value_dtype: str = "int64") -> list[Value | None]:
    name = table_name(table_id)
    empty = np.empty(0, dtypes.numpy_dtype(key_dtype)), np.empty(0, dtypes.numpy_dtype(value_dtype))
    g.scope.state.resources.tables.setdefault(name, empty)
    g.set_handle(Resource(name))
    return [None]


@converts("HASHTABLE_IMPORT")
@takes_integers
def hashtable_import(g: Context, handle: Value | None, keys: Value, values: Value) -> list[Value]:
    raise g.unsupported("a table is filled at run time; expected one that CALL_ONCE fills")


@converts("HASHTABLE_FIND")
@takes_integers
def hashtable_find(g: Context, handle: Value | None, keys: Value, default: Value) -> Value:
    known = g.array(default)
    if known is None:
        raise g.unsupported("the default is computed at run time; expected a constant")
    return mapped(g, keys, *_table(g), known.reshape(-1)[0])


@converts("HASHTABLE_SIZE")
@takes_integers
def hashtable_size(g: Context, handle: Value | None) -> Value:
    keys, _ = _table(g)
    return g.constant([len(set(keys.tolist()))], "int64")


def _table(g: Context) -> tuple[np.ndarray, np.ndarray]:
    found = g.scope.state.resources.tables.get(g.resource().name)
    if found is None:
        raise g.invalid(f"got the variable {g.resource().name!r}; expected a table")
    return found
