"""``flex_attention``: attention whose scores and mask are parts of the program, written for one score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from forge.compose.attention import score_type, scored_attention
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
    shape = (*query.shape[:3], key_.shape[2])

    def score(scores: Value, places: Sequence[Value]) -> Value:
        return _of_each(g, score_mod, [scores, *places], score_others, shape)

    def holds(places: Sequence[Value]) -> Value:
        return _of_each(g, block_mask[-1], places, mask_others, shape)

    factor = g.tensor(scale, score_type(query.dtype))
    return [scored_attention(g, query, key_, value, factor, score, holds), None, None]


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
