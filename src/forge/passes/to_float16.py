"""Computes in float16 where that is safe; inputs, outputs and sensitive operators stay float32.

``OpDef.precision`` says what an operator does: contractions become float16 (they accumulate in float32). Movement and
element-wise operators follow where all computed operands are float16 already. Everything else, exponentials, reductions and
normalizations among them, gets float32 operands: ``cast`` nodes are put between. A node whose constants or attributes float16
cannot hold stays float32.
``passes/to_bfloat16.py`` does the same with another type and other rules.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.ir.edits.rewrite import on_all_graphs
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.op import Precision
from forge.ir.types import TensorType
from forge.ops.elementwise.cast import Cast
from forge.options import CompileOptions
from forge.passes.conversion import Conversion

SCALING = frozenset({"multiply", "divide"})

_HALF = np.finfo(np.float16)


@dataclass(frozen=True)
class NarrowType:
    """A narrow type, and the nodes that compute in it.

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


def run(graph: Graph, options: CompileOptions) -> int:
    """Returns the number of nodes that compute in float16 now."""
    return convert(graph, NarrowType("float16", {Precision.FOLLOWS}, _fits))


def convert(graph: Graph, narrow: NarrowType) -> int:
    """Returns the number of nodes that compute in the narrow type now."""
    return on_all_graphs(graph, lambda g: _Narrowing(g, narrow).run())


class _Narrowing(Conversion):
    """Values of float32 in a narrow type."""

    def __init__(self, graph: Graph, narrow: NarrowType) -> None:
        super().__init__(graph)
        self.narrow = narrow

    def convert(self, node: Node) -> bool:
        if not self._narrows(node):
            return False
        operands = [v if v is None else self.converted(v) if _is_float32(v) else self.usual(v) for v in node.operands]
        attributes = {**node.attributes, **({"out_dtype": "float32"} if self.narrow.wide(node) else {})}
        names = [v.name for v in node.results]
        new = self.builder.node(node.op_def, operands, attributes, name=node.name, result_names=names)
        for old, value in zip(node.results, new.results):
            (self.old if value.dtype == old.dtype else self.new)[old] = value
        return True

    def _narrows(self, node: Node) -> bool:
        computed = [v for v in node.operands if v is not None and _is_float32(v) and v.constant is None]
        if not computed or not self.narrow.fits(node):
            return False
        precision = node.op_def.precision
        follows = precision in self.narrow.follow and all(self.is_new(v) for v in computed)
        return follows or precision is Precision.NARROWS and not any(map(_counts, computed))

    def to_new(self, value: Value) -> Value:
        """A constant is rounded at once: later passes pack it."""
        if value.constant is None:
            return self.builder.call("cast", value, dtype=self.narrow.dtype)
        return self.builder.constant(value.constant.astype(dtypes.numpy_dtype(self.narrow.dtype)), name=value.name)

    def to_old(self, value: Value, original: Value) -> Value:
        return self.builder.call("cast", value, dtype=original.dtype)


def _is_float32(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.dtype == "float32"


def _counts(value: Value) -> bool:
    """Whether it holds integers: sums of products of those are exact, and rounded later."""
    cast = Cast.of(value.producer)
    return cast is not None and dtypes.is_integer(cast.data.dtype)


def numbers(node: Node) -> Iterator[np.ndarray]:
    """Yields constant operands and attributes that are floating-point numbers."""
    for value in node.operands:
        if value is not None and value.constant is not None and _is_float32(value):
            yield value.constant
    yield from (np.asarray(v) for v in node.attributes.values() if isinstance(v, float))


def _fits(node: Node) -> bool:
    """Whether float16 holds the finite numbers of ``node`` without overflow, and factors without loss of precision."""
    for array in numbers(node):
        sizes = np.abs(array[np.isfinite(array)])
        lost = node.op in SCALING and np.any((sizes > 0) & (sizes < _HALF.smallest_normal))
        if lost or sizes.max(initial=0) > _HALF.max:
            return False
    return True
