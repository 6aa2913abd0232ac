"""What is not a tensor in a program of TensorFlow: handles of variables and tables, and lists without elements."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from forge.dims import Dim
from forge.frontends.state.variables import Variables
from forge.frontends.tensorflow.model import Body, Constant, FunctionName, Node, Shape, TensorFlowModel
from forge.frontends.tensorflow.restore import variable_name
from forge.ir.nodes import Value

TABLES = (
    "HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2", "MutableHashTableOfTensorsV2",
    "MutableDenseHashTableV2")
_IMPORTS = ("InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2")
VARIABLES = ("VarHandleOp", "Variable", "VariableV2", "VarHandle")
WRITES = (
    "Assign", "AssignAdd", "AssignSub", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceScatterUpdate",
    "ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterMul", "ResourceScatterMax", "ResourceScatterMin",
    "ResourceScatterNdUpdate", "ResourceScatterNdAdd", "ResourceStridedSliceAssign", "ScatterUpdate", "ScatterAdd",
    "ScatterNdUpdate",
)


@dataclass(frozen=True)
class Resource:
    """What a handle leads to.

    Attributes:
        name: what all functions of the model call it.
        kind: "variable", "reference" (the handle is read as the tensor where one is expected), or "table".
    """

    name: str
    kind: str = "variable"


@dataclass(frozen=True)
class PendingList:
    """A list of tensors of which no element has been set, so that the sizes of elements are not known.

    Lists whose elements have known sizes are tensors: their first axis counts the elements.

    Attributes:
        count: how many elements it has, a size or a tensor of rank 0; 0 for one that grows.
    """

    count: Dim | Value
    dtype: str
    shape: Shape = None


@dataclass
class Resources(Variables):
    """Variables and tables of a model.

    Attributes:
        tables: keys and values by name.
        written: labels of variables that a call writes.
        seen: labels that a conversion wrote.
    """

    tables: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    written: frozenset[str] = frozenset()
    seen: set[str] = field(default_factory=set)


def tables_of(model: TensorFlowModel) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What the tables of a model hold, where constants are put into them once."""
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for node in model.main.nodes.values():
        if node.op in _IMPORTS:
            _note(found, model.main, [ref[0] for ref in node.inputs], {}, model.main)
        called = node.attributes.get("f")
        if isinstance(called, FunctionName) and called.name in model.library and node.inputs:
            body = model.function(called.name)
            given = {a.name: ref[0] for a, ref in zip(body.arguments, node.inputs)}
            for inner in body.nodes.values():
                if inner.op in _IMPORTS:
                    _note(found, model.main, [ref[0] for ref in inner.inputs], given, body)
    return found


def _note(
    found: dict[str, tuple[np.ndarray, np.ndarray]], main: Body, names: list[str], given: dict[str, str], body: Body
) -> None:
    """Notes keys and values that a node puts into a table; ``given``: arguments of its function -> nodes of the graph."""
    nodes = [body.nodes.get(name) or main.nodes.get(given.get(name, name)) for name in names]
    if len(nodes) != 3 or any(node is None for node in nodes):
        return
    table, keys, values = (_source(body if node.name in body.nodes else main, node) for node in nodes if node is not None)
    contents = [node.attributes.get("value") for node in (keys, values)]
    if table.op in TABLES and all(isinstance(c, Constant) for c in contents):
        found[variable_name(table)] = tuple(np.ravel(c.array()) for c in contents if isinstance(c, Constant))  # type: ignore[assignment]


def _source(body: Body, node: Node) -> Node:
    for _ in range(len(body.nodes)):
        if node.op != "Identity" or not node.inputs or node.inputs[0][0] not in body.nodes:
            break
        node = body.nodes[node.inputs[0][0]]
    return node


def writes(model: TensorFlowModel, *functions: str) -> bool:
    """Whether functions, or those that they call, write variables."""
    pending, seen = [*functions], set[str]()
    while pending:
        name = pending.pop()
        if name in seen or name not in model.library:
            continue
        seen.add(name)
        for node in model.function(name).nodes.values():
            if node.op in WRITES:
                return True
            pending += functions_of(node)
    return False


def functions_of(node: Node) -> list[str]:
    """Names of functions that a node may call."""
    found = [node.op]
    for value in node.attributes.values():
        found += [f.name for f in (value if isinstance(value, tuple) else (value,)) if isinstance(f, FunctionName)]
    return found


Operand = Value | Resource | PendingList
