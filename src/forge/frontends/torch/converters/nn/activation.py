"""Activations."""

from __future__ import annotations

from forge.compose import activations, randomness
from forge.frontends.converter import forwarding
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.random.distributions import seed_of
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

converts("celu.default")(forwarding("nn.celu", alpha=1.0))
converts("elu.default")(forwarding(activations.elu, alpha=1.0, scale=1.0, input_scale=1.0))
converts("gelu.default")(forwarding("nn.gelu", approximate="none"))
converts("hardswish.default")(forwarding("nn.hardswish"))
converts("log_sigmoid.default")(forwarding("nn.log_sigmoid"))
converts("mish.default")(forwarding("nn.mish"))
converts("selu.default")(forwarding("nn.selu"))
converts("silu.default")(forwarding(activations.silu))
converts("softplus.default")(forwarding(activations.softplus, beta=1.0, threshold=20.0))
converts("prelu.default")(forwarding(activations.prelu, 2))
converts("_prelu_kernel.default")(forwarding(activations.sloped, 2))


@converts("log_sigmoid_forward.default")
def log_sigmoid(g: Context, self: Value) -> list[Value | None]:
    """The result, and exp(-|self|), which only its gradient reads."""
    buffer = g.call("exp", g.call("negative", g.call("abs", self))) if g.wants(1) else None
    return [g.call("nn.log_sigmoid", self), buffer]


@converts("relu6.default")
def relu6(g: Context, self: Value) -> Value:
    return hardtanh(g, self, min_val=0.0, max_val=6.0)


@converts("hardtanh.default")
def hardtanh(g: Context, self: Value, *, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    return g.call("clip", self, a_min=float(min_val), a_max=float(max_val))


@converts("hardsigmoid.default")
def hard_sigmoid(g: Context, self: Value) -> Value:
    return g.call("nn.hard_sigmoid", self, alpha=1 / 6, beta=0.5)


@converts("leaky_relu.default")
def leaky_relu(g: Context, self: Value, *, negative_slope: float = 0.01) -> Value:
    return g.call("nn.leaky_relu", self, alpha=float(negative_slope))


@converts("softshrink.default")
def soft_shrink(g: Context, self: Value, *, lambd: float = 0.5) -> Value:
    return activations.soft_shrink(g, self, lambd)


@converts("hardshrink.default")
def hard_shrink(g: Context, self: Value, *, lambd: float = 0.5) -> Value:
    return activations.hard_shrink(g, self, lambd)


@converts("threshold.default")
def threshold(g: Context, self: Value, *, threshold: float, value: float) -> Value:
    return activations.threshold(g, self, threshold, value)


@converts("rrelu.default")
def rrelu(g: Context, self: Value, *, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Value:
    if training:
        return randomness.rrelu(g, self, lower, upper, seed=seed_of(g))[0]
    return g.call("nn.leaky_relu", self, alpha=(lower + upper) / 2)


@converts("rrelu_with_noise.default")
def rrelu_with_noise(
    g: Context, self: Value, noise: Value, *, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Value:
    """``noise`` is overwritten, but in training only."""
    if not training:
        return rrelu(g, self, lower=lower, upper=upper)
    result, written = randomness.rrelu(g, self, lower, upper, seed=seed_of(g))
    g.write("noise", written)
    return result


@converts("rrelu_with_noise_functional.default")
def functional_rrelu_with_noise(
    g: Context, self: Value, noise: Value, *, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> list[Value]:
    if not training:
        return [rrelu(g, self, lower=lower, upper=upper), noise]
    return list(randomness.rrelu(g, self, lower, upper, seed=seed_of(g)))


@converts("glu.default")
def gated_linear_unit(g: Context, self: Value, *, dim: int = -1) -> Value:
    return activations.glu(g, self, g.axis(dim, self.rank, "dim"))
