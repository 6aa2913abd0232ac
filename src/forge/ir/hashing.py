"""Hashes of modules, equal in every process."""

from __future__ import annotations

import hashlib

import numpy as np

from forge import dtypes
from forge.ir.nodes import Graph, Module, Value


def structural_hash(module: Module) -> int:
    """Structure, types, attributes, scalar and integer constants count; the contents of float tensors and all names do not."""
    return int.from_bytes(_digest(module, contents=False)[:7], "little")


def fingerprint(module: Module) -> str:
    """Everything that ``structural_hash`` counts, and all contents; 32 hexadecimal digits."""
    return _digest(module, contents=True)[:16].hex()


def _digest(module: Module, contents: bool) -> bytes:
    state = hashlib.sha256()
    for name in sorted(module.graphs):
        state.update(f"def {name}\n".encode())
        _add_graph(state, module.graphs[name], contents)
    if contents:
        for position, value in enumerate(module.main.inputs):
            if value.name in module.params:
                state.update(f"param {position}\n".encode())
                _add_array(state, module.params[value.name])
    return state.digest()


def _add_graph(state: hashlib._Hash, graph: Graph, contents: bool) -> None:
    number: dict[Value, int] = {}
    for value in graph.inputs:
        number[value] = len(number)
        state.update(f"in {value.type}\n".encode())
    for node in graph.nodes:
        array = node.results[0].constant if node.results else None
        if array is not None:
            state.update(f"constant {node.results[0].type}\n".encode())
            if contents or array.size == 1 or array.dtype.kind in "biu":
                _add_array(state, array)
        else:
            operands = [-1 if v is None else number[v] for v in node.operands]
            state.update(f"{node.op} {operands} {node.attrs!r} {[str(v.type) for v in node.results]}\n".encode())
        for value in node.results:
            number[value] = len(number)
        for region in node.regions:
            state.update(b"{")
            _add_graph(state, region, contents)
            state.update(b"}")
    state.update(f"out {[number[v] for v in graph.outputs]}\n".encode())


def _add_array(state: hashlib._Hash, array: np.ndarray) -> None:
    state.update(f"{dtypes.canonical(array.dtype)} {array.shape}\n".encode())
    if array.dtype == object:
        for item in array.ravel():
            state.update(f"{len(str(item))}:{item}".encode())
    elif array.size:
        state.update(np.ascontiguousarray(array).view(np.uint8).data)
