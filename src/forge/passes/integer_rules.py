"""What is between products of quantised numbers stays in integers: rules of ``to_integers``.

Quantising a sum of scaled integers takes one product for each and one rounding: ``qnn.quantize(nn.bias_add(multiply(cast(%i), s),
b), t, z)`` --> ``cast(clip(add(round(multiply(cast(add(%i, b / s)), s / t)), z)))``, with bounds for ``nn.relu`` and ``clip``. A
rounding point moves, by less than one step of the result. All parts of it are rounded on their own (products of converted
integers are no fused multiply-adds), so that all targets give the same integers. Views and selections of elements take integers;
so do averages, of whole numbers, whose sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.ir.edits.rewrite import RuleBuilder, rule
from forge.ir.interp import evaluate
from forge.ir.nodes import Node, Value
from forge.ops.elementwise.cast import Cast
from forge.ops.elementwise.select import Clip
from forge.ops.nn.bias_add import BiasAdd
from forge.ops.quantized.lookup import ENTRIES, Lookup
from forge.ops.quantized.quantize import Dequantize, Quantize
from forge.ops.shape.transpose import Transpose
from forge.passes.matching import has_only_data, made_by, operand, pairs, scalar

MOST_BIAS = 1 << 30
"""Sums of products leave room for a bias of this size in 32 bits."""
MOST_UNIT = 1 / 16
"""In steps of the result."""
BYTES = ("uint8", "int8")
NARROW = (*BYTES, "uint16", "int16")
"""Their differences are whole numbers of float32, and of int32."""
MOST_MOVED = 2.0**-11
"""In steps of the result: so far may numbers be moved away from 0 by more or less than they should be, on average."""
MOST_TERMS = 8
MOST_BITS = 16
"""float32 holds all integers of a quantised type."""
LEAST_SCALE = 1e-30
MOST_NODES = 32
ONE = np.ones(())


@dataclass(frozen=True)
class _Sum:
    """``sum(term * factor) + bias``: whole numbers (int32, or float32 that holds them) times constants."""

    terms: tuple[tuple[Value, np.ndarray], ...] = ()
    bias: np.ndarray | None = None

    @property
    def is_finite(self) -> bool:
        numbers = [factor for _, factor in self.terms] + ([] if self.bias is None else [self.bias])
        return all(np.isfinite(n.astype(np.float32)).all() for n in numbers)

    def plus(self, other: _Sum) -> _Sum:
        biases = [b for b in (self.bias, other.bias) if b is not None]
        return _Sum(self.terms + other.terms, sum(biases[1:], biases[0]) if biases else None)

    def times(self, factor: np.ndarray) -> _Sum:
        return _Sum(tuple((v, f * factor) for v, f in self.terms), None if self.bias is None else self.bias * factor)


@rule()
def select_integers(builder: RuleBuilder, node: Node) -> Value | None:
    """``nn.max_pool2d(qnn.dequantize(%x, s, z))`` --> ``qnn.dequantize(nn.max_pool2d(%x), s, z)``"""
    op = node.op_def
    moves = op.is_view or op.is_permutation
    if not (moves or op.is_selection) or len(node.results) != 1 or node.operands[0] is None:
        return None
    found = _bytes(node.operands[0])
    if found is None or found.scale.constant is None and not moves:
        return None
    whole = builder.call(node.op_def, found.data, *node.operands[1:], name=node.name, **node.attributes)
    return builder.call("qnn.dequantize", whole, found.scale, found.zero_point, axis=-1)


@rule("transpose")
def transpose_weights(builder: RuleBuilder, node: Node) -> Value | None:
    """Of constants with scales along an axis."""
    transpose = Transpose.of(node)
    found = None if transpose is None else Dequantize.of(transpose.data.producer)
    if transpose is None or found is None or found.data.constant is None or found.attrs.block_size:
        return None
    axes = transpose.permutation(transpose.attrs, found.data.rank)
    place = axes.index(found.attrs.axis % found.data.rank)
    whole = builder.constant(np.transpose(found.data.constant, axes), name=found.data.name)
    return builder.call("qnn.dequantize", whole, found.scale, found.zero_point, axis=place)


@rule("concatenate")
def concatenate_integers(builder: RuleBuilder, node: Node) -> Value | None:
    """Of numbers of one scale."""
    found = [None if v is None else _bytes(v) for v in node.operands]
    parts = [f for f in found if f is not None]
    if len(parts) < len(found) or len({_parameters(f) for f in parts}) != 1:
        return None
    whole = builder.call("concatenate", *(f.data for f in parts), name=node.name, **node.attributes)
    return builder.call("qnn.dequantize", whole, parts[0].scale, parts[0].zero_point, axis=-1)


@rule()
def average_integers(builder: RuleBuilder, node: Node) -> Value | None:
    """``nn.global_avg_pool2d(qnn.dequantize(%x, s, z))`` --> ``multiply(nn.global_avg_pool2d(cast(%x) - z), s)``"""
    if not node.op_def.is_average or len(node.results) != 1 or node.operands[0] is None or not has_only_data(node):
        return None
    found = _bytes(node.operands[0])
    if found is None or found.scale.constant is None or found.data.dtype not in BYTES:
        return None
    real = builder.call("cast", _centred(builder, found), dtype="float32")
    mean = builder.call(node.op_def, real, name=node.name, **node.attributes)
    return builder.call("multiply", mean, builder.constant(found.scale.constant.reshape(())))


@dataclass(frozen=True)
class _Steps:
    """What numbers are quantised to: scale and zero point, one of each or one for each channel, in which case they broadcast."""

    dtype: str
    scale: np.ndarray
    zero: np.ndarray


@rule(Quantize)
def quantize_again(builder: RuleBuilder, found: Quantize) -> Value | None:
    """``qnn.quantize(qnn.dequantize(%x, s, z), s, z)`` --> ``%x``, with bounds for ``nn.relu`` and ``clip``"""
    wanted = _wanted(found)
    if wanted is None or wanted.scale.size != 1 or wanted.zero.size != 1:
        return None
    value, least, most = _bounded(found.data, wanted)
    same, low, high = _bytes(value), int(least), int(most)
    if same is None or _parameters(same) != (wanted.dtype, float(wanted.scale), int(wanted.zero)) or low > high:
        return None
    if (low, high) == dtypes.integer_range(wanted.dtype):
        return same.data
    return builder.call("clip", same.data, a_min=low, a_max=high)


@rule(Quantize, moves_rounding=True)
def quantize_a_sum(builder: RuleBuilder, found: Quantize) -> Value | None:
    wanted = _wanted(found)
    if wanted is None:
        return None
    value, low, high = _bounded(found.data, wanted)
    total = _sum(builder, value) if np.all(low <= high) else None
    if total is None or not total.terms or not total.is_finite:
        return None
    total, away = total.times(1 / wanted.scale), found.attrs.away
    if away and total.bias is not None and np.all(low >= wanted.zero) and _is_whole_unit(total, away[1]):
        total, away = total.plus(_Sum((), np.asarray(away[1], np.float64))), ()
    return _rounded_to(builder, found, wanted, _real(builder, total), low, high, away)


def _is_whole_unit(total: _Sum, step: float) -> bool:
    """Whether ``step`` is near a whole number of the units that a bias is added in, which costs nothing."""
    unit = min((np.abs(factor) for _, factor in total.terms), key=lambda f: float(f.max(initial=0)))
    return bool(np.all(unit > 0) and np.mean(np.abs(np.rint(step / unit) * unit - step)) <= MOST_MOVED)


@rule(Quantize, moves_rounding=True)
def quantize_a_product(builder: RuleBuilder, found: Quantize) -> Value | None:
    """Of two quantised numbers: whole numbers, of which the smaller tensor is multiplied with all scales first.

    A function of one quantised tensor is better as a table.
    """
    wanted = None if _argument(found.node) is not None else _wanted(found)
    value, low, high = (found.data, ONE, -ONE) if wanted is None else _bounded(found.data, wanted)
    product = made_by(value, "multiply")
    if wanted is None or product is None or not np.all(low <= high):
        return None
    factors = [_bytes(operand(product, k)) for k in (0, 1)]
    parts = [f for f in factors if f is not None and f.scale.constant is not None and f.data.dtype in BYTES]
    if len(parts) < 2:
        return None
    if parts[0].result.shape == value.shape:
        parts.reverse()
    scale = np.prod([np.float64(p.scale.constant.reshape(())) for p in parts if p.scale.constant is not None]) / wanted.scale
    if not np.isfinite(scale.astype(np.float32)).all():
        return None
    small, large = (_centred(builder, p, "float32") for p in parts)  # int32, shared with another reader, would be stored
    real = builder.call("multiply", large, builder.call("multiply", small, builder.constant(scale.astype(np.float32))))
    return _rounded_to(builder, found, wanted, real, low, high, found.attrs.away)


def _rounded_to(
    builder: RuleBuilder, found: Quantize, wanted: _Steps, real: Value, low: np.ndarray, high: np.ndarray, away: tuple[float, ...]
) -> Value:
    """``real``, in steps of ``wanted``, moved ``away`` from 0, as what ``found`` gives, between bounds."""
    if away:
        real = builder.call("add", real, _away(builder, real, away[0], away[1], bool(np.all(low >= wanted.zero))))
    real = builder.call("round", real)
    if wanted.zero.any():
        real = builder.call("add", real, builder.constant(wanted.zero.astype(np.float32)))
    return builder.call("cast", _between(builder, real, low, high), dtype=wanted.dtype, name=found.node.name)


def _away(builder: RuleBuilder, real: Value, below: float, above: float, is_positive: bool) -> Value:
    """What is added to ``real``; what is below 0 does not matter where no result is."""
    if is_positive:
        return builder.constant(np.float32(above))
    if below == above >= 0:
        return builder.call("copysign", builder.constant(np.float32(above)), real)
    is_below = builder.call("less", real, builder.constant(np.float32(0)))
    return builder.call("where", is_below, builder.constant(np.float32(-below)), builder.constant(np.float32(above)))


def _between(builder: RuleBuilder, real: Value, low: np.ndarray, high: np.ndarray) -> Value:
    """``real`` within bounds, which may be those of channels."""
    if low.min() == low.max() and high.min() == high.max():
        return builder.call("clip", real, a_min=int(low.min()), a_max=int(high.max()))
    least = builder.call("maximum", real, builder.constant(low.astype(np.float32)))
    return builder.call("minimum", least, builder.constant(high.astype(np.float32)))


def _wanted(found: Quantize) -> _Steps | None:
    """Scales and zero points of a quantisation of float32, if they are known and float32 holds the results."""
    scale, zero = found.scale.constant, np.int32(0) if found.zero_point is None else found.zero_point.constant
    if scale is None or zero is None or found.data.dtype != "float32" or found.attrs.block_size:
        return None
    rank = max(1, found.data.rank)
    along = (-1, *(1,) * (rank - 1 - found.attrs.axis % rank))
    steps, zeros = (v.reshape(() if v.size == 1 else along) for v in (scale.astype(np.float64), np.asarray(zero, np.int64)))
    if not np.all((steps >= LEAST_SCALE) & (steps <= 1 / LEAST_SCALE)) or dtypes.bits(found.attrs.out_dtype) > MOST_BITS:
        return None
    return _Steps(found.attrs.out_dtype, steps, zeros)


@rule(Quantize)
def quantize_before_views(builder: RuleBuilder, found: Quantize) -> Value | None:
    """``qnn.quantize(reshape(%x), s, z)`` --> ``reshape(qnn.quantize(%x, s, z))``"""
    view = found.data.producer
    if view is None or not (view.op_def.is_view or view.op_def.is_permutation) or len(found.data.uses) != 1:
        return None
    if builder.graph.is_output(found.data) or any(v is not None and v.size != 1 for v in found.node.operands[1:]):
        return None
    whole = builder.call("qnn.quantize", view.operands[0], found.scale, found.zero_point, **found.node.attributes | {"axis": -1})
    return builder.call(view.op_def, whole, *view.operands[1:], name=found.node.name, **view.attributes)


@rule(Quantize)
def quantize_parts(builder: RuleBuilder, found: Quantize) -> Value | None:
    """``qnn.quantize(concatenate(%a, %b), s, z)`` --> ``concatenate(qnn.quantize(%a, s, z), qnn.quantize(%b, s, z))``"""
    joined = made_by(found.data, "concatenate")
    if joined is None or found.attrs.block_size or any(v is not None and v.size != 1 for v in found.node.operands[1:]):
        return None
    parts = [builder.call("qnn.quantize", v, found.scale, found.zero_point, axis=-1, out_dtype=found.attrs.out_dtype,
                          away=found.attrs.away) for v in joined.operands if v is not None]
    return builder.call("concatenate", *parts, name=found.node.name, **joined.attributes)


@rule(Quantize)
def tabulate(builder: RuleBuilder, found: Quantize) -> Value | None:
    """A function of one number of eight bits is a table: ``qnn.quantize(tanh(qnn.dequantize(%x, s, z)), t, y)``."""
    whole = _argument(found.node)
    if whole is None or found.attrs.out_dtype not in BYTES:
        return None
    arrays: dict[Value, np.ndarray] = {whole: np.arange(ENTRIES).astype(np.uint8)}

    def values(value: Value) -> np.ndarray:
        if value.constant is not None:
            return value.constant.reshape(()) if value.size == 1 else value.constant
        if value not in arrays and value.producer is not None:
            operands = [None if v is None else values(v) for v in value.producer.operands]
            (arrays[value],) = evaluate(value.producer, operands, {}, lambda *_: [])
        return arrays[value]

    return builder.call("qnn.lookup", whole, builder.constant(values(found.result)), name=found.node.name)


def _argument(node: Node) -> Value | None:
    """The tensor of uint8 of which ``node`` is a function, element by element, if there is one."""
    found: dict[Node, None] = {}
    pending: list[Node] = [node]
    sources: set[Value] = set()
    while pending:
        visited = pending.pop()
        if visited in found:
            continue
        found[visited] = None
        for value in visited.operands:
            if value is None or value.constant is not None and (value.size == 1 or Lookup.of(visited) is not None):
                continue
            is_made = value.dtype == "uint8" and Lookup.of(value.producer) is None
            if is_made or value.producer is None or len(found) > MOST_NODES:
                sources.add(value)
            else:
                pending.append(value.producer)
    whole = sources.pop() if len(sources) == 1 else None
    if whole is None or whole.dtype != "uint8" or whole.constant is not None:
        return None
    return whole if all(_is_function(n) and n.result.shape == whole.shape for n in found) else None


def _is_function(node: Node) -> bool:
    """Whether each element of the result is computed of the operands' at its place."""
    op = node.op_def
    conversion = Quantize.of(node) or Dequantize.of(node)
    per_tensor = conversion is not None and not conversion.attrs.block_size
    return op.is_pure and len(node.results) == 1 and (op.is_map or per_tensor or Lookup.of(node) is not None)


