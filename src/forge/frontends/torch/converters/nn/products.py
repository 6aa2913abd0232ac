"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose import products
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_ONE = complex(1)
"""The default of factors that may be complex, and need not be."""


@converts("linear.default")
def linear(g: Context, input: Value, weight: Value, bias: Value | None = None) -> Value:  # noqa: A002
    """``input @ weight.T + bias``; the weight is [N, K], or a vector [K] for one number per row."""
    if weight.rank == 2:
        return products.affine(g, input, weight, bias)
    return products.accumulated(g, products.matmul(g, input, weight), bias)


@converts("bilinear.default")
def bilinear(g: Context, input1: Value, input2: Value, weight: Value, bias: Value | None = None) -> Value:
    result = g.call("einsum", input1, weight, input2, equation="...i,kij,...j->...k")
    return products.accumulated(g, result, bias)


@converts("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default", "mm.dtype", "bmm.dtype")
def matmul(g: Context, self: Value, other: Value, *, out_dtype: str | None = None) -> Value:
    a, b = (v if out_dtype is None else g.cast(v, g.dtype) for v in (self, other))
    return products.matmul(g, a, b)


def _added(g: Context, base: Value, product: Value, beta: complex, alpha: complex) -> Value:
    result = products.accumulated(g, product, base, alpha=alpha, beta=beta)
    return result if beta or result.shape == g.shape else g.call("broadcast_to", result, shape=g.shape)


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
    return products.outer(g, g.cast(self, g.dtype), g.cast(vec2, g.dtype))


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
    return products.tensordot(g, self, other, (self.rank - 1,), (other.rank - 1,))


@converts("tensordot.default")
def tensordot(g: Context, self: Value, other: Value, *, dims_self: Sequence[int], dims_other: Sequence[int]) -> Value:
    ours = tuple(g.axis(a, self.rank, "dims_self") for a in dims_self)
    return products.tensordot(g, self, other, ours, tuple(g.axis(a, other.rank, "dims_other") for a in dims_other))


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
    return products.kron(g, g.cast(self, g.dtype), g.cast(other, g.dtype))
