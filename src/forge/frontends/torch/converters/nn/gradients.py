"""Gradients of layers, which programs of training hold. A result that ``output_mask`` leaves out is None."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.nn.convolution import batched, per_axis, unbatched
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term

Ints = Sequence[int]


def _sum(g: Context, x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    return g.call("sum", x, axis=tuple(axes), keepdims=keepdims) if axes else x


def _wide(x: Value) -> str:
    return "float64" if x.dtype == "float64" else "float32"


@converts("native_layer_norm_backward.default")
def layer_norm_backward(
    g: Context, grad_out: Value, input: Value, mean: Value, rstd: Value, weight: Value | None = None,  # noqa: A002
    bias: Value | None = None, *, normalized_shape: Sequence[Dim], output_mask: Sequence[bool],
) -> list[Value | None]:
    """Gradients of input, weight and bias."""
    first, wide = input.rank - len(normalized_shape), _wide(input)
    inner, outer = range(first, input.rank), range(first)
    grad, x, centre, scale = (Term(g, g.cast(v, wide)) for v in (grad_out, input, mean, rstd))
    normal = (x - centre) * scale
    scaled = grad if weight is None else grad * Term(g, g.cast(weight, wide))
    own = _centred(g, scaled, normal, scale, inner) if output_mask[0] else None
    of_weight = _sum(g, (grad * normal).value, outer) if output_mask[1] else None
    of_bias = _sum(g, grad.value, outer) if output_mask[2] else None
    return [None if v is None else g.cast(v, input.dtype) for v in (own, of_weight, of_bias)]


def _centred(g: Context, grad: Term, normal: Term, scale: Term, axes: Sequence[int]) -> Value:
    """The gradient of what was normalised over ``axes``."""
    mean, product = (Term(g, g.call("mean", v.value, axis=tuple(axes), keepdims=True)) for v in (grad, grad * normal))
    return ((grad - mean - normal * product) * scale).value


@converts("native_group_norm_backward.default")
def group_norm_backward(
    g: Context, grad_out: Value, input: Value, mean: Value, rstd: Value, weight: Value | None = None,  # noqa: A002
    *, N: Dim, C: Dim, HxW: Dim, group: int, output_mask: Sequence[bool],  # noqa: N803
) -> list[Value | None]:
    """Gradients of input, weight and bias."""
    wide, each = _wide(input), dims.floordiv(C, group)
    grad, x = (Term(g, g.reshape(g.cast(v, wide), (N, group, each, HxW))) for v in (grad_out, input))
    centre, scale = (Term(g, g.reshape(g.cast(v, wide), (N, group, 1, 1))) for v in (mean, rstd))
    normal = (x - centre) * scale
    scaled = grad if weight is None else grad * Term(g, g.reshape(g.cast(weight, wide), (1, group, each, 1)))
    own = g.reshape(_centred(g, scaled, normal, scale, (2, 3)), input.shape) if output_mask[0] else None
    of_weight = g.reshape(_sum(g, (grad * normal).value, (0, 3)), (C,)) if output_mask[1] else None
    of_bias = g.reshape(_sum(g, grad.value, (0, 3)), (C,)) if output_mask[2] else None
    return [None if v is None else g.cast(v, input.dtype) for v in (own, of_weight, of_bias)]


@converts("embedding_dense_backward.default")
def embedding_backward(
    g: Context, grad_output: Value, indices: Value, *, num_weights: Dim, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    if scale_grad_by_freq:
        raise g.unsupported("scale_grad_by_freq: got True; supported: False")
    size = grad_output.shape[-1]
    places = g.reshape(g.cast(indices, "int64"), (dims.product(indices.shape), 1))
    rows = g.cast(g.reshape(grad_output, (places.shape[0], size)), _wide(grad_output))
    if padding_idx >= 0:
        rows = g.call("where", g.call("equal", places, g.constant(padding_idx, "int64")), g.scalar(0, rows), rows)
    zeros = g.call("full", g.scalar(0, rows), shape=(num_weights, size))
    total = g.call("scatter_nd", zeros, g.reshape(places, (1, places.shape[0])), rows, mode="add")
    return g.cast(total, grad_output.dtype)


@converts("max_pool2d_with_indices_backward.default")
def max_pool_backward(
    g: Context, grad_output: Value, self: Value, indices: Value,
    *, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), dilation: Ints = (1,), ceil_mode: bool = False,
) -> Value:
    """Each gradient is added where its maximum was in the channel."""
    lead, spatial = self.shape[:-2], self.shape[-2:]
    rows = (dims.product(lead), dims.product(grad_output.shape[-2:]))
    zeros = g.call("full", g.scalar(0, grad_output), shape=(rows[0], dims.product(spatial)))
    places, updates = g.reshape(indices, rows), g.reshape(grad_output, rows)
    return g.reshape(g.call("scatter_elements", zeros, places, updates, axis=1, reduction="add"), self.shape)


def _uncovered(
    x: Value, result: Value, sizes: Sequence[Dim], steps: Sequence[Dim], pads: Sequence[Dim], holes: Sequence[Dim]
) -> tuple[Dim, ...]:
    """Elements at the ends of ``x`` that no window of ``result`` reaches."""
    numbers = zip(x.shape[2:], result.shape[2:], sizes, steps, pads, holes)
    return tuple(size + 2 * pad - (n - 1) * step - (taps - 1) * hole - 1 for size, n, taps, step, pad, hole in numbers)


@converts("avg_pool2d_backward.default")
def avg_pool_backward(
    g: Context, grad_output: Value, self: Value,
    *, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None = None,
) -> Value:
    """The transposed convolution with a window of ones of each channel."""
    if ceil_mode:
        raise g.unsupported("ceil_mode: got True; supported: False")
    x, added = batched(g, self, 2)
    grad = batched(g, grad_output, 2)[0]
    sizes, pads = per_axis(kernel_size, 2), per_axis(padding, 2)
    steps = per_axis(stride, 2) if stride else sizes
    count = dims.product(sizes) if divisor_override is None else divisor_override
    if divisor_override is None and not count_include_pad and any(pads):
        ones = g.call("full", g.scalar(1, grad), shape=(1, 1, *x.shape[2:]))
        share = g.call("nn.avg_pool2d", ones, pool_size=sizes, strides=steps, padding=pads, count_include_pad=True)
        grad = g.call("divide", grad, share)
    grad = g.call("divide", grad, g.tensor(count, grad.dtype))
    channels = x.shape[1]
    if not isinstance(channels, int):
        raise g.unsupported(f"got {channels} channels; supported: a number")
    kernel = g.call("full", g.scalar(1, grad), shape=(channels, 1, *sizes))
    extra = _uncovered(x, grad, sizes, steps, pads, (1, 1))
    result = g.call(
        "nn.conv2d_transpose", grad, kernel, kernel_size=sizes, strides=steps, output_padding=extra, padding=pads,
        groups=channels,
    )
    return unbatched(g, result, added)


@converts("_adaptive_avg_pool2d_backward.default")
def adaptive_avg_pool_backward(g: Context, grad_output: Value, self: Value) -> Value:
    """Cells that divide the input evenly: each gradient is spread over its cell."""
    result = grad_output
    factor = 1
    for axis in (-2, -1):
        size, count = self.shape[axis], grad_output.shape[axis]
        if not isinstance(size, int) or not isinstance(count, int) or size % count:
            raise g.unsupported(f"got {size} elements in {count} cells; supported: cells of one size")
        factor *= size // count
        result = g.call("repeat", result, repeats=size // count, axis=self.rank + axis)
    return g.call("divide", result, g.scalar(factor, result))


@converts("convolution_backward.default")
def convolution_backward(
    g: Context, grad_output: Value, input: Value, weight: Value,  # noqa: A002
    *, bias_sizes: Sequence[Dim] | None = None, stride: Sequence[Dim], padding: Sequence[Dim], dilation: Sequence[Dim],
    transposed: bool, output_padding: Sequence[Dim], groups: int, output_mask: Sequence[bool],
) -> list[Value | None]:
    """Gradients of input, weight and bias, each of them a convolution again."""
    if transposed:
        raise g.unsupported("transposed: got True; supported: False")
    rank = weight.rank - 2
    steps, pads, holes = (per_axis(v, rank) for v in (stride, padding, dilation))
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        extra = _uncovered(input, grad_output, weight.shape[2:], steps, pads, holes)
        of_input = g.call(
            f"nn.conv{rank}d_transpose", grad_output, weight, kernel_size=weight.shape[2:], strides=steps,
            output_padding=extra, padding=pads, dilation=holes, groups=groups,
        )
    if output_mask[1]:
        of_weight = _weight_gradient(g, grad_output, input, weight, steps, pads, holes, groups)
    if output_mask[2]:
        of_bias = _sum(g, grad_output, (0, *range(2, rank + 2)))
    return [of_input, of_weight, of_bias]


def _weight_gradient(
    g: Context, grad: Value, x: Value, weight: Value, steps: Sequence[Dim], pads: Sequence[Dim], holes: Sequence[Dim], groups: int
) -> Value:
    """The input convolved with the gradient: batch and channels change places, so do stride and dilation."""
    rank = weight.rank - 2
    batch, (outputs, inputs) = x.shape[0], weight.shape[:2]
    spatial = tuple(range(2, rank + 2))
    moved = tuple(k + 1 for k in spatial)
    data = g.call("transpose", g.reshape(x, (batch, groups, inputs, *x.shape[2:])), axes=(2, 1, 0, *moved))
    data = g.reshape(data, (inputs, groups * batch, *x.shape[2:]))
    kernel = g.call("transpose", grad, axes=(1, 0, *spatial))
    result = g.call(
        f"nn.conv{rank}d", data, kernel, strides=tuple(holes), padding=tuple(pads), dilation=tuple(steps), groups=groups,
        kernel_size=grad.shape[2:],
    )
    begin, end = (0,) * rank, weight.shape[2:]
    if result.shape[2:] != end:
        result = g.call("strided_slice", result, begin=begin, end=end, strides=(1,) * rank, axes=spatial)
    return g.reshape(g.call("transpose", result, axes=(1, 0, *spatial)), (outputs, inputs, *end))
