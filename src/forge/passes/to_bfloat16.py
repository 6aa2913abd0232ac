"""Computes in bfloat16 where that is safe and saves time; inputs and outputs keep their types.

Contractions become bfloat16 (they accumulate in float32). Movement, element-wise functions, pools and normalizations follow where
all computed operands are bfloat16 already: what is between two of them is stored in half the bytes, while kernels compute it in
float32. Softmax, reductions and all other operators get float32 operands, and contractions on the way to a softmax give them. A
node stays float32 where it has constants that count (whole and half numbers) which bfloat16 cannot hold. Recurrent layers keep
states and gates in float32, and multiply with weights of bfloat16 where the target adds their products in groups: whole vectors
of them, or those of several rows in tile registers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import backend, dtypes
from forge.ir.edits.rewrite import before, on_all_graphs
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.op import Precision
from forge.options import CompileOptions
from forge.passes import to_float16
from forge.passes.split_recurrent import has_rows


def run(graph: Graph, options: CompileOptions) -> int:
    """Returns the number of nodes that compute in bfloat16 now."""
    follow = {Precision.FOLLOWS, Precision.FOLLOWS_IN_RANGE}
    converted = to_float16.convert(graph, to_float16.NarrowType("bfloat16", follow, _fits, _feeds_sensitive), options)
    return converted + on_all_graphs(graph, lambda g: sum(_narrow_weights(g, n, options) for n in g.nodes))


def _narrow_weights(graph: Graph, node: Node, options: CompileOptions) -> int:
    """Constant weights of an operator that computes in float32 in bfloat16, where their products are added in groups."""
    if node.op_def.precision is not Precision.NARROW_WEIGHTS:
        return 0
    x, *values = node.operands[:3]
    builder, count = before(graph, node), 0
    if x is None or x.dtype != "float32" or not _adds_groups(node, values, options):
        return 0
    for position, value in enumerate(values, 1):
        if value is not None and value.constant is not None and value.dtype == "float32":
            narrow = value.constant.astype(dtypes.numpy_dtype("bfloat16"))
            node.set_operand(position, builder.constant(narrow, name=value.name))
            count = 1
    return count


def _adds_groups(layer: Node, weights: Sequence[Value | None], options: CompileOptions) -> bool:
    """Whether the products of the states with the last of ``weights`` are added in groups."""
    layouts, weight = backend.of(options.target).layouts, weights[-1]
    if layouts is None or weight is None:
        return True
    found = layouts(options.target)
    group = found.group_size("bfloat16", "bfloat16")
    filled = found.filled_group("bfloat16") > 1 and has_rows(layer) and all(v is None or v.constant is not None for v in weights)
    return group > 1 and (filled or weight.shape[-1] % (group * found.channel_block()) == 0)


def _fits(node: Node) -> bool:
    """Whether bfloat16 holds the finite constants, and exactly those that count: whole and half numbers."""
    return all(_holds(x[np.isfinite(x)]) for x in to_float16.numbers(node))


def _holds(numbers: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        doubled, rounded = numbers * 2, numbers.astype(dtypes.numpy_dtype("bfloat16")).astype(numbers.dtype)
    counts = bool(np.all(doubled == np.round(doubled))) and bool(np.all(np.abs(numbers) < 2**23))
    return bool(np.all(np.isfinite(rounded))) and (not counts or bool(np.all(rounded == numbers)))


def _feeds_sensitive(node: Node) -> bool:
    """Whether the result of a contraction reaches what magnifies its errors, as softmax does, through what would follow."""
    if node.op_def.precision is not Precision.NARROWS or not hasattr(node.attrs, "out_dtype"):
        return False
    return any(user.op_def.precision is Precision.SENSITIVE for user in to_float16.readers(node, {Precision.FOLLOWS}))
