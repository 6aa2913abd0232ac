"""``flex_attention``: attention whose scores and mask are parts of the program, written for one score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.control.control import inlined
from forge.frontends.torch.program import Program, TensorMeta, refs
from forge.frontends.torch.registry import REGISTRY, converts, key
from forge.ir.nodes import Value

_ALSO = frozenset(("index.Tensor", "where.self", "full.default", "scalar_tensor.default", "to.dtype", "_to_copy.default",
                   "clone.default", "lift_fresh_copy.default", "detach.default", "full_like.default"))
"""What a part may do with one score, besides element-wise operators."""

_NEW = frozenset(("new_ones.default", "new_zeros.default", "new_full.default"))
"""Of which only the element type depends on the score."""


@converts("flex_attention", domain="higher_order")
def flex_attention(
    g: Context, query: Value, key_: Value, value: Value, score_mod: Program, block_mask: Sequence[Any], scale: Any,
    options: Any = None, score_others: Sequence[Any] = (), mask_others: Sequence[Any] = (),
) -> list[Value | None]:
    """softmax(score_mod(query keyᵀ * scale), where mask_mod holds) value; 0 for queries that see no key.

    The blocks of a mask say which of its elements are computed at all, and not what they are.
    """
    if any(g.wants(k) for k in range(1, g.num_outputs)):
        raise g.unsupported("it reads sums or extremes of scores, which flex_attention gives, too; supported: its first result")
    batch, heads, rows = query.shape[:3]
    columns = key_.shape[2]
    keys, values = (_repeated(g, v, batch, heads) for v in (key_, value))
    q, k = (g.cast(v, "float32") if v.dtype in ("float16", "bfloat16") else v for v in (query, keys))
    scores = g.call("nn.batch_matmul", _flat(g, q), _flat(g, k), transpose_b=True)
    shape = (batch, heads, rows, columns)
    scores = g.reshape(scores, shape)
    scores = g.call("multiply", scores, g.tensor(scale, scores.dtype))
    places = [_places(g, shape, axis) for axis in range(4)]
    scores = g.cast(_of_each(g, score_mod, [scores, *places], score_others, shape), scores.dtype)
    held = _of_each(g, block_mask[-1], places, mask_others, shape)
    lowest = g.scalar(-math.inf, scores)
    weights = g.call("nn.softmax", g.call("where", held, scores, lowest), axis=-1)
    seen = g.call("any", g.call("logical_and", held, g.call("greater", scores, lowest)), axis=(3,), keepdims=True)
    weights = g.cast(g.call("where", seen, weights, g.scalar(0, weights)), value.dtype)
    result = g.call("nn.batch_matmul", _flat(g, weights), _flat(g, values), transpose_b=False)
    return [g.reshape(result, (batch, heads, rows, value.shape[3])), None, None]


def _flat(g: Context, value: Value) -> Value:
    """``value`` with its batches and heads as one axis."""
    batch, heads, rows, columns = value.shape
    return g.reshape(value, (batch * heads, rows, columns))


def _repeated(g: Context, value: Value, batch: Dim, heads: Dim) -> Value:
    """Keys or values for each head of the queries, of which several may share one."""
    own_batch, own_heads, rows, columns = value.shape
    if own_heads != heads:
        if not isinstance(heads, int) or not isinstance(own_heads, int):
            raise g.unsupported(f"got {heads} heads of queries and {own_heads} of keys; supported: fixed numbers")
        value = g.call("repeat", value, repeats=heads // own_heads, axis=1)
    return value if own_batch == batch else g.call("broadcast_to", value, shape=(batch, heads, rows, columns))


def _places(g: Context, shape: tuple[Dim, ...], axis: int) -> Value:
    """The number of each score along ``axis``, of type int32."""
    ends = (g.constant(0, "int32"), g.cast(g.scope.size(g, shape[axis]), "int32"), g.constant(1, "int32"))
    numbers = g.call("arange", *ends, dtype="int32")
    along = tuple(shape[axis] if k == axis else 1 for k in range(4))
    return g.call("broadcast_to", g.reshape(numbers, along), shape=shape)


def _of_each(g: Context, part: Program, given: Sequence[Value], others: Sequence[Any], shape: tuple[Dim, ...]) -> Value:
    """What ``part``, which is of one score, gives for all of them: its numbers of rank 0 become tensors of ``shape``.

    Raises:
        OpAttributeUnimplemented: it has operators that are not of single elements.
    """
    many = {item.name for item in part.inputs[: len(given)]}
    metas = dict(part.metas)
    for step in part.steps:
        if not many.intersection(name for argument in step.arguments.values() for name in refs(argument)):
            continue
        _, op = key(step.target)
        if op in _NEW:
            continue
        row = REGISTRY.lookup("", op, 1)
        is_single = row is not None and ".converters.elementwise." in row.function.__module__
        found = [metas.get(name) for name in step.outputs]
        if not (is_single or op in _ALSO) or any(not isinstance(m, TensorMeta) or m.shape for m in found):
            raise g.unsupported(f"{part.where}: {step.target}: supported: element-wise operators, reads of tensors by indices")
        many.update(step.outputs)
    for name in many:
        meta = metas.get(name)
        if isinstance(meta, TensorMeta):
            metas[name] = replace(meta, shape=shape, strides=None)
    (result,) = inlined(g, replace(part, metas=metas), [*given, *others])
    return g.call("broadcast_to", g.tensor(result), shape=shape)
