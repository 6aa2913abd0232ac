"""Gradients of layers, which programs of training hold. A result that ``output_mask`` leaves out is None."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose import gradients, pooling
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.nn.convolution import batched, per_axis, unbatched
from forge.frontends.torch.converters.nn.pool import Window
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

Ints = Sequence[int]
Sizes = Sequence[Dim]


@converts("native_layer_norm_backward.default")
def layer_norm_backward(
    g: Context, grad_out: Value, input: Value, mean: Value, rstd: Value, weight: Value | None = None,  # noqa: A002
    bias: Value | None = None, *, normalized_shape: Sizes, output_mask: Sequence[bool],
) -> list[Value | None]:
    """Gradients of input, weight and bias."""
    return gradients.layer_norm(g, grad_out, input, mean, rstd, weight, input.rank - len(normalized_shape), output_mask)


@converts("native_group_norm_backward.default")
def group_norm_backward(
    g: Context, grad_out: Value, input: Value, mean: Value, rstd: Value, weight: Value | None = None,  # noqa: A002
    *, N: Dim, C: Dim, HxW: Dim, group: int, output_mask: Sequence[bool],  # noqa: N803
) -> list[Value | None]:
    """Gradients of input, weight and bias."""
    return gradients.group_norm(g, grad_out, input, mean, rstd, weight, group, output_mask)


@converts("embedding_dense_backward.default")
def embedding_backward(
    g: Context, grad_output: Value, indices: Value, *, num_weights: Dim, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    if scale_grad_by_freq:
        raise g.unsupported("scale_grad_by_freq: got True; supported: False")
    return gradients.embedding(g, grad_output, indices, num_weights, padding_idx if padding_idx >= 0 else None)


@converts("max_pool2d_with_indices_backward.default")
def max_pool_backward(g: Context, grad_output: Value, self: Value, indices: Value, *, window: Window) -> Value:
    """Each gradient is added where its maximum was in the channel."""
    return pooling.placed(g, grad_output, indices, self.shape, 2, reduction="add", checked=False)


@converts("avg_pool2d_backward.default")
def avg_pool_backward(
    g: Context, grad_output: Value, self: Value,
    *, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None = None,
) -> Value:
    if ceil_mode:
        raise g.unsupported("ceil_mode: got True; supported: False")
    (x, added), (grad, _) = (batched(g, v, 2) for v in (self, grad_output))
    sizes = per_axis(kernel_size, 2)
    steps = per_axis(stride, 2) if stride else sizes
    options = {"sizes": sizes, "steps": steps, "pads": per_axis(padding, 2)}
    found = gradients.avg_pool2d(g, grad, x, count_include_pad=count_include_pad, divisor=divisor_override, **options)
    return unbatched(g, found, added)


@converts("_adaptive_avg_pool2d_backward.default")
def adaptive_avg_pool_backward(g: Context, grad_output: Value, self: Value) -> Value:
    return gradients.adaptive_avg_pool(g, grad_output, self, (self.rank - 2, self.rank - 1))


@converts("convolution_backward.default")
def convolution_backward(
    g: Context, grad_output: Value, input: Value, weight: Value,  # noqa: A002
    *, bias_sizes: Sizes | None = None, stride: Sizes, padding: Sizes, dilation: Sizes, transposed: bool, output_padding: Sizes,
    groups: int, output_mask: Sequence[bool],
) -> list[Value | None]:
    """Gradients of input, weight and bias, each of them a convolution again."""
    if transposed:
        raise g.unsupported("transposed: got True; supported: False")
    rank = weight.rank - 2
    numbers = {"steps": stride, "pads": padding, "holes": dilation}
    options = {name: per_axis(given, rank) for name, given in numbers.items()}
    found = [
        compute(g, grad_output, input, weight, groups=groups, **options) if wanted else None
        for compute, wanted in zip((gradients.convolved_data, gradients.convolved_weight), output_mask)
    ]
    return [*found, gradients.sums(g, grad_output, (0, *range(2, rank + 2))) if output_mask[2] else None]