def _bounded(value: Value, wanted: _Steps) -> tuple[Value, np.ndarray, np.ndarray]:
    """``value`` without the bounds that it has, and these as quantised numbers."""
    range_ = dtypes.integer_range(wanted.dtype)
    low, high = (np.full(np.broadcast_shapes(wanted.scale.shape, wanted.zero.shape), bound) for bound in range_)

    def quantised(bound: float) -> np.ndarray:
        whole = np.rint(np.float32(bound) / wanted.scale.astype(np.float32)) + wanted.zero
        return np.asarray(np.clip(whole, *range_), np.int64)

    while True:
        clip = Clip.of(value.producer)
        if (relu := made_by(value, "nn.relu")) is not None:
            value, low = operand(relu), np.maximum(low, wanted.zero)
        elif clip is not None and clip.min is None and clip.max is None and not any(map(_is_nan, vars(clip.attrs).values())):
            value = clip.data
            bounds = [None if b is None else quantised(b) for b in (clip.attrs.a_min, clip.attrs.a_max)]
            low = low if bounds[0] is None else np.maximum(low, bounds[0])
            high = high if bounds[1] is None else np.minimum(high, bounds[1])
        else:
            return value, low, high


def _is_nan(bound: float | None) -> bool:
    return bound is not None and np.isnan(bound)


