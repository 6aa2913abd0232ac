"""Normalizations."""

from __future__ import annotations

from forge.compose import norms
from forge.frontends.converter import REQUIRED, forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype

converts("InstanceNormalization", since=1)(forwarding("nn.instance_norm", 3, epsilon=1e-5))
converts("LRN", since=1)(forwarding("nn.lrn", size=REQUIRED, alpha=1e-4, beta=0.75, bias=1.0))
converts("MeanVarianceNormalization", since=9)(forwarding(norms.mean_variance_norm, axes=(0, 2, 3)))


@converts("BatchNormalization", introduced={"training_mode": 14}, removed={"is_test": 7, "spatial": 9})
def batch_norm(
    g: Context, x: Value, scale: Value, bias: Value, mean: Value, variance: Value,
    *, epsilon: float = 1e-5, is_test: int | None = None, momentum: float = 0.9, spatial: int = 1, training_mode: int = 0,
) -> list[Value]:
    """The result; in training also running mean and variance, and before opset 14 those of the batch.

    Before opset 14 more than one output asks for training, unless ``is_test`` says otherwise: exporters of models that are not in
    training leave it out.
    """
    if is_test is not None:
        training = not is_test
    else:
        training = bool(training_mode) if g.opset >= 14 else any(g.wants(i) for i in range(1, 5))
    if training and not spatial:
        raise g.unsupported("attribute 'spatial': got 0 in training; supported: 1 (one mean for each channel)")
    if training:
        own, running = norms.batch_statistics(g, x, mean, variance, momentum=momentum)
        result = norms.batch_norm(g, x, scale, bias, *own, epsilon=epsilon)
        return [result, *running] if g.opset >= 14 else [result, *running, *own]
    composition = norms.batch_norm if spatial else norms.elementwise_batch_norm
    return [composition(g, x, scale, bias, mean, variance, epsilon=epsilon)]


@converts("GroupNormalization", since=18)
def group_norm_18(g: Context, x: Value, scale: Value, bias: Value, *, num_groups: int, epsilon: float = 1e-5) -> Value:
    """One scale and one bias for each group."""
    spread = (norms.by_channel(g, v, x.shape[1]) for v in (scale, bias))
    return g.call("nn.group_norm", x, *spread, num_groups=num_groups, axis=1, epsilon=epsilon)


@converts("GroupNormalization", since=21)
def group_norm(
    g: Context, x: Value, scale: Value, bias: Value, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Value:
    wide = element_dtype(stash_type, "attribute 'stash_type'")
    if wide == x.dtype or x.dtype == "float64":
        return g.call("nn.group_norm", x, scale, bias, num_groups=num_groups, axis=1, epsilon=epsilon)
    cast = (g.cast(v, wide) for v in (x, scale, bias))
    return g.cast(g.call("nn.group_norm", *cast, num_groups=num_groups, axis=1, epsilon=epsilon), x.dtype)


@converts("LayerNormalization", since=17)
def layer_norm(
    g: Context, x: Value, scale: Value, bias: Value | None = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> list[Value | None]:
    first = g.axis(axis, x.rank)
    if g.wants(1) or g.wants(2):
        wide = element_dtype(stash_type, "attribute 'stash_type'")
        return list(norms.layer_norm_with_statistics(g, x, scale, bias, first=first, epsilon=epsilon, wide=wide))
    data = _stashed(g, x, stash_type)
    shift = None if bias is None else g.cast(bias, data.dtype)
    return [g.cast(norms.layer_norm(g, data, g.cast(scale, data.dtype), shift, first=first, epsilon=epsilon), x.dtype)]


@converts("RMSNormalization", since=23)
def rms_norm(g: Context, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Value:
    return norms.rms_norm(g, _stashed(g, x, stash_type), scale, first=g.axis(axis, x.rank), epsilon=epsilon)


def _stashed(g: Context, x: Value, stash_type: int) -> Value:
    """``x`` as float64 where the standard asks for that; float32, or more, is what norms compute in anyway."""
    return g.cast(x, "float64") if element_dtype(stash_type, "attribute 'stash_type'") == "float64" else x


@converts("LpNormalization", since=1)
def lp_norm(g: Context, x: Value, *, axis: int = -1, p: int = 2) -> Value:
    if p not in (1, 2):
        raise g.invalid(f"attribute 'p': got {p}; expected 1 or 2")
    return norms.lp_norm(g, x, p, g.axis(axis, x.rank))
