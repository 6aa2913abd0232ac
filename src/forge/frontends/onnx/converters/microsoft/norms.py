"""Normalizations, some with the sum in front of them."""

from __future__ import annotations

from dataclasses import dataclass

from forge.compose import norms
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.converters.microsoft.convolutions import channels_behind, channels_first
from forge.frontends.onnx.converters.nn import normalization
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype

# onnxruntime writes the operator into models of opsets that do not have it yet.
converts("LayerNormalization", since=1, is_extension=True)(normalization.layer_norm)


@converts("SimplifiedLayerNormalization", since=1, is_extension=True)
def simplified_layer_norm(
    g: Context, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> list[Value | None]:
    """``x / sqrt(mean of x^2 + epsilon) * scale``, and 1 / sqrt of that mean."""
    first = g.axis(axis, x.rank)
    inverse = None
    if g.wants(1):
        wide = g.cast(x, element_dtype(stash_type, "attribute 'stash_type'"))
        inverse = norms.inverse_root_mean_square(g, wide, tuple(range(first, x.rank)), epsilon)
    return [norms.rms_norm(g, x, scale, first=first, epsilon=epsilon), inverse]


@converts("SkipLayerNormalization", domain=DOMAIN)
def skip_layer_norm(
    g: Context, x: Value, skip: Value, gamma: Value, beta: Value | None = None, bias: Value | None = None,
    *, epsilon: float = 1e-12,
) -> list[Value | None]:
    """The layer norm of ``x + skip + bias``, its statistics, and the sum."""
    total = _sum(g, x, skip, bias)
    if g.wants(1) or g.wants(2):
        wide = "float64" if x.dtype == "float64" else "float32"
        last = total.rank - 1
        return [*norms.layer_norm_with_statistics(g, total, gamma, beta, first=last, epsilon=epsilon, wide=wide), total]
    return [norms.layer_norm(g, total, gamma, beta, first=total.rank - 1, epsilon=epsilon), None, None, total]


@converts("SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_simplified_layer_norm(
    g: Context, x: Value, skip: Value, gamma: Value, bias: Value | None = None, *, epsilon: float = 1e-12
) -> list[Value | None]:
    """The RMS norm of ``x + skip + bias``; in place of a mean, onnxruntime gives 0."""
    total = _sum(g, x, skip, bias)
    last = total.rank - 1
    wide = g.cast(total, "float64" if x.dtype == "float64" else "float32")
    inverse = norms.inverse_root_mean_square(g, wide, (last,), epsilon) if g.wants(1) or g.wants(2) else None
    mean = None if inverse is None else g.call("zeros_like", inverse)
    return [norms.rms_norm(g, total, gamma, first=last, epsilon=epsilon), mean, inverse, total]


def _sum(g: Context, x: Value, skip: Value, bias: Value | None) -> Value:
    """Skip may lack the batch, or have one of 1."""
    total = g.call("add", x, skip)
    return total if bias is None else g.call("add", total, bias)


@dataclass(frozen=True, kw_only=True)
class GroupNormAttributes:
    activation: int
    channels_last: int = 1
    epsilon: float = 1e-5
    groups: int


@converts("GroupNorm", domain=DOMAIN)
def group_norm(g: Context, x: Value, gamma: Value, beta: Value, *, attrs: GroupNormAttributes) -> Value:
    """``activation`` 1 is SiLU after the norm."""
    if attrs.activation not in (0, 1):
        raise g.invalid(f"attribute 'activation': got {attrs.activation}; expected 0 (none) or 1 (SiLU)")
    data = g.cast(channels_first(g, x) if attrs.channels_last else x, "float32")
    result = g.call("nn.group_norm", data, gamma, beta, num_groups=attrs.groups, axis=1, epsilon=attrs.epsilon)
    result = g.cast(g.call("nn.silu", result) if attrs.activation else result, x.dtype)
    return channels_behind(g, result) if attrs.channels_last else result


@converts("SkipGroupNorm", domain=DOMAIN)
def skip_group_norm(
    g: Context, x: Value, gamma: Value, beta: Value, skip: Value, bias: Value | None = None, *, attrs: GroupNormAttributes
) -> list[Value]:
    """The group norm of ``x + skip + bias``, and the sum. A skip of rank 2 is one number for each image and channel."""
    if skip.rank == 2:
        n, channels = skip.shape
        ones = (1,) * (x.rank - 2)
        skip = g.reshape(skip, (n, *ones, channels) if attrs.channels_last else (n, channels, *ones))
    total = g.call("add", x, skip)
    if bias is not None:
        shape = bias.shape if attrs.channels_last else (*bias.shape, *(1,) * (x.rank - 2))
        total = g.call("add", total, g.reshape(bias, shape))
    return [group_norm(g, total, gamma, beta, attrs=attrs), total]


@converts("GatedRMSNorm", domain=DOMAIN)
def gated_rms_norm(
    g: Context, x: Value, scale: Value, gate: Value, *, activation: str = "silu", epsilon: float = 1e-5
) -> Value:
    """The RMS norm over the last axis, times silu(gate)."""
    if activation != "silu":
        raise g.unsupported(f"attribute 'activation': got {activation!r}; supported: 'silu'")
    normed = norms.rms_norm(g, x, scale, first=x.rank - 1, epsilon=epsilon)
    return g.call("multiply", normed, g.call("nn.silu", gate))