def _sum(builder: RuleBuilder, value: Value, depth: int = 0) -> _Sum | None:
    """``value`` as a sum of whole numbers times constants, if it is one."""
    constant = _constant(value)
    if constant is not None:
        return _Sum((), constant.astype(np.float64))
    node = value.producer
    if node is None or value.dtype != "float32" or depth > MOST_TERMS:
        return None
    if (found := _bytes(value)) is not None and found.scale.constant is not None:
        whole = _rounded(builder, found)
        return _Sum(((_centred(builder, found) if whole is None else whole,
                      np.asarray(found.scale.constant.reshape(()), np.float64)),))
    cast = Cast.of(node)
    if cast is not None:
        return _Sum(((cast.data, ONE),)) if cast.data.dtype == "int32" else None
    if (biased := BiasAdd.of(node)) is not None:
        data, bias = _sum(builder, biased.data, depth + 1), _constant(biased.bias)
        axis = biased.attrs.axis % biased.data.rank
        if data is None or bias is None:
            return None
        along = [-1 if k == axis else 1 for k in range(biased.data.rank)]
        return data.plus(_Sum((), bias.astype(np.float64).reshape(along)))
    if node.op == "add":
        parts = [_sum(builder, operand(node, k), depth + 1) for k in (0, 1)]
        return None if parts[0] is None or parts[1] is None else parts[0].plus(parts[1])
    if node.op == "multiply":
        return _product(builder, node, depth)
    return _Sum(((value, ONE),)) if _holds_integers(node) else None


