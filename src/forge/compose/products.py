"""Matrix products of operands of any rank."""

from __future__ import annotations

from forge.ir.nodes import Value
from forge.ops.core.broadcast import for_product
from forge.ops.core.composer import Composer


def matmul(g: Composer, a: Value, b: Value) -> Value:
    """NumPy's product: vectors stand for matrices of one row or column, leading axes broadcast.

    Raises:
        OpAttributeInvalid: an operand is a scalar.
    """
    if a.rank == 0 or b.rank == 0:
        raise g.invalid("got a scalar; expected rank 1 or more")
    left = g.reshape(a, (1, *a.shape)) if a.rank == 1 else a
    right = g.reshape(b, (*b.shape, 1)) if b.rank == 1 else b
    result = g.call("nn.matmul", *for_product(g.builder, left, right))
    shape = list(result.shape)
    if b.rank == 1:
        del shape[-1]
    if a.rank == 1:
        del shape[-1 if b.rank == 1 else -2]
    return g.reshape(result, shape)


def dense(g: Composer, x: Value, weight: Value) -> Value:
    """``x`` of any rank times the transpose of ``weight``, [N, K]."""
    data = x if x.rank < 2 else for_product(g.builder, x, weight, -1)[0]
    return g.call("nn.dense", data, weight, units=weight.shape[0])


def affine(g: Composer, x: Value, weight: Value, bias: Value | None) -> Value:
    """``x @ weight.T + bias``, for weight [N, K]."""
    product = dense(g, x, weight)
    return product if bias is None else g.call("add", product, bias)
