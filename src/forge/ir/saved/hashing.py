"""Hashes of modules, equal in every process.

The structural hash counts what a model computes, whatever it was trained on: operators and how they are wired, types, attributes,
names of functions and their attributes, order of inputs and outputs, and constants that are integers, bools or strings, because
such steer operators (axes, shapes, counts, tables). It does not count contents of floating-point and complex constants, of any
rank, for these are trained; nor ``params``; nor names: symbols are numbered in the order of their appearance.

The fingerprint counts all of that, all contents, and what a user of the model calls its parts: names of the inputs and outputs of
public functions, names of the symbols in the types of their inputs. Names of nodes do not count, nor the order of ``params``.

The digest of a value counts what computes it from the inputs of its graph, whose names count.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.dims import DimExpr
from forge.ir import attributes
from forge.ir import types as T
from forge.ir.arrays import identity, to_bytes
from forge.ir.graph import Graph, Module
from forge.ir.nodes import CONSTANT, Node, Value
from forge.ir.saved.statistics import Statistics
from forge.ir.text import attribute_text

_MAX_COPIED = 4 << 20
"""Bytes of an array that are copied at once to be hashed."""
_BLOCK = 512
"""Columns that are copied at once: where rows lie apart in memory, what they are read from stays in the cache."""


def structural_hash(module: Module) -> int:
    """Structure, types, attributes, and constants but float tensors count; names (but those of functions) and params do not.

    The names of symbols do not count either: they are numbered in the order of their appearance. Nor does the order of nodes
    that do not depend on each other.
    """
    return int.from_bytes(_digest(module, _Hasher(contents=False))[:7], "little")


def fingerprint(module: Module) -> str:
    """Of structure, contents and names; 32 hexadecimal digits."""
    return identify(module).fingerprint


@dataclasses.dataclass(frozen=True)
class Identity:
    """A module's fingerprint, and the arrays that it counts by the digest of each, in which element type and shape count."""

    fingerprint: str
    arrays: dict[str, np.ndarray]


def identify(module: Module) -> Identity:
    """Reads all contents once, in several threads."""
    hasher = _Hasher(contents=True)
    hasher.read_arrays(module)
    digest = _digest(module, hasher)
    return Identity(digest[:16].hex(), {known: array for array, known in hasher.arrays.values()})


def value_digests(module: Module) -> dict[Value, str]:
    """Digests of the values of ``main``: of the operators, attributes and contents that compute them, and names of inputs.

    Types do not count, but for what attributes say of them; ``params`` count as constants.
    """
    hasher = _Hasher(contents=True)
    hasher.read_arrays(module)
    graph = module.main
    found: dict[Value, str] = {}
    for value in graph.inputs:
        if value.name not in graph.params:
            found[value] = _text_digest("input", value.name)
    for node in graph.nodes:
        if node.op_def is not CONSTANT:
            operands = [None if v is None else found.get(v) or _content(v, graph, hasher) for v in node.operands]
            regions = [hasher.region(region) for region in node.regions]
            attributes_ = [(f.name, _attribute_key(getattr(node.attrs, f.name))) for f in dataclasses.fields(node.attrs)]
            found.update((v, _text_digest(node.op, operands, attributes_, regions, k)) for k, v in enumerate(node.results))
    return found


def _content(value: Value, graph: Graph, hasher: _Hasher) -> str:
    """Of a constant, or an input with a value."""
    return hasher.array(graph.params[value.name] if value.constant is None else value.constant)


def moved_statistics(old: Module, new: Module) -> dict[str, Statistics]:
    """The statistics of ``old`` for ``new``, which computes the same values with other sizes."""
    if not old.calibration.statistics:
        return {}
    before, after = value_digests(old), value_digests(new)
    pairs = zip(before.values(), after.values(), strict=True) if len(before) == len(after) else ()
    return {there: old.calibration.statistics[here] for here, there in pairs if here in old.calibration.statistics}


def _text_digest(*parts: object) -> str:
    return hashlib.sha256(f"{parts}".encode()).hexdigest()[:32]


def _digest(module: Module, hasher: _Hasher) -> bytes:
    for name in sorted(module.graphs):
        hasher.symbols.clear()
        hasher.add("def", name)
        hasher.graph(module.graphs[name])
    if hasher.contents:
        for name, graph in module.public.items():
            hasher.add("inputs", name, [(v.name, str(v.type)) for v in graph.inputs])
            hasher.add("outputs", graph.output_names)
            for position, value in enumerate(graph.inputs):
                if value.name in graph.params:
                    hasher.add("param", position, hasher.array(graph.params[value.name]))
    return hasher.state.digest()


