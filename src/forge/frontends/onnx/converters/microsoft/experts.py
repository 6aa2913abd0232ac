"""Mixtures of experts: MoE, and QMoE with packed weights. Where onnxruntime has no kernel for CPUs, its schema is followed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from forge import dims
from forge.compose import experts, quantized
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.converters.microsoft.packed_weights import MAX_ROUNDED, signed, unsigned, zero_points_of
from forge.frontends.onnx.registry import converts
from forge.ops.core.term import Term

_WIDTHS = (2, 4, 8)
_GATED = ("swiglu", "geglu")
"""Activations of two projections, which may be one weight."""


@dataclass(frozen=True, kw_only=True)
class ExpertAttributes:
    activation_alpha: float = 1.0
    activation_beta: float = 0.0
    activation_type: str = "relu"
    k: int = 1
    normalize_routing_weights: int = 0
    swiglu_fusion: int = 0
    swiglu_limit: float | None = None
    swiglu_limit_after_activation: int = 0
    use_sparse_mixer: int = 0

    @property
    def is_fused(self) -> bool:
        """Whether fc1 holds two projections."""
        return self.activation_type in _GATED and self.swiglu_fusion != 0


@dataclass(frozen=True)
class Expert:
    """One of the projections of all experts, as its operands are called: ``fc1`` and so on.

    Attributes:
        weight: [E, N, K], numbers of float.
        block_size: the data are rounded to 8 bits by blocks of so many; 0: they are not.
    """

    name: str
    weight: Value
    bias: Value | None
    block_size: int = 0

    def __call__(self, g: Context, rows: Value, expert: Value) -> Value:
        data = quantized.rounded_by_block(g, rows, self.block_size) if self.block_size else rows
        return experts.projection(g, data, self.weight, self.bias, expert)


@converts("MoE", domain=DOMAIN)
def mixture_of_experts(
    g: Context, x: Value, router_probs: Value, fc1: Value, fc1_bias: Value | None, fc2: Value, fc2_bias: Value | None = None,
    fc3: Value | None = None, fc3_bias: Value | None = None,
    *, attrs: ExpertAttributes,
) -> Value:
    """Shares are those of a softmax of all scores; only ``normalize_routing_weights`` makes the chosen ones sum to 1."""
    sizes = _sizes(g, attrs, x, router_probs, fc1, fc2)
    expected = sizes.shapes(attrs)
    parts = []
    for name, weight, bias in (("fc1", fc1, fc1_bias), ("fc2", fc2, fc2_bias), ("fc3", fc3, fc3_bias)):
        if weight is not None:
            _expect(g, f"{name}_experts_weights", weight, expected[name])
            parts.append(Expert(name, weight, _bias(g, name, bias, expected[name])))
    scores = g.call("nn.softmax", g.cast(router_probs, "float32"), axis=1)
    share, chosen = experts.best(g, scores, attrs.k)
    if attrs.normalize_routing_weights:
        share = g.call("divide", share, g.call("sum", share, axis=(1,), keepdims=True))
    return _mixed(g, attrs, x, chosen, share, parts)


@dataclass(frozen=True, kw_only=True)
class QuantizedAttributes(ExpertAttributes):
    accuracy_level: int = 0
    block_size: int | None = None
    expert_weight_bits: int = 4
    fc1_expert_weight_bits: int | None = None
    fc2_expert_weight_bits: int | None = None
    fc3_expert_weight_bits: int | None = None
    quant_type: str = "int"
    weights_prepacked: int = -1

    def bits(self, name: str) -> int:
        """How many bits codes of a projection have."""
        own: int | None = getattr(self, f"{name}_expert_weight_bits")
        return self.expert_weight_bits if own is None else own

    def check(self, g: Context) -> None:
        if self.quant_type != "int":
            raise g.unsupported(f"attribute 'quant_type': got {self.quant_type!r}; supported: 'int'")
        if self.weights_prepacked == 1:
            raise g.unsupported("attribute 'weights_prepacked': got 1; supported: 0; save the model without packed weights")
        for name in ("fc1", "fc2", "fc3"):
            if self.bits(name) not in _WIDTHS:
                raise g.unsupported(f"attribute 'expert_weight_bits': got {self.bits(name)} for {name}; "
                                    f"supported: {', '.join(map(str, _WIDTHS))}")
        block = self.block_size or 0
        if block and (block < 16 or block & (block - 1)):
            raise g.invalid(f"attribute 'block_size': got {block}; expected a power of 2 from 16")


@converts("QMoE", domain=DOMAIN)
def quantized_mixture_of_experts(
    g: Context, x: Value, router_probs: Value, fc1: Value, fc1_scales: Value | None, fc1_bias: Value | None, fc2: Value,
    fc2_scales: Value | None = None, fc2_bias: Value | None = None, fc3: Value | None = None, fc3_scales: Value | None = None,
    fc3_bias: Value | None = None, fc1_zeros: Value | None = None, fc2_zeros: Value | None = None,
    fc3_zeros: Value | None = None, router_weights: Value | None = None, fc1_global_scale: Value | None = None,
    fc2_global_scale: Value | None = None, fc1_act_scale: Value | None = None, fc2_act_scale: Value | None = None,
    fc1_act_block_scale: Value | None = None, fc2_act_block_scale: Value | None = None,
    *, attrs: QuantizedAttributes,
) -> Value:
    """As MoE, with shares that are a softmax of the chosen scores, whatever ``normalize_routing_weights`` says.

    With ``router_weights``, shares are those of them at the chosen places, which it may make sum to 1; experts whose share is
    not positive are left out. Constant codes in blocks, of 8 bits, or of 4 with ``accuracy_level`` 4, are multiplied by data
    that are rounded to 8 bits, each block by its own scale; others with the data as they are.
    """
    attrs.check(g)
    of_other_types = (fc1_global_scale, fc2_global_scale, fc1_act_scale, fc2_act_scale, fc1_act_block_scale, fc2_act_block_scale)
    if any(v is not None for v in of_other_types):
        raise g.unsupported("got global scales, or scales of the data; supported: neither, as integers have none")
    sizes = _sizes(g, attrs, x, router_probs, fc1, fc2, attrs.bits("fc2"))
    given = (("fc1", fc1, fc1_scales, fc1_bias, fc1_zeros), ("fc2", fc2, fc2_scales, fc2_bias, fc2_zeros),
             ("fc3", fc3, fc3_scales, fc3_bias, fc3_zeros))
    parts = []
    for name, weight, scales, bias, zeros in given:
        if weight is not None:
            parts.append(_expert_of_codes(g, attrs, name, sizes.shapes(attrs)[name], weight, scales, bias, zeros))
    values, chosen = experts.best(g, g.cast(router_probs, "float32"), attrs.k)
    if router_weights is None:
        share = g.call("nn.softmax", values, axis=1)
    else:
        _expect(g, "router_weights", router_weights, router_probs.shape)
        share = _shares(g, attrs, router_weights, chosen)
    return _mixed(g, attrs, x, chosen, share, parts)


def _shares(g: Context, attrs: ExpertAttributes, router_weights: Value, chosen: Value) -> Value:
    share = g.call("gather", g.cast(router_weights, "float32"), chosen, axis=1)
    if attrs.normalize_routing_weights:
        total = g.call("sum", share, axis=(1,), keepdims=True)
        one = g.call("where", g.call("equal", total, g.scalar(0, total)), g.scalar(1, total), total)
        share = g.call("divide", share, one)
    return g.call("nn.relu", share)


@dataclass(frozen=True)
class _Sizes:
    experts: int
    hidden: int
    inner: int

    def shapes(self, attrs: ExpertAttributes) -> dict[str, tuple[int, int, int]]:
        """[E, N, K] of the projections."""
        first = self.inner * (2 if attrs.is_fused else 1)
        return {"fc1": (self.experts, first, self.hidden), "fc2": (self.experts, self.hidden, self.inner),
                "fc3": (self.experts, self.inner, self.hidden)}


def _sizes(g: Context, attrs: ExpertAttributes, x: Value, scores: Value, fc1: Value, fc2: Value, bits: int = 0) -> _Sizes:
    """Sizes as fc2 says, whose codes have ``bits``; those of data and scores must agree."""
    if attrs.use_sparse_mixer:
        raise g.unsupported("attribute 'use_sparse_mixer': got 1; supported: 0, as onnxruntime on CPUs takes no notice of it")
    for name, value, ranks in (("input", x, (2, 3)), ("router_probs", scores, (2,)), ("fc1_experts_weights", fc1, (3,)),
                               ("fc2_experts_weights", fc2, (3,))):
        if value.rank not in ranks:
            raise g.invalid(f"{name}: got {value.type}; expected rank {' or '.join(map(str, ranks))}")
    known = [n for n in fc2.shape if isinstance(n, int)]
    if len(known) != 3 or 0 in known:
        raise g.unsupported(f"fc2_experts_weights: got {fc2.type}; supported: sizes that are known, and not 0")
    count, hidden, inner = known
    _expect(g, "input", x, (*x.shape[:-1], hidden))
    _expect(g, "router_probs", scores, (dims.product(x.shape[:-1]), count))
    if not 1 <= attrs.k <= count:
        raise g.invalid(f"attribute 'k': got {attrs.k}; expected 1 to {count}, the number of experts")
    return _Sizes(count, hidden, inner * 8 // bits if bits else inner)


def _expect(g: Context, name: str, value: Value, shape: Sequence[dims.Dim]) -> None:
    if value.rank != len(shape) or any(dims.different(own, size) for own, size in zip(value.shape, shape)):
        raise g.invalid(f"{name}: got {value.type}; expected {'x'.join(map(str, shape))}")


def _bias(g: Context, name: str, bias: Value | None, shape: tuple[int, int, int]) -> Value | None:
    if bias is not None:
        _expect(g, f"{name}_experts_bias", bias, shape[:2])
    return bias


def _expert_of_codes(
    g: Context, attrs: QuantizedAttributes, name: str, shape: tuple[int, int, int], weight: Value, scales: Value | None,
    bias: Value | None, zeros: Value | None,
) -> Expert:
    """A projection whose weight stays packed up to where it is read."""
    bits, block = attrs.bits(name), attrs.block_size or 0
    count, units, depth = shape
    if weight.dtype != "uint8":
        raise g.invalid(f"{name}_experts_weights: got {weight.type}; expected uint8")
    if scales is None:
        raise g.invalid(f"input {name}_scales is absent; expected it with codes of integers")
    if depth % (block or 8 // bits):
        raise g.invalid(f"attribute 'block_size': got {block}; expected one that divides the depth of {name}, {depth}"
                        if block else f"{name}: got a depth of {depth}; expected rows of whole bytes")
    blocks = depth // block if block else 1
    _expect(g, f"{name}_experts_weights", weight, (count, units, depth * bits // 8))
    _expect(g, f"{name}_scales", scales, (count, units, blocks) if block else (count, units))
    codes, origin = signed(g, weight, bits), None
    if zeros is not None:
        rows = (count * units, blocks) if block else (count, units)
        size = -(-rows[1] * bits // 8)
        _expect(g, f"{name}_zero_points", zeros, (count, units, size) if block else (count, size))
        codes = unsigned(g, weight, bits)
        origin = g.reshape(zero_points_of(g, zeros, bits, rows), (count, units, blocks))
    factors = g.cast(g.reshape(scales, (count, units, blocks)), "float32")
    real = g.call("qnn.dequantize", codes, factors, origin, axis=2, block_size=block or depth)
    rounds = block and weight.constant is not None and (bits == 8 or bits == 4 and attrs.accuracy_level == MAX_ROUNDED)
    own = _bias(g, name, bias, shape)
    return Expert(name, real, None if own is None else g.cast(own, "float32"), block if rounds else 0)


def _mixed(g: Context, attrs: ExpertAttributes, x: Value, chosen: Value, share: Value, parts: Sequence[Expert]) -> Value:
    """The layer: fc1, with fc3 or without, an activation, fc2."""
    first, second, *others = parts
    third = others[0] if others else None
    activate = _activation(g, attrs, third is not None)

    def layer(rows: Value, expert: Value) -> Value:
        inner = first(g, rows, expert)
        return second(g, activate(inner, None if third is None else third(g, rows, expert)), expert)

    rows = g.reshape(x, (dims.product(x.shape[:-1]), x.shape[-1]))
    total = experts.mixture(g, g.cast(rows, first.weight.dtype), chosen, share, layer)
    return g.reshape(g.cast(total, x.dtype), x.shape)


_PLAIN: dict[str, Callable[[Context, Value], Value]] = {
    "relu": lambda g, x: g.call("nn.relu", x),
    "gelu": lambda g, x: g.call("nn.gelu", x, approximate="tanh"),
    "silu": lambda g, x: g.call("nn.silu", x),
    "identity": lambda g, x: x,
    "relu2": lambda g, x: (Term(g, g.call("nn.relu", x)) * Term(g, g.call("nn.relu", x))).value,
}
"""Activations of one projection by their name."""


def _activation(g: Context, attrs: ExpertAttributes, has_third: bool) -> Callable[[Value, Value | None], Value]:
    """The activation of fc1's results and fc3's."""
    kind, fusion = attrs.activation_type, attrs.swiglu_fusion
    if kind in _PLAIN:
        return lambda x, up: _PLAIN[kind](g, x) if up is None else g.call("multiply", _PLAIN[kind](g, x), up)
    if kind not in _GATED:
        raise g.unsupported(f"attribute 'activation_type': got {kind!r}; supported: {', '.join((*_PLAIN, *_GATED))}")
    if fusion not in (0, 1, 2):
        raise g.invalid(f"attribute 'swiglu_fusion': got {fusion}; expected 0, 1 or 2")
    if has_third == attrs.is_fused or kind == "geglu" and has_third:
        raise g.invalid(f"attributes 'activation_type' and 'swiglu_fusion': got {kind!r} and {fusion} "
                        f"{'with' if has_third else 'without'} fc3; expected fc3 with swiglu and 0, none with 1 or 2")
    if attrs.swiglu_limit is not None and not attrs.swiglu_limit >= 0:
        raise g.invalid(f"attribute 'swiglu_limit': got {attrs.swiglu_limit}; expected a number from 0 on")
    gated = partial(_swiglu, g, attrs) if kind == "swiglu" else partial(_geglu, g)
    return lambda x, up: gated(*_halves(g, x, fusion)) if up is None else gated(x, up)


def _halves(g: Context, x: Value, fusion: int) -> tuple[Value, Value]:
    """What two fused projections give: element by element in turn (1), or one after the other (2)."""
    size = x.shape[1]
    assert isinstance(size, int)

    def part(begin: int, end: int, stride: int) -> Value:
        return g.call("strided_slice", x, begin=(begin,), end=(end,), strides=(stride,), axes=(1,))

    if fusion == 1:
        return part(0, size, 2), part(1, size, 2)
    return part(0, size // 2, 1), part(size // 2, size, 1)


def _geglu(g: Context, gate: Value, up: Value) -> Value:
    return g.call("multiply", _PLAIN["gelu"](g, gate), up)


def _swiglu(g: Context, attrs: ExpertAttributes, gate: Value, up: Value) -> Value:
    """``gate * sigmoid(alpha * gate) * (up + beta)``, with limits."""
    limit = attrs.swiglu_limit
    late = bool(attrs.swiglu_limit_after_activation)

    def least(value: Value) -> Value:
        return value if limit is None else g.call("minimum", value, g.scalar(limit, value))

    inner = gate if late else least(gate)
    if attrs.activation_alpha == 1.0:
        active = g.call("nn.silu", inner)
    else:
        active = g.call("multiply", inner, g.call("sigmoid", (Term(g, inner) * attrs.activation_alpha).value))
    if limit is not None:
        up = g.call("clip", up, a_min=-limit, a_max=limit)
    plus = (Term(g, up) + attrs.activation_beta).value if attrs.activation_beta else up
    return g.call("multiply", least(active) if late else active, plus)
