"""Computes in float16 where that is safe; inputs, outputs and sensitive operators stay float32.

``OpDef.precision`` says what an operator does: contractions become float16 (they accumulate in float32). Movement and
element-wise operators follow where all computed operands are float16 already. Everything else, exponentials, reductions and
normalisations among them, gets float32 operands: ``cast`` nodes are put between. A node whose constants or attributes float16
cannot hold stays float32.
``passes/to_bfloat16.py`` does the same with another type and other rules.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Node, Value, clone_node
from forge.ir.op import Precision
from forge.ir.types import TensorType
from forge.passes.base import PassContext
from forge.passes.rewriting import on_all_graphs

SCALING = frozenset({"multiply", "divide"})

_HALF = np.finfo(np.float16)


@dataclass(frozen=True)
class NarrowType:
    """Which nodes compute in a narrow type.

    Attributes:
        dtype: the narrow type.
        follow: what follows where all computed operands have it.
        fits: whether it holds the constants and attributes of a node well enough.
        wide: whether the result of a node that narrows is float32 all the same.
    """

    dtype: str
    follow: Container[Precision]
    fits: Callable[[Node], bool]
    wide: Callable[[Node], bool] = lambda node: False


def run(graph: Graph, context: PassContext) -> int:
    """Returns the number of nodes that compute in float16 now."""
    return convert(graph, NarrowType("float16", {Precision.FOLLOWS}, _fits_node))


def convert(graph: Graph, narrow: NarrowType) -> int:
    """Returns the number of nodes that compute in the narrow type now."""
    return on_all_graphs(graph, lambda g: _Converter(g, narrow).run())


class _Converter:
    """Builds one graph anew: ``mapped`` holds the new value of each old one, of the old dtype or the narrow one."""

    def __init__(self, graph: Graph, narrow: NarrowType) -> None:
        self.graph = graph
        self.narrow = narrow
        self.fresh = Graph(graph.inputs, graph.name)
        self.builder = Builder(self.fresh)
        self.mapped: dict[Value, Value] = {v: v for v in graph.inputs}
        self.casts: dict[tuple[Value, str], Value] = {}
        self.converted = 0

    def run(self) -> int:
        for value in self.graph.inputs:
            value.uses.clear()
        for node in self.graph.nodes:
            self.builder.location = node.location
            self._convert(node)
        outputs = [self._output(v) for v in self.graph.outputs]
        self.graph.nodes, self.graph.outputs = self.fresh.nodes, outputs
        return self.converted

    def _convert(self, node: Node) -> None:
        if not self._is_half(node):
            operands = {v: self._as(self.mapped[v], v) for v in node.operands if v is not None}
            self.fresh.insert(clone_node(node, operands))
            self.mapped.update({v: operands[v] for v in node.results})
            return
        operands_now = [None if v is None else self._half(self.mapped[v]) for v in node.operands]
        names = [v.name for v in node.results]
        attributes = node.attributes
        if self.narrow.wide(node):
            attributes = {**attributes, "out_dtype": "float32"}
        new = self.builder.node(node.op_def, operands_now, attributes, name=node.name, result_names=names)
        self.mapped.update(zip(node.results, new.results))
        self.converted += 1

    def _is_half(self, node: Node) -> bool:
        floats = [v for v in node.operands if v is not None and _is_float32(v)]
        computed = [v for v in floats if v.constant is None]
        precision, narrow = node.op_def.precision, self.narrow
        if not computed or not narrow.fits(node):
            return False
        follows = precision in narrow.follow and all(self.mapped[v].dtype == narrow.dtype for v in computed)
        return follows or precision is Precision.NARROWS

    def _half(self, value: Value) -> Value:
        return self._cast(value, self.narrow.dtype) if _is_float32(value) else value

    def _as(self, value: Value, original: Value) -> Value:
        """``value`` in the dtype that ``original`` has."""
        if not isinstance(original.type, TensorType) or value.dtype == original.dtype:
            return value
        return self._cast(value, original.dtype)

    def _output(self, value: Value) -> Value:
        """The output in its old dtype, under its old name."""
        new = self._as(self.mapped[value], value)
        if new is not self.mapped[value]:
            new.name, self.mapped[value].name = value.name, ""
        return new

    def _cast(self, value: Value, dtype: str) -> Value:
        key = (value, dtype)
        if key not in self.casts:
            self.casts[key] = self._constant(value, dtype) or self.builder.call("cast", value, dtype=dtype)
        return self.casts[key]


    def _constant(self, value: Value, dtype: str) -> Value | None:
        """A constant rounded at once: later passes pack it."""
        if value.constant is None:
            return None
        return self.builder.constant(value.constant.astype(dtypes.numpy_dtype(dtype)), name=value.name)


def _is_float32(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.dtype == "float32"


def numbers(node: Node) -> Iterator[np.ndarray]:
    """Constant operands and attributes that are floating-point numbers."""
    for value in node.operands:
        if value is not None and value.constant is not None and _is_float32(value):
            yield value.constant
    yield from (np.asarray(v) for v in node.attributes.values() if isinstance(v, float))


def _fits_node(node: Node) -> bool:
    return all(_fits(a, node.op in SCALING) for a in numbers(node))


def _fits(numbers: np.ndarray, scales: bool) -> bool:
    """Whether float16 holds the finite ones without overflow, and factors without loss of precision."""
    sizes = np.abs(numbers[np.isfinite(numbers)])
    if sizes.size and sizes.max() > _HALF.max:
        return False
    return not scales or not np.any((sizes > 0) & (sizes < _HALF.smallest_normal))