def _product(builder: RuleBuilder, node: Node, depth: int) -> _Sum | None:
    for x, factor in pairs(node):
        number = _constant(factor)
        data = None if number is None else _sum(builder, x, depth + 1)
        if data is not None and number is not None and data.terms:
            return data.times(number.astype(np.float64))
    return None


def _holds_integers(node: Node) -> bool:
    """Whether a depthwise convolution sums whole numbers: its data are converted, and its weights whole."""
    if node.op not in ("nn.conv1d", "nn.conv2d"):
        return False
    cast, weight = Cast.of(operand(node).producer), operand(node, 1).constant
    return cast is not None and cast.data.dtype == "int32" and weight is not None and bool(np.all(weight == np.rint(weight)))


def _real(builder: RuleBuilder, total: _Sum) -> Value:
    """The sum as float32. A bias is added to the term of the smallest unit, if that is a small part of a step."""
    terms, bias = list(total.terms), total.bias
    if bias is not None:
        place = min(range(len(terms)), key=lambda k: float(np.abs(terms[k][1]).max(initial=0)))
        value, factor = terms[place]
        biased = _with_bias(builder, value, factor, bias)
        if biased is not None:
            terms[place], bias = (biased, factor), None
    products = [_times(builder, value, factor) for value, factor in terms]
    result = products[0]
    for product in products[1:]:
        result = builder.call("add", result, product)
    return result if bias is None else builder.call("add", result, builder.constant(bias.astype(np.float32)))


