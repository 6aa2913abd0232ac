"""What a model keeps from one run to the next: variables, by the names of their states, and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from forge import dtypes
from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.state.variables import Variables
from forge.frontends.tflite.model import Operator, Subgraph, Tensor, TfliteModel
from forge.ir.types import TensorType

SUBGRAPH_OPTIONS = (
    "then_subgraph_index", "else_subgraph_index", "cond_subgraph_index", "body_subgraph_index", "branch_subgraph_indices",
    "decomposition_subgraph_index",
)
RESOURCE_DTYPES = ("resource", "variant")
MAX_BYTES = 1 << 31
"""Of variables that are tensors."""


@dataclass(frozen=True)
class Resource:
    """What a handle leads to.

    Attributes:
        name: what all functions of the model call it.
    """

    name: str


@dataclass
class Resources(Variables):
    """Variables and tables of a model.

    Attributes:
        labels: tensors that are variables, and names of resources that are -> names of their states.
        tables: keys and values, by the name of the resource.
        size: bytes of variables that are tensors.
    """

    labels: dict[Tensor | str, str] = field(default_factory=dict)
    tables: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    size: int = 0

    def written(self, model: TfliteModel, *subgraphs: int) -> list[str]:
        """Labels of variables that subgraphs, and those that they run, may write."""
        labels: dict[str, None] = {}
        for graph in _reached(model, subgraphs):
            for operator in graph.operators:
                if operator.name == "ASSIGN_VARIABLE":
                    labels |= dict.fromkeys(label for key, label in self.labels.items() if isinstance(key, str))
                read = [graph.tensors[number] for number in operator.inputs if number >= 0]
                labels |= dict.fromkeys(self.labels[tensor] for tensor in read if tensor in self.labels)
        return [label for label in labels if label in self.types]


def handle_name(attributes: Mapping[str, str]) -> str:
    """What functions call the variable that a handle with these options leads to."""
    container, name = attributes.get("container", ""), attributes.get("shared_name", "")
    return f"{container}/{name}" if container else name


def table_name(table: int) -> str:
    return f"table_{table}"


def resources_of(model: TfliteModel, taken: set[str]) -> Resources:
    """The variables and tables of a model.

    Args:
        taken: names that states cannot have.

    Raises:
        ImportModelError: a variable is not a tensor of numbers; OpNotImplemented: what is first in one is computed.
    """
    found = Resources()
    for graph in model.subgraphs:
        for number, tensor in enumerate(graph.tensors):
            if tensor.is_variable and number not in graph.inputs:
                _add_tensor(found, tensor, taken)
        handles = _handles(graph)
        for name in handles.values():
            if name not in found.labels:
                found.labels[name] = _label(name or "variable", taken)
        for operator in graph.operators:
            _note_type(found, graph, operator, handles)
    for graph in model.subgraphs:
        for operator in graph.operators:
            if operator.name == "CALL_ONCE":
                _initialize(found, _subgraph(model, operator.attributes.get("init_subgraph_index", 0)))
    return found


def _subgraph(model: TfliteModel, number: int) -> Subgraph:
    if not 0 <= number < len(model.subgraphs):
        raise ImportModelError(f"got subgraph {number}; expected one below {len(model.subgraphs)}; the model is invalid")
    return model.subgraphs[number]


def _reached(model: TfliteModel, subgraphs: tuple[int, ...]) -> Iterator[Subgraph]:
    pending, seen = [*subgraphs], set[int]()
    while pending:
        number = pending.pop()
        if number in seen:
            continue
        seen.add(number)
        graph = _subgraph(model, number)
        yield graph
        for operator in graph.operators:
            for key in SUBGRAPH_OPTIONS:
                given = operator.attributes.get(key, ())
                pending += given if isinstance(given, tuple) else [given]


def _label(wanted: str, taken: set[str]) -> str:
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


def _add_tensor(found: Resources, tensor: Tensor, taken: set[str]) -> None:
    if None in tensor.shape or tensor.dtype in (*RESOURCE_DTYPES, "string"):
        raise ImportModelError(
            f"variable {tensor.name!r}: got {tensor.dtype} of sizes {tensor.shape}; expected numbers of known sizes")
    found.size += math.prod(size or 0 for size in tensor.shape) * dtypes.numpy_dtype(tensor.dtype).itemsize
    if found.size > MAX_BYTES:
        raise ImportModelError(
            f"variable {tensor.name[:200]!r}: got sizes {tensor.shape}; expected variables of at most {MAX_BYTES} bytes in all; "
            "the model is damaged")
    label = found.labels[tensor] = _label(tensor.name or "variable", taken)
    found.types[label] = TensorType(tuple(size or 0 for size in tensor.shape), tensor.dtype)
    if tensor.contents is not None:
        found.initial[label] = tensor.contents()
    elif tensor.dtype == "int8" and tensor.quantization is not None and not tensor.quantization.is_symmetric:
        found.initial[label] = np.full([size or 0 for size in tensor.shape], tensor.quantization.zero_points[0], np.int8)


def _handles(graph: Subgraph) -> dict[int, str]:
    """Tensors that are handles of variables -> names of these."""
    return {
        operator.outputs[0]: handle_name(operator.attributes)
        for operator in graph.operators if operator.name == "VAR_HANDLE" and operator.outputs}


def _note_type(found: Resources, graph: Subgraph, operator: Operator, handles: Mapping[int, str]) -> None:
    if operator.name not in ("READ_VARIABLE", "ASSIGN_VARIABLE") or not operator.inputs or operator.inputs[0] not in handles:
        return
    numbers = operator.outputs if operator.name == "READ_VARIABLE" else operator.inputs[1:]
    for number in numbers[:1]:
        tensor = graph.tensors[number]
        sizes = [size for size in tensor.shape if size is not None]
        if number >= 0 and len(sizes) == len(tensor.shape):
            label = found.labels[handles[operator.inputs[0]]]
            found.types.setdefault(label, TensorType(tuple(sizes), tensor.dtype))


def _initialize(found: Resources, graph: Subgraph) -> None:
    """Notes what the subgraph that runs once, before all others, leaves in variables and tables."""
    handles, tables = _handles(graph), dict[int, str]()
    for operator in graph.operators:
        read = [graph.tensors[number] if number >= 0 else None for number in operator.inputs]
        contents = [None if tensor is None or tensor.contents is None else tensor.contents for tensor in read]
        if operator.name == "HASHTABLE" and operator.outputs:
            tables[operator.outputs[0]] = table_name(operator.attributes.get("table_id", 0))
        elif operator.name == "ASSIGN_VARIABLE" and len(read) == 2 and operator.inputs[0] in handles and contents[1]:
            label = found.labels[handles[operator.inputs[0]]]
            array = contents[1]()
            found.initial.setdefault(label, array)
            found.types[label] = TensorType(array.shape, dtypes.canonical(array.dtype))
        elif operator.name == "HASHTABLE_IMPORT" and len(read) == 3 and operator.inputs[0] in tables and all(contents[1:]):
            keys, values = (np.ravel(contents[k]()) for k in (1, 2))  # type: ignore[misc]
            if len(keys) != len(values):
                raise ImportModelError(f"a table has {len(keys)} keys and {len(values)} values; the model is invalid")
            found.tables.setdefault(tables[operator.inputs[0]], (keys, values))
        elif operator.name not in ("VAR_HANDLE", "CALL_ONCE"):
            raise OpNotImplemented(
                f"subgraph {graph.name!r}, which runs once: got {operator.name} of computed values; expected variables and "
                "tables that constants are assigned to")
