"""Matrix products, and what else is of linear algebra."""

from __future__ import annotations

from forge import dims
from forge.compose import products
from forge.frontends.converter import REQUIRED, forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts

converts("Det", since=11)(forwarding("linalg.determinant"))
converts("Einsum", since=12)(forwarding("einsum", None, equation=REQUIRED))


@converts("MatMul", since=1)
def matmul(g: Context, a: Value, b: Value) -> Value:
    """NumPy's product. A constant matrix on the right becomes the weight of ``nn.dense``."""
    if b.rank == 2 and a.rank >= 1 and g.array(b) is not None:
        return dense(g, a, b, transposed=False)
    if g.convert_config.get("use_nt_batch_matmul") and a.rank == b.rank == 3 and _fits(a, b):
        return g.call("nn.batch_matmul", a, g.call("transpose", b, axes=(0, 2, 1)), transpose_b=True)
    return products.matmul(g, a, b)


def _fits(a: Value, b: Value) -> bool:
    """Whether batches and summed axes are known to be equal."""
    return dims.equal(a.shape[0], b.shape[0]) and dims.equal(a.shape[2], b.shape[1])


def dense(g: Context, x: Value, weight: Value, transposed: bool) -> Value:
    """``x`` times a matrix, given as [K, N], or [N, K] when ``transposed``."""
    rows = weight if transposed else transposed_matrix(g, weight)
    return products.dense(g, x, rows)


def transposed_matrix(g: Context, matrix: Value) -> Value:
    """The transpose; of a constant, a constant that is a view of it."""
    if matrix.constant is None:
        return g.call("transpose", matrix, axes=(1, 0))
    value = g.constant(matrix.constant.T)
    value.name = g.scope.unique(f"{matrix.name}_transposed") if matrix.name else ""
    return value


@converts("Gemm", since=1)
def gemm_1(
    g: Context, a: Value, b: Value, c: Value,
    *, alpha: float = 1.0, beta: float = 1.0, broadcast: int = 0, transA: int = 0, transB: int = 0,  # noqa: N803
) -> Value:
    return gemm(g, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@converts("Gemm", since=7)
def gemm(
    g: Context, a: Value, b: Value, c: Value | None = None,
    *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,  # noqa: N803
) -> Value:
    if a.rank != 2 or b.rank != 2:
        raise g.invalid(f"got ranks {a.rank} and {b.rank}; expected matrices")
    left = g.call("transpose", a, axes=(1, 0)) if transA else a
    return products.accumulated(g, dense(g, left, b, bool(transB)), c, alpha=alpha, beta=beta)
