"""Computes in float16 where that is safe and saves time; inputs, outputs and sensitive operators stay float32.

``OpDef.precision`` says what an operator does: contractions become float16 (they accumulate in float32). Movement and
element-wise operators follow where all computed operands are float16 already. Everything else, exponentials, reductions and
normalizations among them, gets float32 operands: ``cast`` nodes are put between. A node whose constants or attributes float16
cannot hold stays float32, and so does a contraction that would take longer, with what is rounded and widened around it
(``Layouts.speedup``); between two that gain, one follows that takes as long.
``passes/to_bfloat16.py`` does the same with another type and other rules.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from forge import backend, dims, dtypes
from forge.ir.edits.rewrite import on_all_graphs
from forge.ir.functions.typical import typical_sizes
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.op import Precision
from forge.ir.types import TensorType
from forge.ops.core.op import Op
from forge.ops.core.product import Product
from forge.ops.elementwise.cast import Cast
from forge.ops.nn.convolution import Conv
from forge.options import CompileOptions
from forge.passes import choose_layouts, use_winograd
from forge.passes.conversion import Conversion
from forge.target.precision import Contraction

GAIN = 1.1
"""A contraction becomes narrow where that is estimated to save this factor of its time."""
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
    return convert(graph, NarrowType("float16", {Precision.FOLLOWS}, _fits), options)


def convert(graph: Graph, narrow: NarrowType, options: CompileOptions) -> int:
    """Returns the number of nodes that compute in the narrow type now."""
    rates = Rates.of(graph, options)
    return on_all_graphs(graph, lambda g: _Narrowing(g, narrow, rates).run())


@dataclass(frozen=True)
class Rates:
    """Typical sizes of symbols, and the bytes of all weights of the model, on which the time of contractions depends."""

    options: CompileOptions
    sizes: Mapping[str, int]
    weights: int

    @staticmethod
    def of(graph: Graph, options: CompileOptions) -> Rates:
        constants = {v: v.constant for n in graph.walk() for v in n.operands if v is not None and v.constant is not None}
        return Rates(options, typical_sizes(graph, dict(options.typical)), sum(a.nbytes for a in constants.values()))

    def speedup(self, node: Node, dtype: str, between: bool = False) -> float:
        """Returns the time of a contraction in float32 over that in ``dtype``; without layouts of the backend: enough."""
        if backend.of(self.options.target).layouts is None:
            return GAIN
        window = use_winograd.window_of(Conv.of(node), self.sizes) if use_winograd.is_on(self.options) else None
        return self.options.layouts.speedup(self.sums(node), dtype, between, window)

    def sums(self, node: Node) -> Contraction:
        """Returns the sums that a contraction computes."""
        left, right = (v for v in node.operands[:2] if v is not None)
        product, op, result = Product[Any].of(node), cast(Op[Any], node.op_def), node.results[0]
        flops = op.flops(node.attrs, [result.tensor_type], *op.arguments(node.operands))
        conv: Conv | None = Conv.of(node)
        is_plain = conv is not None and self.options.channel_layout is not None
        depth = 0 if product is None or product.groups > 1 or is_plain else left.shape[product.depth_axis]
        numbers = (flops // 2, left.size, right.size, result.size, depth, 0 if right.constant is None else self.weights)
        tiles = conv is None or choose_layouts.is_over_images(conv)
        return Contraction(*[dims.typical(number, self.sizes) for number in numbers], tiles=tiles)


class _Narrowing(Conversion):
    """Values of float32 in a narrow type."""

    def __init__(self, graph: Graph, narrow: NarrowType, rates: Rates) -> None:
        super().__init__(graph)
        self.narrow, self.rates = narrow, rates
        self.gaining = {node for node in graph.nodes if self._gains(node)}

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
        computed = _computed(node)
        if node in self.gaining or not computed or not all(map(self.is_new, computed)):
            return node in self.gaining
        follows = node.op_def.precision in self.narrow.follow or self._is_between(node)
        return follows and self.narrow.fits(node)

    def _gains(self, node: Node) -> bool:
        """Whether a contraction takes less time if its operands are rounded and its result becomes float32 again."""
        computed = _computed(node)
        if node.op_def.precision is not Precision.NARROWS or not computed or any(map(_counts, computed)):
            return False
        return self.rates.speedup(node, self.narrow.dtype) >= GAIN and self.narrow.fits(node)

    def _is_between(self, node: Node) -> bool:
        """Whether a contraction of narrow operands is no slower in the narrow type, and only contractions that gain read it."""
        if node.op_def.precision is not Precision.NARROWS or self.rates.speedup(node, self.narrow.dtype, between=True) < 1:
            return False
        found = {node, *readers(node, self.narrow.follow)} - self.gaining
        is_read = any(value in self.graph.outputs for user in found for value in user.results)
        return not is_read and all(user.op_def.precision in self.narrow.follow for user in found - {node})

    def to_new(self, value: Value) -> Value:
        """A constant is rounded at once: later passes pack it."""
        if value.constant is None:
            return self.builder.call("cast", value, dtype=self.narrow.dtype)
        return self.builder.constant(value.constant.astype(dtypes.numpy_dtype(self.narrow.dtype)), name=value.name)

    def to_old(self, value: Value, original: Value) -> Value:
        return self.builder.call("cast", value, dtype=original.dtype)


def readers(node: Node, through: Container[Precision]) -> set[Node]:
    """Returns what reads results of ``node``, also through operators of one result that follow it."""
    found, pending = set[Node](), [node]
    while pending:
        new = {user for value in pending.pop().results for user, _ in value.uses} - found
        found |= new
        pending += [user for user in new if user.op_def.precision in through and len(user.results) == 1]
    return found


def _computed(node: Node) -> list[Value]:
    return [v for v in node.operands if v is not None and _is_float32(v) and v.constant is None]


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