class _Hasher:
    def __init__(self, contents: bool) -> None:
        self.contents = contents
        self.state = hashlib.sha256()
        self.symbols: dict[str, DimExpr] = {}
        self.arrays: dict[Hashable, tuple[np.ndarray, str]] = {}

    def add(self, *parts: object) -> None:
        self.state.update(f"{parts}\n".encode())

    def graph(self, graph: Graph) -> None:
        number: dict[Value, int] = {}
        for value in graph.inputs:
            number[value] = len(number)
            self.add("in", self.type(value.type))
        self.add("attributes", [(k, attribute_text(v)) for k, v in graph.attributes.items()])
        for node in _by_dependence(graph):
            if node.op_def is not CONSTANT:
                self.node(node, number)
        self.add("out", [self.operand(v, number) for v in graph.outputs])
        if graph.states or graph.donated:
            self.shared_memory(graph)

    def region(self, graph: Graph) -> str:
        """Of a region alone."""
        inner = _Hasher(self.contents)
        inner.arrays = self.arrays
        inner.graph(graph)
        return inner.state.hexdigest()

    def shared_memory(self, graph: Graph) -> None:
        """States count by name, because functions share them by it, and donated inputs by position."""
        positions = {value.name: k for k, value in enumerate(graph.inputs)}
        for name, state in sorted(graph.states.items()):
            first = state.initial
            initial = first if first is None else self.array(first) if self.contents else (first.dtype.name, first.shape)
            self.add("state", name, positions.get(name), state.output, initial)
        self.add("donated", sorted((positions[name], output) for name, output in graph.donated.items()))

    def node(self, node: Node, number: dict[Value, int]) -> None:
        operands = [self.operand(v, number) for v in node.operands]
        for value in node.results:
            number[value] = len(number)
        self.add(node.op, operands, self.attributes(node.attrs), [self.type(v.type) for v in node.results], len(node.regions))
        for region in node.regions:
            self.graph(region)

    def operand(self, value: Value | None, number: dict[Value, int]) -> object:
        """A constant counts where it is used, so that it makes no difference whether two uses share it."""
        array = None if value is None else value.constant
        if value is None or array is None:
            return None if value is None else number[value]
        is_weight = not dtypes.is_integer(value.dtype) and value.dtype not in ("bool", "string")
        return ("constant", str(value.type), self.array(array) if self.contents or not is_weight else "")

    def type(self, type_: T.Type) -> str:
        for name in T.symbols(type_):
            self.symbols.setdefault(name, dims.symbol(f"s{len(self.symbols)}"))
        return str(T.substitute(type_, self.symbols))

    def attributes(self, record: Any) -> list[tuple[str, object]]:
        for name in attributes.symbols(record):
            self.symbols.setdefault(name, dims.symbol(f"s{len(self.symbols)}"))
        record = attributes.substitute(record, self.symbols)
        return [(f.name, _attribute_key(getattr(record, f.name))) for f in dataclasses.fields(record)]

    def array(self, array: np.ndarray) -> str:
        key = identity(array)
        if key not in self.arrays:
            self.arrays[key] = (array, _array_digest(array))
        return self.arrays[key][1]

    def read_arrays(self, module: Module) -> None:
        """Digests of the arrays that are hashed later, computed in several threads."""
        graphs = module.graphs.values()
        read = [v for graph in graphs for v in (*graph.outputs, *(v for node in graph.walk() for v in node.operands))]
        held = [v.constant for v in read if v is not None and v.constant is not None]
        for graph in graphs:
            held += [*graph.params.values(), *(s.initial for s in graph.states.values() if s.initial is not None)]
        held.sort(key=lambda array: -array.nbytes)  # so that no thread ends with the largest
        arrays = {identity(array): array for array in held}
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            digests = list(pool.map(_array_digest, arrays.values()))
        self.arrays.update((key, (array, known)) for (key, array), known in zip(arrays.items(), digests, strict=True))


def _array_digest(array: np.ndarray) -> str:
    state = hashlib.sha256(f"{dtypes.canonical(array.dtype)} {array.shape}\n".encode())
    for piece in _contents(array):
        state.update(piece)
    return state.hexdigest()


def _by_dependence(graph: Graph) -> list[Node]:
    """The nodes in an order that only depends on what they compute: producers of outputs first, each after its operands."""
    order: dict[Node, None] = {}
    entered: set[Node] = set()
    roots = [v.producer for v in graph.outputs if v.producer is not None]
    pending = [*reversed(graph.nodes), *reversed(roots)]
    while pending:
        node = pending[-1]
        if node in entered:
            order.setdefault(pending.pop())
        entered.add(node)
        pending.extend(p for p in reversed(node.pred) if p not in entered and p.graph is graph)
    return list(order)


def _attribute_key(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_attribute_key, value))}]"
    return str(value) if isinstance(value, T.CLASSES) else attribute_text(value)


def _contents(array: np.ndarray) -> Iterator[bytes | memoryview]:
    """The bytes; where they have to be copied, a few rows at a time, into memory that the next ones will take."""
    if array.dtype == object or array.size == 0:
        yield to_bytes(array)
        return
    array = np.atleast_1d(array)
    if array.flags.c_contiguous:
        yield array.reshape(-1).view(np.uint8).data
        return
    rows = min(len(array), max(1, _MAX_COPIED // array[0].nbytes))
    copied = np.empty((rows, *array.shape[1:]), array.dtype)
    for begin in range(0, len(array), rows):
        piece = array[begin : begin + rows]
        for column in range(0, array.shape[-1], _BLOCK):
            copied[: len(piece)][..., column : column + _BLOCK] = piece[..., column : column + _BLOCK]
        yield copied[: len(piece)].reshape(-1).view(np.uint8).data
