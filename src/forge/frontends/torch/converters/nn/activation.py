"""Activations."""

from __future__ import annotations

from forge import dims, dtypes
from forge.compose import randomness
from forge.frontends.converter import forwarding
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.random.distributions import seed_of
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

converts("celu.default")(forwarding("nn.celu", alpha=1.0))
converts("gelu.default")(forwarding("nn.gelu", approximate="none"))
converts("hardswish.default")(forwarding("nn.hardswish"))
converts("log_sigmoid.default")(forwarding("nn.log_sigmoid"))
converts("mish.default")(forwarding("nn.mish"))
converts("selu.default")(forwarding("nn.selu"))


@converts("silu.default")
def silu(g: Context, self: Value) -> Value:
    if not dtypes.is_complex(self.dtype):
        return g.call("nn.silu", self)
    return g.call("divide", self, g.call("add", g.scalar(1, self), g.call("exp", g.call("negative", self))))


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


@converts("elu.default")
def elu(g: Context, self: Value, *, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    if scale == input_scale == 1:
        return g.call("nn.elu", self, alpha=float(alpha))
    below = g.call("expm1", g.call("multiply", self, g.scalar(input_scale, self)))
    above = g.call("multiply", self, g.scalar(scale, self))
    is_positive = g.call("greater", self, g.scalar(0, self))
    return g.call("where", is_positive, above, g.call("multiply", below, g.scalar(alpha * scale, self)))


@converts("softplus.default")
def softplus(g: Context, self: Value, *, beta: float = 1.0, threshold: float = 20.0) -> Value:
    """log(1 + exp(beta * x)) / beta, and x where beta * x is more than ``threshold``."""
    x = self if beta == 1 else g.call("multiply", self, g.scalar(beta, self))
    result = g.call("nn.softplus", x)
    result = result if beta == 1 else g.call("divide", result, g.scalar(beta, self))
    return g.call("where", g.call("greater", x, g.scalar(threshold, x)), self, result)


@converts("softshrink.default")
def soft_shrink(g: Context, self: Value, *, lambd: float = 0.5) -> Value:
    return g.call("subtract", self, g.call("clip", self, a_min=-float(lambd), a_max=float(lambd)))


@converts("hardshrink.default")
def hard_shrink(g: Context, self: Value, *, lambd: float = 0.5) -> Value:
    is_small = g.call("less_equal", g.call("abs", self), g.scalar(lambd, self))
    return g.call("where", is_small, g.scalar(0, self), self)


@converts("threshold.default")
def threshold(g: Context, self: Value, *, threshold: float, value: float) -> Value:
    return g.call("where", g.call("less_equal", self, g.scalar(threshold, self)), g.scalar(value, self), self)


@converts("prelu.default")
def prelu(g: Context, self: Value, weight: Value) -> Value:
    if self.rank < 2:
        return prelu_kernel(g, self, g.reshape(weight, (1,) * self.rank))
    return g.call("nn.prelu", self, g.reshape(weight, (dims.product(weight.shape),)), axis=1)


@converts("_prelu_kernel.default")
def prelu_kernel(g: Context, self: Value, weight: Value) -> Value:
    return g.call("where", g.call("greater", self, g.scalar(0, self)), self, g.call("multiply", weight, self))


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
    axis = g.axis(dim, self.rank, "dim")
    value, gate = g.multi("split", self, indices_or_sections=2, axis=axis)
    return g.call("multiply", value, g.call("sigmoid", gate))