def _with_bias(builder: RuleBuilder, value: Value, factor: np.ndarray, bias: np.ndarray) -> Value | None:
    """``value`` with ``bias`` in its units, where these are small."""
    if not np.all(factor) or np.any(np.abs(factor) > MOST_UNIT):
        return None
    offset = _offset(value)
    units = np.rint(bias / factor) - (0 if offset is None else offset)
    held = units.astype(dtypes.numpy_dtype(value.dtype)) if np.all(np.abs(units) <= MOST_BIAS) else None
    if held is None or not np.array_equal(held, units):
        return None
    difference = made_by(value, "subtract") if offset is not None else None
    return builder.call("add", value if difference is None else operand(difference), builder.constant(held))


def _offset(value: Value) -> np.ndarray | None:
    """The constant that ``value``, an integer, is a difference with."""
    node = made_by(value, "subtract")
    constant = None if node is None else operand(node, 1).constant
    return None if constant is None or value.dtype != "int32" else constant.astype(np.float64)


def _times(builder: RuleBuilder, value: Value, factor: np.ndarray) -> Value:
    real = value if value.dtype == "float32" else builder.call("cast", value, dtype="float32")
    return builder.call("multiply", real, builder.constant(np.asarray(factor, np.float32)))


def _bytes(value: Value) -> Dequantize | None:
    """What gives ``value`` out of quantised numbers of 8 or 16 bits with one scale, which is positive, as float32."""
    found = Dequantize.of(value.producer)
    if found is None or found.data.dtype not in NARROW or found.attrs.block_size or value.dtype != "float32":
        return None
    if any(v is not None and v.size != 1 for v in (found.scale, found.zero_point)):
        return None
    return found if found.scale.constant is None or found.scale.constant.reshape(()) > 0 else None


