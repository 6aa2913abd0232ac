"""Matrix products with what was fused into them: transposes, factors, activations."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.converters.microsoft.activations import activated, fast_gelu
from forge.frontends.onnx.converters.nn.matmul import dense, gemm, matmul
from forge.frontends.onnx.registry import converts


@converts("FusedMatMul", domain=DOMAIN)
@converts("TransposeMatMul", domain=DOMAIN, lacks=("transBatchA", "transBatchB"))
def fused_matmul(
    g: Context, a: Value, b: Value,
    *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0, transBatchB: int = 0,  # noqa: N803
) -> Value:
    """``alpha * a @ b``. ``transBatch``: the first axis stands where the rows should; vectors are never transposed."""
    left = _oriented(g, a, bool(transA), bool(transBatchA))
    if b.rank == 2 and transB and g.array(b) is not None:
        product = dense(g, left, b, transposed=True)
    else:
        product = matmul(g, left, _oriented(g, b, bool(transB), bool(transBatchB)))
    return product if alpha == 1.0 else g.call("multiply", product, g.scalar(alpha, product))


def _oriented(g: Context, x: Value, swapped: bool, batch_first: bool) -> Value:
    order = list(range(x.rank))
    if x.rank < 2:
        return x
    if batch_first:
        order = [*order[1:-1], 0, order[-1]]
    if swapped:
        order[-2:] = reversed(order[-2:])
    return x if order == list(range(x.rank)) else g.call("transpose", x, axes=tuple(order))


@converts("FusedMatMulActivation", domain=DOMAIN)
def fused_matmul_activation(
    g: Context, a: Value, b: Value,
    *, activation: str, activation_alpha: float | None = None, activation_axis: int | None = None,
    activation_beta: float | None = None, activation_gamma: float | None = None, alpha: float = 1.0,
    transA: int = 0, transB: int = 0, transBatchA: int = 0, transBatchB: int = 0,  # noqa: N803
) -> Value:
    product = fused_matmul(
        g, a, b, alpha=alpha, transA=transA, transB=transB, transBatchA=transBatchA, transBatchB=transBatchB
    )
    if activation in ("Softmax", "LogSoftmax"):
        place = g.axis(-1 if activation_axis is None else activation_axis, product.rank, "attribute 'activation_axis'")
        return g.call("nn.softmax" if activation == "Softmax" else "nn.log_softmax", product, axis=place)
    return activated(g, product, activation, _given(activation_alpha, activation_beta, activation_gamma))


def _given(*parameters: float | None) -> list[float]:
    return [p for p in parameters if p is not None]


@converts("FusedGemm", domain=DOMAIN)
def fused_gemm(
    g: Context, a: Value, b: Value, c: Value | None = None,
    *, activation: str | None = None, activation_alpha: float | None = None, activation_beta: float | None = None,
    activation_gamma: float | None = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,  # noqa: N803
) -> Value:
    total = gemm(g, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return activated(g, total, activation, _given(activation_alpha, activation_beta, activation_gamma))


@converts("GemmFastGelu", domain=DOMAIN)
def gemm_fast_gelu(g: Context, x: Value, weight: Value, bias: Value | None = None) -> Value:
    return fast_gelu(g, matmul(g, x, weight), bias)
