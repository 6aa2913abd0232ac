"""Matrix products of operands of any rank."""

from __future__ import annotations

import string
from collections.abc import Sequence

from forge import dtypes
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


def scaled(g: Composer, x: Value, factor: complex) -> Value:
    """``factor * x``; integers wrap."""
    if factor == 1:
        return x
    if isinstance(factor, int) and dtypes.is_integer(x.dtype):
        factor = dtypes.wrap_int(factor, x.dtype)
    return g.call("multiply", x, g.constant(factor, x.dtype))


def accumulated(g: Composer, product: Value, base: Value | None, *, alpha: complex = 1, beta: complex = 1) -> Value:
    """``alpha * product + beta * base`` in the type of the product; a base that counts 0 times is not read."""
    result = scaled(g, product, alpha)
    return result if base is None or beta == 0 else g.call("add", result, scaled(g, g.cast(base, result.dtype), beta))


def elementwise(g: Composer, a: Value, b: Value) -> Value:
    """NumPy's ``multiply`` of operands of one type: of bools, whether both hold."""
    return g.call("logical_and" if a.dtype == "bool" else "multiply", a, b)


def outer(g: Composer, a: Value, b: Value) -> Value:
    """``out[i, j] = a[i] * b[j]``."""
    return elementwise(g, g.call("expand_dims", a, axis=1), b)


def tensordot(g: Composer, a: Value, b: Value, a_axes: Sequence[int], b_axes: Sequence[int]) -> Value:
    """The sum of products over pairs of axes; then the rest of the axes of ``a``, then those of ``b``."""
    letters = iter(string.ascii_letters)
    ours, theirs = ([next(letters) for _ in range(v.rank)] for v in (a, b))
    for left, right in zip(a_axes, b_axes):
        theirs[right] = ours[left]
    kept = [c for k, c in enumerate(ours) if k not in a_axes] + [c for k, c in enumerate(theirs) if k not in b_axes]
    return g.call("einsum", a, b, equation=f"{''.join(ours)},{''.join(theirs)}->{''.join(kept)}")


def kron(g: Composer, a: Value, b: Value) -> Value:
    """NumPy's ``kron``: each element of ``a`` times all of ``b``; axes of size 1 are put in front of the shorter shape."""
    rank = max(a.rank, b.rank)
    left, right = (g.reshape(v, (*[1] * (rank - v.rank), *v.shape)) for v in (a, b))
    spread = g.reshape(left, [size for d in left.shape for size in (d, 1)])
    product = elementwise(g, spread, g.reshape(right, [size for d in right.shape for size in (1, d)]))
    return g.reshape(product, [m * n for m, n in zip(left.shape, right.shape)])