def _parameters(found: Dequantize) -> tuple[object, ...]:
    """What two conversions have in common that are the same."""
    scale, zero = found.scale.constant, np.int32(0) if found.zero_point is None else found.zero_point.constant
    if scale is None or zero is None:
        return (found,)
    return found.data.dtype, float(scale.reshape(())), int(zero.reshape(()))


def _centred(builder: RuleBuilder, found: Dequantize, dtype: str = "int32") -> Value:
    """Whole numbers that are 0 for the real number 0."""
    whole = builder.call("cast", found.data, dtype=dtype)
    if found.zero_point is None:
        return whole
    zero = builder.call("cast", builder.call("reshape", found.zero_point, newshape=()), dtype=dtype)
    return builder.call("subtract", whole, zero)


def _rounded(builder: RuleBuilder, found: Dequantize) -> Value | None:
    """`_centred` as the float32 that was converted to integers, if nobody else reads these."""
    cast = Cast.of(found.data.producer)
    bounded = None if cast is None else Clip.of(cast.data.producer)
    zero = np.int32(0) if found.zero_point is None else found.zero_point.constant
    if cast is None or bounded is None or zero is None or found.data.dtype not in NARROW or cast.data.dtype != "float32":
        return None
    if len(found.data.uses) != 1 or builder.graph.is_output(found.data) or not _is_whole(bounded, found.data.dtype):
        return None
    shift = builder.constant(np.float32(int(zero.reshape(()))))
    return cast.data if not zero.any() else builder.call("subtract", cast.data, shift)


def _is_whole(clip: Clip, dtype: str) -> bool:
    """Whether it gives numbers of ``dtype``: rounded, and perhaps shifted by a zero point, as `quantize_a_sum` makes them."""
    low, high = dtypes.integer_range(dtype)
    bounds = (clip.attrs.a_min, clip.attrs.a_max)
    if not all(b is not None and low <= b <= high and float(b).is_integer() for b in bounds):
        return False
    shifted = made_by(clip.data, "add")
    shift = 0.0 if shifted is None else scalar(operand(shifted, 1))
    data = clip.data if shifted is None else operand(shifted)
    return shift is not None and shift.is_integer() and made_by(data, "round") is not None


def _constant(value: Value) -> np.ndarray | None:
    """The contents of a constant of float32, which may be quantised."""
    if value.constant is not None:
        return value.constant if value.dtype == "float32" else None
    found = Dequantize.of(value.producer)
    operands = [] if found is None else [None if v is None else v.constant for v in found.node.operands]
    known = [c is not None or v is None for c, v in zip(operands, found.node.operands)] if found is not None else [False]
    if found is None or not all(known) or value.dtype != "float32":
        return None
    result: np.ndarray = evaluate(found.node, operands, {}, lambda *_: [])[0]
    return result
