"""The description of a compiled model that is sealed into its library."""

from __future__ import annotations

import importlib.metadata
import os
import time
import uuid as uuids
from datetime import UTC, datetime
from typing import Any

from forge import dtypes
from forge._version import __version__
from forge.backends.compiled import CompiledModel
from forge.codegen.link import own_libraries
from forge.errors import OptionError
from forge.ir.functions.states import replaced, state_type
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.op import Kind
from forge.ir.types import TensorType, Type
from forge.ops.core.op import Op

EPOCH = "SOURCE_DATE_EPOCH"


def describe(compiled: CompiledModel, module: Module, fingerprint: str, uuid: str | None = None) -> dict[str, Any]:
    """The artifact's metadata. Reproducible but for ``uuid`` and ``created``, which obeys SOURCE_DATE_EPOCH."""
    functions = {name: interface(graph) for name, graph in module.public.items()}
    states = {name: _tensor(state_type(graph, name), name) for graph in module.public.values() for name in graph.states}
    return {
        "uuid": uuid or str(uuids.uuid4()),
        "fingerprint": fingerprint,
        "created": creation_time(),
        "target": str(compiled.target),
        "cpu_features": ",".join(compiled.target.machine_features),
        "precision": next((p for p in ("float16", "bfloat16") if compiled.options[p]), None) or precision(module),
        **next(iter(functions.values())),
        "functions": functions,
        "states": list(states.values()),
        "options": compiled.options,
        "versions": {"forge": __version__, "llvmlite": importlib.metadata.version("llvmlite")},
        "weights_size": compiled.weights.size,
        "arena_size": compiled.summary["arena_size"],
        "registered": compiled.summary["registered"],
        "external": list(compiled.external.functions),
        "external_libraries": own_libraries(compiled.external),
        "annotations": dict(compiled.target.annotations),
    }


def interface(graph: Graph) -> dict[str, list[dict[str, Any]]]:
    """What a caller of the function gives and gets: inputs and outputs that are not states."""
    kept = replaced(graph)
    inputs = [v for v in graph.inputs if v.name not in graph.params and v.name not in graph.states]
    outputs = [(v, name) for k, (v, name) in enumerate(zip(graph.outputs, graph.output_names)) if kept.get(k) not in graph.states]
    return {
        "inputs": [_tensor(v.type, v.name, _layout_after(v)) for v in inputs],
        "outputs": [_tensor(v.type, name, _layout_before(v)) for v, name in outputs],
    }


def creation_time() -> str:
    """Now, or the time that SOURCE_DATE_EPOCH gives, in UTC.

    Raises:
        OptionError: SOURCE_DATE_EPOCH is not a number of seconds.
    """
    epoch = os.environ.get(EPOCH)
    try:
        moment = int(time.time()) if epoch is None else int(epoch)
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError) as error:
        raise OptionError(f"{EPOCH}: got {epoch!r}; expected a whole number of seconds since 1970") from error


def precision(module: Module) -> str:
    """The element type of most floating-point weights."""
    counts: dict[str, int] = {}
    graphs = module.public.values()
    arrays = [node.results[0].constant for graph in graphs for node in graph.walk() if node.results]
    for array in [*(a for graph in graphs for a in graph.params.values()), *[a for a in arrays if a is not None]]:
        name = dtypes.canonical(array.dtype)
        if dtypes.is_float(name):
            counts[name] = counts.get(name, 0) + array.size
    return max(counts, key=counts.__getitem__) if counts else "float32"


def _tensor(type_: Type, name: str, layout: str = "") -> dict[str, Any]:
    if not isinstance(type_, TensorType):
        return {"name": name, "dtype": str(type_), "shape": [], "layout": layout}
    shape = [d if isinstance(d, int) else str(d) for d in type_.shape]
    return {"name": name, "dtype": type_.dtype, "shape": shape, "layout": layout}


def _layout_after(value: Value) -> str:
    """The layout in which a convolution or pool reads ``value``, possibly after element-wise operators; "" where none does."""
    pending, seen = [value], {value}
    while pending:
        value = pending.pop()
        for user, position in value.uses:
            layout = _layout(user) if position == 0 else ""
            if layout:
                return layout
            if _keeps_axes(user, value) and user.result not in seen:
                seen.add(user.result)
                pending.append(user.result)
    return ""


def _layout_before(value: Value) -> str:
    """The layout in which a convolution or pool writes ``value``, possibly before element-wise operators; "" where none does."""
    while value.producer is not None:
        node = value.producer
        layout = _layout(node)
        if layout:
            return str(node.attributes.get("out_layout") or layout)
        operand = next((v for v in node.operands if v is not None and _keeps_axes(node, v)), None)
        if operand is None:
            break
        value = operand
    return ""


def _layout(node: Node) -> str:
    attributes = node.attributes if node.op.startswith(("nn.", "image.")) else {}
    layout = attributes.get("data_layout", attributes.get("layout", ""))
    return layout if isinstance(layout, str) else ""


def _keeps_axes(node: Node, operand: Value) -> bool:
    """Whether the axes of the result of ``node`` are those of ``operand``."""
    if not isinstance(node.op_def, Op) or node.op_def.kind is not Kind.ELEMENTWISE or len(node.results) != 1:
        return False
    types = node.result.type, operand.type
    return all(isinstance(t, TensorType) for t in types) and node.result.rank == operand.rank
