"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

from forge import dims
from forge.compose import products
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context


def matmul(a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul") -> Tensor:
    """``a @ b``, as NumPy's: leading axes broadcast, vectors stand for matrices of one row or column.

    Args:
        out_dtype: in which products are summed, and of the result; by default that of the operands.

    Raises:
        OptionError: sizes do not fit, or an operand has no axis.

    >>> nn.matmul([[1, 2], [3, 4]], [[1, 0], [0, 2]]).numpy().tolist()
    [[1, 4], [3, 8]]
    """
    g = Context(name)
    left, right = g.alike(a, b)
    _check_inner(name, left, right, -1 if right.rank == 1 else -2)
    return g.tensor(products.matmul(g, *_wide(g, out_dtype, left, right)))


def _check_inner(name: str, a: Value, b: Value, axis: int) -> None:
    if not a.rank or not b.rank:
        raise OptionError(f"{name}: got {a.type} and {b.type}; expected at least one axis each")
    if dims.different(a.shape[-1], b.shape[axis]):
        raise OptionError(f"{name}: got {a.type} and {b.type}; expected {a.shape[-1]} for {b.shape[axis]}")


def _wide(g: Context, out_dtype: str | None, *values: Value) -> list[Value]:
    return list(values) if out_dtype is None else [g.cast(v, g.dtype(out_dtype)) for v in values]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None, name: str = "linear") -> Tensor:
    """``x @ weight.T + bias``.

    Args:
        x: ``(..., in)``.
        weight: ``(out, in)``.
        bias: ``(out,)``, of the type of ``x`` or of the result.
        out_dtype: in which products are summed, and of the result; by default that of ``x``.

    >>> nn.linear([1.0, 2.0], [[1.0, 1.0], [0.0, 3.0]], [0.5, 0.0]).numpy().tolist()
    [3.5, 6.0]
    """
    g = Context(name)
    data, matrix = g.alike(x, weight)
    if matrix.rank != 2:
        raise OptionError(f"{name}: weight: got {matrix.type}; expected (out, in)")
    _check_inner(name, data, matrix, -1)
    wide, wide_matrix = _wide(g, out_dtype, data, matrix)
    shift = None if bias is None else g.value(bias)
    if shift is not None and shift.dtype not in (data.dtype, wide.dtype):
        raise OptionError(f"{name}: bias: got {shift.dtype}; expected {wide.dtype}; convert with astype")
    return g.tensor(products.affine(g, wide, wide_matrix, None if shift is None else g.cast(shift, wide.dtype)))


def einsum(equation: str, *operands: Tensor, name: str = "einsum") -> Tensor:
    """Sums of products over named axes, as ``numpy.einsum``: ``einsum("bij,bjk->bik", a, b)``.

    >>> nn.einsum('ij,j->i', [[1, 2], [3, 4]], [1, 10]).numpy().tolist()
    [21, 43]
    """
    g = Context(name)
    if not isinstance(equation, str) or not operands:
        raise OptionError(f"{name}: got {equation!r} and {len(operands)} operands; expected an equation and at least one")
    return g.tensor(g.call("einsum", *g.alike(*operands), equation=equation))


def outer(a: Tensor, b: Tensor, name: str = "outer") -> Tensor:
    """``a[i] * b[j]`` of two vectors.

    >>> nn.outer([1, 2], [1, 10]).numpy().tolist()
    [[1, 10], [2, 20]]
    """
    g = Context(name)
    left, right = g.alike(a, b)
    if left.rank != 1 or right.rank != 1:
        raise OptionError(f"{name}: got {left.type} and {right.type}; expected two vectors")
    return g.tensor(products.outer(g, left, right))


def dot(a: Tensor, b: Tensor, name: str = "dot") -> Tensor:
    """The sum of the products of two vectors.

    >>> nn.dot([1, 2], [1, 10]).numpy().tolist()
    21
    """
    g = Context(name)
    left, right = g.alike(a, b)
    if left.rank != 1 or right.rank != 1 or dims.different(left.shape[0], right.shape[0]):
        raise OptionError(f"{name}: got {left.type} and {right.type}; expected two vectors of one size")
    return g.tensor(products.matmul(g, left, right))


def cosine_similarity(a: Any, b: Any, axis: int = -1, eps: float = 1e-8, name: str = "cosine_similarity") -> Tensor:
    """``sum(a * b) / max(|a| * |b|, eps)`` along ``axis``.

    >>> nn.cosine_similarity([3.0, 4.0], [4.0, 3.0]).numpy().tolist()
    0.96
    """
    from forge.nn.functions.elementwise import divide, maximum, multiply
    from forge.nn.functions.reductions import norm
    from forge.nn.functions.reductions import sum as total

    lengths = multiply(norm(a, 2, axis), norm(b, 2, axis))
    return divide(total(multiply(a, b), axis), maximum(lengths, eps), name)


def normalize(x: Tensor, p: float = 2, axis: int = 1, eps: float = 1e-12, name: str = "normalize") -> Tensor:
    """``x / max(norm(x), eps)`` along ``axis``.

    >>> nn.normalize([[3.0, 4.0]]).numpy().tolist()
    [[0.6, 0.8]]
    """
    from forge.nn.functions.elementwise import divide, maximum
    from forge.nn.functions.reductions import norm

    return divide(x, maximum(norm(x, p, axis, keepdims=True), eps), name)
