"""Computes in bfloat16 where that is safe; inputs and outputs keep their types.

Contractions become bfloat16 (they accumulate in float32). Movement, element-wise functions, pools and normalisations follow where
all computed operands are bfloat16 already: what is between two of them is stored in half the bytes, while kernels compute it in
float32. Softmax, reductions and all other operators get float32 operands, and contractions on the way to a softmax give them. A
node stays float32 where it has constants that count (whole and half numbers) which bfloat16 cannot hold. Recurrent layers keep
states and gates in float32 and multiply with weights of bfloat16.
"""

from __future__ import annotations

import numpy as np

from forge import dtypes
from forge.ir.nodes import Graph, Node
from forge.passes import to_float16
from forge.passes.base import PassContext
from forge.passes.rewriting import before, live_nodes, on_all_graphs
from forge.passes.split_recurrent import LAYERS as RECURRENT

NORMALISATIONS = frozenset("nn.softmax nn.log_softmax".split())
FOLLOW = to_float16.FOLLOW | frozenset(
    "nn.gelu nn.silu nn.mish nn.elu nn.selu nn.celu nn.softplus nn.softsign nn.global_avg_pool2d nn.global_max_pool2d "
    "nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d nn.adaptive_max_pool1d nn.adaptive_max_pool2d "
    "nn.adaptive_max_pool3d nn.layer_norm nn.rms_norm nn.group_norm nn.instance_norm nn.upsampling image.resize2d erf".split()
)


def run(graph: Graph, context: PassContext) -> int:
    """Returns the number of nodes that compute in bfloat16 now."""
    converted = to_float16.convert(graph, to_float16.Precision("bfloat16", to_float16.ALWAYS, FOLLOW, _fits, _feeds_softmax))
    return converted + on_all_graphs(graph, lambda g: sum(_narrow_weights(g, n) for n in live_nodes(g) if n.op in RECURRENT))


def _narrow_weights(graph: Graph, node: Node) -> int:
    """Constant weights of a recurrent layer in bfloat16."""
    x, *values = node.operands[:3]
    builder, count = before(graph, node), 0
    if x is None or x.dtype != "float32":
        return 0
    for position, value in enumerate(values, 1):
        if value is not None and value.constant is not None and value.dtype == "float32":
            narrow = value.constant.astype(dtypes.numpy_dtype("bfloat16"))
            node.set_operand(position, builder.constant(narrow, name=value.name))
            count = 1
    return count


def run_if_asked(graph: Graph, context: PassContext) -> int:
    """``run`` where option ``bfloat16`` is set."""
    return run(graph, context) if context.options.get("bfloat16") else 0


def _fits(node: Node) -> bool:
    """Whether bfloat16 holds the finite constants, and exactly those that count: whole and half numbers."""
    return all(_holds(x[np.isfinite(x)]) for x in to_float16.numbers(node))


def _holds(numbers: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        doubled, rounded = numbers * 2, numbers.astype(dtypes.numpy_dtype("bfloat16")).astype(numbers.dtype)
    counts = bool(np.all(doubled == np.round(doubled))) and bool(np.all(np.abs(numbers) < 2**23))
    return bool(np.all(np.isfinite(rounded))) and (not counts or bool(np.all(rounded == numbers)))


def _feeds_softmax(node: Node) -> bool:
    """Whether the result of a contraction reaches a softmax through element-wise operators and changes of shape."""
    if node.op not in to_float16.ALWAYS or not hasattr(node.attrs, "out_dtype"):
        return False
    pending, seen = [node], {node}
    while pending:
        users = {user for user, _ in pending.pop().results[0].uses}
        if any(user.op in NORMALISATIONS for user in users):
            return True
        new = {user for user in users if user.op in to_float16.FOLLOW and len(user.results) == 1} - seen
        seen |= new
        pending += new
    return False
