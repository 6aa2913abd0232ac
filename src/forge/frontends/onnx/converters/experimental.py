"""Operators of Caffe2 that ONNX had as experimental ones, and no longer specifies; exporters of 2017 and 2018 wrote them."""

from __future__ import annotations

from forge import dims
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.nn.matmul import dense
from forge.frontends.onnx.converters.nn.normalization import batch_norm
from forge.frontends.onnx.registry import converts


@converts("Affine")
def affine(g: Context, x: Value, *, alpha: float = 1.0, beta: float = 0.0) -> Value:
    """``alpha * x + beta``."""
    return g.call("add", g.call("multiply", x, g.scalar(alpha, x)), g.scalar(beta, x))


@converts("Scale")
def scale(g: Context, x: Value, *, scale: float = 1.0) -> Value:
    """``scale * x``."""
    return g.call("multiply", x, g.scalar(scale, x))


@converts("ScaledTanh")
def scaled_tanh(g: Context, x: Value, *, alpha: float = 1.0, beta: float = 1.0) -> Value:
    """``alpha * tanh(beta * x)``."""
    return scale(g, g.call("tanh", scale(g, x, scale=beta)), scale=alpha)


@converts("ParametricSoftplus")
def parametric_softplus(g: Context, x: Value, *, alpha: float = 1.0, beta: float = 1.0) -> Value:
    """``alpha * log(exp(beta * x) + 1)``."""
    return scale(g, g.call("nn.softplus", scale(g, x, scale=beta)), scale=alpha)


@converts("FC")
def fully_connected(g: Context, x: Value, weight: Value, bias: Value | None = None, *, axis: int = 1, axis_w: int = 1) -> Value:
    """``x @ weight.T + bias``: rows of ``x`` are its axes from ``axis`` on, those of the weight its axes from ``axis_w`` on.

    The result has the axes of ``x`` before ``axis``, and one for the rows of the weight.
    """
    first = g.axis(axis, x.rank)
    rows = _as_matrix(g, weight, g.axis(axis_w, weight.rank, "axis_w"))
    result = dense(g, _as_matrix(g, x, first), rows, transposed=True)
    result = g.reshape(result, (*x.shape[:first], rows.shape[0]))
    return result if bias is None else g.call("add", result, bias)


def _as_matrix(g: Context, x: Value, axis: int) -> Value:
    sizes: tuple[Dim, ...] = (dims.product(x.shape[:axis]), dims.product(x.shape[axis:]))
    return g.reshape(x, sizes)


@converts("SpatialBN")
def spatial_batch_norm(
    g: Context, x: Value, scale: Value, bias: Value, mean: Value, variance: Value,
    *, epsilon: float = 1e-5, is_test: int | None = None, momentum: float = 0.9, order: str = "NCHW",
) -> list[Value]:
    """BatchNormalization by channel."""
    if order != "NCHW":
        raise g.unsupported(f"attribute 'order': got {order!r}; supported: 'NCHW'")
    return batch_norm(g, x, scale, bias, mean, variance, epsilon=epsilon, is_test=is_test, momentum=momentum)
