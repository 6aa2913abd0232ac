"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.compose import products
from forge.compose.windows import same_padding, transposed_padding
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.ops.core.broadcast import for_product


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
    data = x if x.rank < 2 else for_product(g.builder, x, rows, -1)[0]
    return g.call("nn.dense", data, rows, units=rows.shape[0])


def transposed_matrix(g: Context, matrix: Value) -> Value:
    """The transpose; of a constant, a constant that is a view of it."""
    if matrix.constant is None:
        return g.call("transpose", matrix, axes=(1, 0))
    value = g.constant(matrix.constant.T)
    value.name = g.scope.unique(f"{matrix.name}_transposed") if matrix.name else ""
    return value


@converts("Gemm", since=1)
def gemm_1(
    g: Context,
    a: Value,
    b: Value,
    c: Value,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,  # noqa: N803
    transB: int = 0,  # noqa: N803
) -> Value:
    return gemm(g, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@converts("Gemm", since=7)
def gemm(
    g: Context,
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803
    transB: int = 0,  # noqa: N803
) -> Value:
    if a.rank != 2 or b.rank != 2:
        raise g.invalid(f"got ranks {a.rank} and {b.rank}; expected matrices")
    left = g.call("transpose", a, axes=(1, 0)) if transA else a
    result = _scaled(g, dense(g, left, b, bool(transB)), alpha)
    if c is None or beta == 0.0:
        return result
    return g.call("add", result, _scaled(g, c, beta))


def _scaled(g: Context, x: Value, factor: float) -> Value:
    return x if factor == 1.0 else g.call("multiply", x, g.scalar(factor, x))


@converts("Einsum", since=12)
def einsum(g: Context, *operands: Value, equation: str) -> Value:
    return g.call("einsum", *operands, equation=equation)


def window(
    g: Context,
    kernel: Sequence[Dim],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Strides and dilations, one for each axis of the kernel."""
    count = len(kernel)
    found = []
    for what, given in (("strides", strides), ("dilations", dilations)):
        values = (1,) * count if not given else tuple(given)
        if len(values) != count or min(values) < 1:
            raise g.invalid(f"attribute {what!r}: got {list(values)}; expected {count} positive numbers")
        found.append(values)
    return found[0], found[1]


def padding(
    g: Context,
    auto_pad: str,
    pads: Sequence[int] | None,
    spatial: Sequence[Dim],
    kernel: Sequence[Dim],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[Dim, ...]:
    """Padding before all spatial axes, then after them."""
    if auto_pad in ("NOTSET", ""):
        given = (0,) * (2 * len(spatial)) if not pads else tuple(pads)
        if len(given) != 2 * len(spatial):
            raise g.invalid(f"attribute 'pads': got {list(given)}; expected {2 * len(spatial)} numbers")
        return given
    if auto_pad == "VALID":
        return (0,) * (2 * len(spatial))
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise g.invalid(f"attribute 'auto_pad': got {auto_pad!r}; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    return same_padding(spatial, kernel, strides, dilations, upper=auto_pad == "SAME_UPPER")


def kernel_sizes(g: Context, weight: Value, kernel_shape: Sequence[int] | None) -> tuple[Dim, ...]:
    """The kernel's spatial sizes; the attribute must agree with the weight."""
    sizes = tuple(weight.shape[2:])
    if kernel_shape and (len(kernel_shape) != len(sizes) or any(dims.different(a, b) for a, b in zip(kernel_shape, sizes))):
        raise g.invalid(
            f"attribute 'kernel_shape': got {list(kernel_shape)}; the weight has {[str(s) for s in sizes]}; expected equal sizes"
        )
    return sizes


def spatial_rank(g: Context, x: Value, most: int = 3) -> int:
    """Number of spatial axes of a batch of images."""
    if not 3 <= x.rank <= most + 2:
        raise g.unsupported(f"got rank {x.rank}; supported: 3 to {most + 2}")
    return x.rank - 2


@converts("Conv", since=1)
def conv(
    g: Context,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Value:
    rank = spatial_rank(g, x)
    if weight.rank != x.rank:
        raise g.invalid(f"weight: got rank {weight.rank}; expected {x.rank}, that of the data")
    kernel = kernel_sizes(g, weight, kernel_shape)
    steps, holes = window(g, kernel, strides, dilations)
    around = padding(g, auto_pad, pads, x.shape[2:], kernel, steps, holes)
    result = g.call(f"nn.conv{rank}d", x, weight, strides=steps, padding=around, dilation=holes, groups=group, kernel_size=kernel)
    return result if bias is None else g.call("nn.bias_add", result, bias)


@converts("ConvTranspose", since=1)
def conv_transpose(
    g: Context,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    output_padding: tuple[int, ...] | None = None,
    output_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Value:
    rank = spatial_rank(g, x)
    kernel = kernel_sizes(g, weight, kernel_shape)
    steps, holes = window(g, kernel, strides, dilations)
    extra: tuple[Dim, ...] = tuple(output_padding or (0,) * rank)
    if output_shape:
        wanted = list(output_shape)[-rank:]
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [size * step for size, step in zip(x.shape[2:], steps)]
    else:
        wanted = []
    if wanted:
        around, extra = transposed_padding(x.shape[2:], kernel, steps, holes, extra, wanted, auto_pad == "SAME_UPPER")
    else:
        around = padding(g, auto_pad, pads, x.shape[2:], kernel, steps, holes)
    result = g.call(
        f"nn.conv{rank}d_transpose",
        x,
        weight,
        kernel_size=kernel,
        strides=steps,
        output_padding=extra,
        padding=around,
        dilation=holes,
        groups=group,
    )
    return result if bias is None else g.call("nn.bias_add", result, bias)
