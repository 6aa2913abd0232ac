"""Matrix products."""

from __future__ import annotations

import string
from collections.abc import Sequence

from forge.compose import products
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.elementwise.arithmetic import multiply
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_ONE = complex(1)
"""The default of factors that may be complex, and need not be."""


@converts("linear.default")
def linear(g: Context, input: Value, weight: Value, bias: Value | None = None) -> Value:  # noqa: A002
    """``input @ weight.T + bias``; the weight is [N, K], or a vector [K] for one number per row."""
    product = products.dense(g, input, weight) if weight.rank == 2 else products.matmul(g, input, weight)
    return product if bias is None else g.call("add", product, bias)


@converts("bilinear.default")
def bilinear(g: Context, input1: Value, input2: Value, weight: Value, bias: Value | None = None) -> Value:
    result = g.call("einsum", input1, weight, input2, equation="...i,kij,...j->...k")
    return result if bias is None else g.call("add", result, bias)


@converts("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default", "mm.dtype", "bmm.dtype")
def matmul(g: Context, self: Value, other: Value, *, out_dtype: str | None = None) -> Value:
    a, b = (v if out_dtype is None else g.cast(v, g.dtype) for v in (self, other))
    return products.matmul(g, a, b)


def _scaled(g: Context, x: Value, factor: complex) -> Value:
    return x if factor == 1 else g.call("multiply", x, g.tensor(factor, x.dtype))


def _added(g: Context, base: Value, product: Value, beta: complex, alpha: complex) -> Value:
    """``beta * base + alpha * product``; a base that counts 0 times is not read."""
    result = _scaled(g, product, alpha)
    if beta == 0:
        return result if result.shape == g.shape else g.call("broadcast_to", result, shape=g.shape)
    return g.call("add", result, _scaled(g, g.cast(base, result.dtype), beta))


@converts("addmm.default", "addmv.default", "baddbmm.default")
def add_product(g: Context, self: Value, a: Value, b: Value, *, beta: complex = _ONE, alpha: complex = _ONE) -> Value:
    return _added(g, self, products.matmul(g, a, b), beta, alpha)


@converts("addmm.dtype", "baddbmm.dtype")
def add_wide_product(
    g: Context, self: Value, a: Value, b: Value, *, out_dtype: str, beta: complex = _ONE, alpha: complex = _ONE
) -> Value:
    return _added(g, self, products.matmul(g, g.cast(a, g.dtype), g.cast(b, g.dtype)), beta, alpha)


@converts("_addmm_activation.default")
def add_product_activated(
    g: Context, self: Value, mat1: Value, mat2: Value, *, beta: complex = _ONE, alpha: complex = _ONE, use_gelu: bool = False
) -> Value:
    result = _added(g, self, products.matmul(g, mat1, mat2), beta, alpha)
    return g.call("nn.gelu", result, approximate="tanh") if use_gelu else g.call("nn.relu", result)


@converts("addbmm.default")
def add_sum_of_products(
    g: Context, self: Value, batch1: Value, batch2: Value, *, beta: complex = _ONE, alpha: complex = _ONE
) -> Value:
    return _added(g, self, g.call("einsum", batch1, batch2, equation="bij,bjk->ik"), beta, alpha)


@converts("outer.default", "ger.default")
def outer(g: Context, self: Value, vec2: Value) -> Value:
    column = g.call("expand_dims", g.cast(self, g.dtype), axis=1)
    if g.dtype == "bool":
        return g.call("logical_and", column, vec2)
    return g.call("multiply", column, g.cast(vec2, g.dtype))


@converts("addr.default")
def add_outer(g: Context, self: Value, vec1: Value, vec2: Value, *, beta: complex = _ONE, alpha: complex = _ONE) -> Value:
    product = outer(g, vec1, vec2)
    if g.dtype != "bool":
        return _added(g, self, product, beta, alpha)
    product = product if alpha else g.call("logical_and", product, g.constant(False))
    return g.call("logical_or", product, self) if beta else product


@converts("vdot.default")
def vdot(g: Context, self: Value, other: Value) -> Value:
    return products.matmul(g, _conjugate(g, self), other)


@converts("linalg_vecdot.default")
def vecdot(g: Context, x: Value, y: Value, *, dim: int = -1) -> Value:
    product = g.call("multiply", _conjugate(g, x), y)
    return g.call("sum", product, axis=g.axis(dim, product.rank, "dim"), keepdims=False)


def _conjugate(g: Context, x: Value) -> Value:
    return g.call("complex.conj", x) if x.dtype.startswith("complex") else x


@converts("inner.default")
def inner(g: Context, self: Value, other: Value) -> Value:
    if not self.rank or not other.rank:
        return g.call("multiply", self, other)
    return _contracted(g, self, other, (self.rank - 1,), (other.rank - 1,))


@converts("tensordot.default")
def tensordot(g: Context, self: Value, other: Value, *, dims_self: Sequence[int], dims_other: Sequence[int]) -> Value:
    ours = tuple(g.axis(a, self.rank, "dims_self") for a in dims_self)
    return _contracted(g, self, other, ours, tuple(g.axis(a, other.rank, "dims_other") for a in dims_other))


def _contracted(g: Context, a: Value, b: Value, a_axes: Sequence[int], b_axes: Sequence[int]) -> Value:
    """The sum of products over pairs of axes; then the rest of the axes of ``a``, then those of ``b``."""
    letters = iter(string.ascii_letters)
    ours, theirs = ([next(letters) for _ in range(v.rank)] for v in (a, b))
    for left, right in zip(a_axes, b_axes):
        theirs[right] = ours[left]
    kept = [c for k, c in enumerate(ours) if k not in a_axes] + [c for k, c in enumerate(theirs) if k not in b_axes]
    return g.call("einsum", a, b, equation=f"{''.join(ours)},{''.join(theirs)}->{''.join(kept)}")


@converts("einsum.default")
def einsum(g: Context, tensors: Sequence[Value], *, equation: str, path: Sequence[int] | None = None) -> Value:
    return g.call("einsum", *(g.cast(t, g.dtype) for t in tensors), equation=equation.replace(" ", ""))


@converts("chain_matmul.default", "linalg_multi_dot.default")
def chain_matmul(g: Context, matrices: Sequence[Value]) -> Value:
    result = matrices[0]
    for matrix in matrices[1:]:
        result = products.matmul(g, result, matrix)
    return result


@converts("kron.default")
def kronecker(g: Context, self: Value, other: Value) -> Value:
    rank = max(self.rank, other.rank)
    left, right = (g.cast(g.reshape(v, (*[1] * (rank - v.rank), *v.shape)), g.dtype) for v in (self, other))
    spread = g.reshape(left, [size for d in left.shape for size in (d, 1)])
    product = multiply(g, spread, g.reshape(right, [size for d in right.shape for size in (1, d)]))
    return g.reshape(product, [a * b for a, b in zip(left.shape, right.shape)])
