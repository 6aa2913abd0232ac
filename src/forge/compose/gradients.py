"""Gradients of layers, which programs of training hold: of data ``[N, C, ...]`` and of parameters, from those of results."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.compose.norms import wide
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

Sizes = Sequence[Dim]


def layer_norm(
    g: Composer, grad: Value, x: Value, mean: Value, inverse: Value, weight: Value | None, first: int, wanted: Sequence[bool]
) -> list[Value | None]:
    """Of data, weight and bias of a layer norm over the axes from ``first`` on, those that are ``wanted``.

    ``mean`` and ``inverse``, which is 1 / sqrt(variance + epsilon), keep these axes with size 1.
    """
    inner, outer = range(first, x.rank), range(first)
    d, normal, scale = _normalized(g, grad, x, mean, inverse)
    scaled = d if weight is None else d * Term(g, g.cast(weight, d.value.dtype))
    own = _centred(g, scaled, normal, scale, inner) if wanted[0] else None
    return _cast(g, x, own, *_of_parameters(g, d, normal, outer, wanted))


def group_norm(
    g: Composer, grad: Value, x: Value, mean: Value, inverse: Value, weight: Value | None, groups: int, wanted: Sequence[bool]
) -> list[Value | None]:
    """Of data, weight and bias of a group norm, those that are ``wanted``; ``mean`` and ``inverse`` are ``[N, groups]``."""
    batch, channels, *rest = x.shape
    each = dims.floordiv(channels, groups)
    by_group = (g.reshape(v, (batch, groups, each, dims.product(rest))) for v in (grad, x))
    statistics = (g.reshape(v, (batch, groups, 1, 1)) for v in (mean, inverse))
    d, normal, scale = _normalized(g, *by_group, *statistics)
    scaled = d if weight is None else d * Term(g, g.reshape(g.cast(weight, d.value.dtype), (1, groups, each, 1)))
    own = g.reshape(_centred(g, scaled, normal, scale, (2, 3)), x.shape) if wanted[0] else None
    return _cast(g, x, own, *_of_parameters(g, d, normal, (0, 3), wanted, (channels,)))


def _normalized(g: Composer, grad: Value, x: Value, mean: Value, inverse: Value) -> tuple[Term, Term, Term]:
    """The gradient, the normalized data and ``inverse``, in float32 or more."""
    data = Term(g, wide(g, x))
    d, centre, scale = (Term(g, g.cast(v, data.value.dtype)) for v in (grad, mean, inverse))
    return d, (data - centre) * scale, scale


def _of_parameters(
    g: Composer, grad: Term, normal: Term, axes: Sequence[int], wanted: Sequence[bool], shape: Sequence[Dim] | None = None
) -> list[Value | None]:
    """Of weight and bias: sums over ``axes``."""
    found: list[Value | None] = []
    for is_weight, wants in zip((True, False), wanted[1:]):
        total = sums(g, (grad * normal if is_weight else grad).value, axes) if wants else None
        found.append(total if total is None or shape is None else g.reshape(total, shape))
    return found


def _cast(g: Composer, x: Value, *gradients: Value | None) -> list[Value | None]:
    return [None if v is None else g.cast(v, x.dtype) for v in gradients]


def _centred(g: Composer, grad: Term, normal: Term, scale: Term, axes: Sequence[int]) -> Value:
    """The gradient of what was normalized over ``axes``."""
    mean, product = (Term(g, g.call("mean", v.value, axis=tuple(axes), keepdims=True)) for v in (grad, grad * normal))
    return ((grad - mean - normal * product) * scale).value


def sums(g: Composer, x: Value, axes: Sequence[int]) -> Value:
    """The sum over ``axes``, which may be none."""
    return g.call("sum", x, axis=tuple(axes), keepdims=False) if axes else x


def embedding(g: Composer, grad: Value, indices: Value, rows: Dim, ignored: int | None = None) -> Value:
    """Of a table ``[rows, D]`` from ``grad``, ``[..., D]``; vectors at the index ``ignored`` do not count."""
    size = grad.shape[-1]
    places = g.reshape(g.cast(indices, "int64"), (dims.product(indices.shape), 1))
    updates = wide(g, g.reshape(grad, (places.shape[0], size)))
    if ignored is not None:
        updates = g.call("where", g.call("equal", places, g.constant(ignored, "int64")), g.scalar(0, updates), updates)
    zeros = g.call("full", g.scalar(0, updates), shape=(rows, size))
    total = g.call("scatter_nd", zeros, g.reshape(places, (1, places.shape[0])), updates, mode="add")
    return g.cast(total, grad.dtype)


def avg_pool2d(
    g: Composer, grad: Value, x: Value, *, sizes: Sizes, steps: Sizes, pads: Sizes, count_include_pad: bool,
    divisor: int | None = None,
) -> Value:
    """The transposed convolution with a window of ones of each channel.

    Raises:
        OpAttributeUnimplemented: the number of channels is symbolic.
    """
    count = dims.product(sizes) if divisor is None else divisor
    if divisor is None and not count_include_pad and any(pads):
        ones = g.call("full", g.scalar(1, grad), shape=(1, 1, *x.shape[2:]))
        share = g.call("nn.avg_pool2d", ones, pool_size=sizes, strides=steps, padding=pads, count_include_pad=True)
        grad = g.call("divide", grad, share)
    grad = g.call("divide", grad, g.scalar(count, grad))  # type: ignore[arg-type]
    channels = x.shape[1]
    if not isinstance(channels, int):
        raise g.unsupported(f"got {channels} channels; supported: a number")
    kernel = g.call("full", g.scalar(1, grad), shape=(channels, 1, *sizes))
    return convolved_data(g, grad, x, kernel, steps=steps, pads=pads, holes=(1, 1), groups=channels)


def adaptive_avg_pool(g: Composer, grad: Value, x: Value, axes: Sequence[int]) -> Value:
    """Of cells along ``axes`` that divide ``x`` evenly: each gradient is spread over its cell.

    Raises:
        OpAttributeUnimplemented: they do not, or sizes are symbolic.
    """
    factor, result = 1, grad
    for axis in axes:
        size, count = x.shape[axis], grad.shape[axis]
        if not isinstance(size, int) or not isinstance(count, int) or size % count:
            raise g.unsupported(f"got {size} elements in {count} cells; supported: cells of one size")
        factor *= size // count
        result = g.call("repeat", result, repeats=size // count, axis=axis)
    return g.call("divide", result, g.scalar(factor, result))


def convolved_data(
    g: Composer, grad: Value, x: Value, weight: Value, *, steps: Sizes, pads: Sizes, holes: Sizes, groups: int
) -> Value:
    """Of the data ``x`` of a convolution: a transposed one."""
    taps = weight.shape[2:]
    numbers = zip(x.shape[2:], grad.shape[2:], taps, steps, pads, holes)
    uncovered = tuple(size + 2 * pad - (n - 1) * step - (tap - 1) * hole - 1 for size, n, tap, step, pad, hole in numbers)
    return g.call(
        f"nn.conv{len(taps)}d_transpose", grad, weight, kernel_size=taps, strides=tuple(steps), output_padding=uncovered,
        padding=tuple(pads), dilation=tuple(holes), groups=groups,
    )


def convolved_weight(
    g: Composer, grad: Value, x: Value, weight: Value, *, steps: Sizes, pads: Sizes, holes: Sizes, groups: int
) -> Value:
    """Of a weight: the data convolved with the gradient; batch and channels change places, so do stride and dilation."""
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
    end = weight.shape[2:]
    if result.shape[2:] != end:
        result = g.call("strided_slice", result, begin=(0,) * rank, end=end, strides=(1,) * rank, axes=spatial)
    return g.reshape(g.call("transpose", result, axes=(1, 0, *spatial)), (outputs, inputs, *end))
