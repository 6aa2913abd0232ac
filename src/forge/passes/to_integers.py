"""Products of quantised numbers are summed as integers, and stay integers up to the next product.

``nn.dense(qnn.dequantize(%x, s, z), qnn.dequantize(w, t))`` -->
``multiply(cast(subtract(nn.dense(%u, w, out_dtype="int32"), z * sum(w))), s * t)``, where ``%u`` is ``%x`` as uint8, and the same
for products of ``subtract(cast(%x, int32), z)`` with constants, and for convolutions. Sums of integers are exact: the result is
rounded once where sums of floats are rounded at each step. The products run on all CPUs with the same integers. A weight of uint8
whose difference to its zero point is no int8 is one and a number for each result, times the sum of the data that this result has
read. Depthwise convolutions by such weights, and of data with a zero point for each channel, sum the same integers in float32,
which holds them.

Data of 16 bits are multiplied as int16, in as many parts of the depth as their sums need to fit into 32 bits, whatever the data
are: ``multiply(cast(subtract(nn.dense(%i, w, out_dtype="int32"), z * sum(w))), s * t)``, or a sum of several of these. Of such
data, 3x3 convolutions of large images stay in float32, where they take a fourth to four ninths of the products (Winograd's
algorithm, whose data of 16 bits would not fit into 16); on every target, unless ``use_winograd`` is off or ``exact`` is given.

What is around them: ``forge.passes.integer_rules``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.ir.edits.rewrite import Declined, Rule, RuleBuilder, rule
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.core.window_geometry import padding_pairs
from forge.ops.elementwise.cast import Cast
from forge.ops.nn.convolution import Conv
from forge.ops.nn.matmul import BatchMatmul, Dense, Matmul
from forge.ops.nn.transposed_convolution import Conv2DTranspose
from forge.ops.packed.pairs import MULTIPLE
from forge.ops.quantized.quantize import Dequantize
from forge.options import CompileOptions
from forge.passes import integer_rules, use_winograd
from forge.passes.base import rewriting, rules_of
from forge.passes.choose_layouts import has_usual_layout
from forge.passes.matching import made_by, operand

BYTES = ("uint8", "int8")
WIDE = ("uint16", "int16")
HALF = 1 << 15
"""No int16 is farther from 0."""
MOST_SUM = 1 << 30
"""Sums of products, and a bias of this size, fit into 32 bits."""
ROWS = 256
"""So many rows of a weight are looked at a time."""
MOST_PARTS = 16
"""Parts of the depth: more than those of 10000 usual weights."""
LONGEST = MOST_SUM // (255 * 128)
"""Sums of more products, and a bias, may not fit into 32 bits."""
MOST_TAPS = (1 << 24) // (255 * 255)
"""float32 may not hold sums of more products."""
NINE_BITS = "the weight without its zero point is no int8"
"""A reason where sums of the data, which the rest of the weight is multiplied with, would be needed for each group or phase."""
WINOGRAD_CHANNELS, WINOGRAD_POSITIONS = 16, 400
"""Input channels and results of an image from which 3x3 convolutions of float32 are faster than those of 16-bit integers."""
SEVERAL = "the data have several scales"
LEAST_GROUP = 16
"""Channels of a group: narrower ones leave the lanes of vectors empty."""


@dataclass(frozen=True)
class _Integers:
    """What ``(data - zero) * scale`` is made of; ``scale`` is None for integers that are no quantised numbers.

    ``axis`` is that of the data along which vectors of scales and zero points lie, where they do not broadcast.
    """

    data: Value
    zero: Value | None
    scale: Value | None = None
    axis: int | None = None


@dataclass(frozen=True)
class _Weight:
    """A weight without its zero points: ``array + offset``, integers of 8 bits and a number for each of the results.

    ``scale``: one, or one for each of the results; None for integers that are no quantised numbers.
    """

    array: np.ndarray
    offset: np.ndarray
    scale: np.ndarray | None

    @property
    def is_plain(self) -> bool:
        return not self.offset.any()


@rule("nn.dense", "nn.matmul")
def product_to_integers(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    swapped = _weight_is_swapped(node)
    if swapped is None:
        return None
    operands = _operands(node)
    if not isinstance(operands, tuple):
        return operands
    data, weight = operands
    if data.zero is not None and data.zero.size != 1 and data.zero.shape[-1] != 1:
        return Declined("the zero points of the data differ along the depth")
    found = _bytes(weight, 1 if swapped else 0)
    if isinstance(found, Declined):
        return found
    matrix = found.array.T if swapped else found.array
    if data.data.dtype in WIDE:
        return _wide_product(builder, node, data, found, matrix)
    depth = matrix.shape[1]
    if depth > _longest(found):
        return Declined(f"the depth is {depth}; expected at most {_longest(found)}")
    source, shift = _unsigned(builder, data.data)
    total = builder.call("nn.dense", *_whole_groups(builder, source, matrix), name=node.name, out_dtype="int32")
    if not found.is_plain:
        rows = builder.call("sum", builder.call("cast", source, dtype="int32"), axis=(-1,), keepdims=True)
        total = _plus_offset(builder, total, rows, found.offset)
    sums = matrix.sum(axis=1, dtype=np.int32) + depth * found.offset
    return _scaled(builder, _centred(builder, total, data.zero, shift, sums), data, found.scale)


def _whole_groups(builder: RuleBuilder, data: Value, matrix: np.ndarray) -> tuple[Value, Value]:
    """Operands of a product, zero-padded along the depth to a multiple of what one dot product sums."""
    spare = -matrix.shape[1] % MULTIPLE
    return _longer(builder, data, -1, spare), builder.constant(np.pad(matrix, ((0, 0), (0, spare))))


@rule("nn.dense", "nn.matmul", "nn.batch_matmul")
def activations_to_integers(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """Products of two operands that are known at run time only: the sums that zero points add are taken from both."""
    operands = _operands(node)
    if not isinstance(operands, tuple) or operands[1].data.constant is not None:
        return operands if isinstance(operands, Declined) else None
    a, b = operands
    if a.data.dtype in WIDE or b.data.dtype in WIDE:
        return Declined("two activations, and one of them has 16 bits")
    swapped, other = _transposes(node)
    depth = a.data.shape[-2 if swapped else -1]
    if a.data.rank < 2 or not isinstance(depth, int) or depth > LONGEST // 2:
        return Declined(f"the depth is {depth}; expected a number of at most {LONGEST // 2}, of matrices")
    if any(v is not None and v.size != 1 for v in (a.zero, b.zero, b.scale)):
        return Declined("an operand has several scales or zero points")
    if b.scale is not None and b.scale.constant is None:
        return Declined("the scale of the second operand is known at run time only")
    (left, left_shift), (right, right_shift) = _unsigned(builder, a.data), _signed(builder, b.data)
    spare = -depth % MULTIPLE
    padded = [_longer(builder, v, axis, spare) for v, axis in ((left, -2 if swapped else -1), (right, -1 if other else -2))]
    total = builder.call("nn.matmul", *padded, name=node.name, out_dtype="int32", transpose_a=swapped, transpose_b=other)
    zeros = [_zero(builder, a.zero, left_shift), _zero(builder, b.zero, right_shift)]
    if zeros[1] is not None:
        total = builder.call("subtract", total, builder.call("multiply", _sums(builder, left, swapped, 0), zeros[1]))
    if zeros[0] is not None:
        sums = _sums(builder, right, other, 1)
        if zeros[1] is not None:
            count = builder.constant(np.int32(depth))
            sums = builder.call("subtract", sums, builder.call("multiply", zeros[1], count))
        total = builder.call("subtract", total, builder.call("multiply", sums, zeros[0]))
    return _scaled(builder, total, a, None if b.scale is None else _number(b.scale))


def _transposes(node: Node) -> tuple[bool, bool]:
    """Whether the last two axes of the operands of a product are swapped."""
    if Dense.of(node) is not None:
        return False, True
    product = Matmul.of(node) or BatchMatmul.of(node)
    assert product is not None
    return product.attrs.transpose_a, product.attrs.transpose_b


def _longer(builder: RuleBuilder, data: Value, axis: int, spare: int) -> Value:
    """With ``spare`` zeros after an axis."""
    if not spare:
        return data
    widths = tuple((0, spare if k == axis % data.rank else 0) for k in range(data.rank))
    return builder.call("nn.pad", data, builder.constant(np.zeros((), dtypes.numpy_dtype(data.dtype))), pad_width=widths)


def _zero(builder: RuleBuilder, zero: Value | None, shift: int) -> Value | None:
    """A zero point of what was shifted, of int32; None: it is 0."""
    known = np.int32(0) if zero is None else zero.constant
    if known is not None:
        whole = int(known.reshape(())) + shift
        return builder.constant(np.int32(whole)) if whole else None
    assert zero is not None
    return _shifted(builder, builder.call("reshape", zero, newshape=()), shift)


def _sums(builder: RuleBuilder, data: Value, swapped: bool, place: int) -> Value:
    """Sums along the depth of operand ``place`` of a product, which broadcast to the result."""
    whole = builder.call("cast", data, dtype="int32")
    axis = -2 if swapped == (place == 0) else -1
    sums = builder.call("sum", whole, axis=(axis,))
    return builder.call("expand_dims", sums, axis=-2 if place else -1)


def _number(value: Value) -> np.ndarray:
    assert value.constant is not None
    return value.constant.reshape(())


def convolution_to_integers(options: CompileOptions, builder: RuleBuilder, node: Node) -> Value | Declined | None:
    conv = Conv.of(node)
    if conv is None:
        return None
    operands = _operands(node, channels=conv.attrs.groups == conv.data.shape[1])
    if not isinstance(operands, tuple):
        return operands
    data, weight = _with_one_zero(builder, operands[0]), operands[1]
    if not has_usual_layout(conv):
        return Declined("the kernels of blocked layouts do not take it")
    if data.zero is not None and data.zero.size != 1 and data.scale is None:
        return Declined("the data have several zero points")
    if not _is_byte(data):
        return Declined("the zero point of the data is not of their type")
    found = _bytes(weight, 0)
    if isinstance(found, Declined):
        return found
    kernel = found.array
    groups, outer = conv.attrs.groups, kernel.shape[0] // conv.attrs.groups
    depthwise = groups > 1 and kernel.shape[1] == outer == 1
    if not depthwise and any(v is not None and v.size != 1 for v in (data.scale, data.zero)):
        return Declined(SEVERAL)
    if groups > 1 and not depthwise and min(kernel.shape[1], outer) < LEAST_GROUP:
        return Declined(f"groups of {kernel.shape[1]} to {outer} channels; expected at least {LEAST_GROUP}")
    if groups > 1 and not depthwise and not found.is_plain:
        return Declined(NINE_BITS)
    along = (-1, *(1,) * (kernel.ndim - 2))
    if data.data.dtype in WIDE and depthwise:
        return Declined("float32 does not hold the sums of depthwise convolutions of 16 bits")
    if data.data.dtype in WIDE and _has_winograd(options) and _takes_winograd(conv):
        return Declined("16 bits, and float32 takes fewer products (Winograd's algorithm)")
    if data.data.dtype in WIDE:
        return _wide_convolution(builder, conv, data, found)
    in_float = depthwise and not (found.is_plain and _has_one_zero(data))
    longest = MOST_TAPS if in_float else _longest(found)
    if kernel[0].size > longest:
        return Declined(f"sums of {kernel[0].size} products; expected at most {longest}")
    make = _depthwise if in_float else _convolution
    scale = None if found.scale is None else found.scale.reshape(along)
    return _scaled(builder, make(builder, conv, data, found, along), data, scale)


@rule("nn.conv2d_transpose")
def transposed_to_integers(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """Where zero stands for zero: borders add fewer products."""
    conv = Conv2DTranspose.of(node)
    if conv is None:
        return None
    operands = _operands(node)
    if not isinstance(operands, tuple):
        return operands
    data, weight = operands
    if not has_usual_layout(conv) or conv.attrs.groups != 1:
        return Declined("the kernels of blocked layouts do not take it")
    zero = np.int32(0) if data.zero is None else data.zero.constant
    if data.data.dtype != "uint8" or zero is None or zero.any():
        return Declined("the zero point of the data is not 0, of uint8")
    found = _bytes(weight, 1)
    if isinstance(found, Declined):
        return found
    kernel = found.array
    if not found.is_plain:
        return Declined(NINE_BITS)
    if kernel.size // kernel.shape[1] > LONGEST:
        return Declined(f"sums of more than {LONGEST} products")
    attributes = {**node.attributes, "out_dtype": "int32"}
    total = builder.call(node.op, data.data, builder.constant(kernel), name=node.name, **attributes)
    return _scaled(builder, total, data, None if found.scale is None else found.scale.reshape(-1, 1, 1))


def _has_winograd(options: CompileOptions) -> bool:
    """Whether 3x3 convolutions of float32 may take fewer products."""
    is_on = options.opt_level >= use_winograd.LEVEL and "use_winograd" not in options.disabled_pass
    return is_on and options.winograd and not options.exact and options.channel_layout is None


def _takes_winograd(conv: Conv) -> bool:
    """Whether a convolution of float32 takes fewer products, on most targets."""
    attrs, (_, channels, *kernel), positions = conv.attrs, conv.weight.shape, dims.product(conv.result.shape[2:])
    if tuple(kernel) != (3, 3) or any(v != 1 for v in (*attrs.strides, *attrs.dilation, attrs.groups)):
        return False
    return channels >= WINOGRAD_CHANNELS and isinstance(positions, int) and positions >= WINOGRAD_POSITIONS


def _convolution(builder: RuleBuilder, conv: Conv, data: _Integers, weight: _Weight, along: tuple[int, ...]) -> Value:
    """The sums, of int32. Padding is what stands for zero."""
    whole, shift = _unsigned(builder, data.data)
    source, attributes = _padded(builder, conv, data.zero, whole, shift)
    kernel, offset = weight.array, weight.offset.reshape(along)
    total = builder.call(conv.node.op, source, builder.constant(kernel), name=conv.node.name, **attributes)
    if not weight.is_plain:
        ones = builder.constant(np.ones((1, *kernel.shape[1:]), np.int8))
        total = _plus_offset(builder, total, builder.call(conv.node.op, source, ones, **attributes | {"channels": None}), offset)
    sums = kernel.reshape(len(kernel), -1).sum(axis=1, dtype=np.int32).reshape(along) + kernel[0].size * offset
    return _centred(builder, total, data.zero, shift, sums)


def _wide_product(builder: RuleBuilder, node: Node, data: _Integers, weight: _Weight, matrix: np.ndarray) -> Value | Declined:
    """The real numbers that sums of data of 16 bits stand for."""

    def multiply(source: Value, part: np.ndarray, shift: int) -> Value:
        return builder.call("nn.dense", *_whole_groups(builder, source, part), name=node.name, out_dtype="int32")

    return _sum_of_parts(builder, data, weight, matrix, _Parts(data.data.rank - 1, True, (-1,), multiply))


def _wide_convolution(builder: RuleBuilder, conv: Conv, data: _Integers, weight: _Weight) -> Value | Declined:
    """`_wide_product`, of a convolution."""

    def multiply(source: Value, part: np.ndarray, shift: int) -> Value:
        padded, attributes = _padded(builder, conv, data.zero, source, shift)
        return builder.call(conv.node.op, padded, builder.constant(part), name=conv.node.name, **attributes)

    along = (-1, *(1,) * (weight.array.ndim - 2))
    return _sum_of_parts(builder, data, weight, weight.array, _Parts(1, conv.attrs.groups == 1, along, multiply))


@dataclass(frozen=True)
class _Parts:
    """How the depth, ``axis`` of the data, is cut. ``multiply`` sums products of data, which are so much more, and a weight.

    ``along``: the shape of numbers for each result.
    """

    axis: int
    are_allowed: bool
    along: tuple[int, ...]
    multiply: Callable[[Value, np.ndarray, int], Value]


def _sum_of_parts(builder: RuleBuilder, data: _Integers, weight: _Weight, array: np.ndarray, parts: _Parts) -> Value | Declined:
    """Data of 16 bits times ``array``, the weight as ``[N, K, ...]``: the real numbers of one sum of int32 for each part."""
    if not weight.is_plain:
        return Declined(NINE_BITS)
    source, shift = _signed(builder, data.data)
    zero = np.int32(0) if data.zero is None else data.zero.constant
    most = MOST_PARTS if parts.are_allowed else 1
    ends = _ends_of_parts(array, None if zero is None else int(zero.reshape(())) + shift, most)
    if ends is None:
        return Declined(f"sums of {array[0].size} products of 16 bits do not fit into {most} of 32 bits")
    scale = None if weight.scale is None else weight.scale.reshape(parts.along)
    terms = list[Value]()
    for first, last in zip((0, *ends), ends):
        piece, part = source, array[:, first:last]
        if len(ends) > 1:
            piece = builder.call("strided_slice", source, begin=(first,), end=(last,), strides=(1,), axes=(parts.axis,))
        sums = part.reshape(len(part), -1).sum(axis=1, dtype=np.int32).reshape(parts.along)
        total = _centred(builder, parts.multiply(piece, part, shift), data.zero, shift, sums)
        terms.append(_scaled(builder, total, data, scale))
    while len(terms) > 1:  # by halves, so that `integer_rules` need not look deep
        half = len(terms) // 2
        terms = [*(builder.call("add", *two) for two in zip(terms[:half], terms[half:])), *terms[2 * half :]]
    return terms[0]


def _ends_of_parts(array: np.ndarray, zero: int | None, most: int) -> tuple[int, ...] | None:
    """Where parts of the depth end, as few as sums of int32 need to hold every int16 less ``zero``; None: more than ``most``.

    ``zero`` None: not known.
    """
    units, depth = array.shape[:2]
    rows = [array[first : first + ROWS] for first in range(0, units, ROWS)]
    for count in range(1, most + 1):
        begins = np.arange(0, depth, -(-depth // (count * MULTIPLE)) * MULTIPLE)
        if all(_fit(part, begins, HALF if zero is None else abs(zero)) for part in rows):
            return (*begins[1:].tolist(), depth)
    return None


def _fit(rows: np.ndarray, begins: np.ndarray, zero: int) -> bool:
    """Whether sums of parts of the depth that begin there hold every int16 less ``zero``."""
    whole = rows.reshape(*rows.shape[:2], -1).astype(np.int64)
    total, size = (np.add.reduceat(v.sum(axis=2), begins, axis=1) for v in (whole, np.abs(whole)))
    return bool(np.all(size * HALF + np.abs(total) * zero <= MOST_SUM))


def _padded(builder: RuleBuilder, conv: Conv, zero: Value | None, source: Value, shift: int) -> tuple[Value, dict[str, Any]]:
    """``source`` and the attributes of a convolution of it. Padding is what stands for zero, ``shift`` more than ``zero``."""
    attributes: dict[str, Any] = {**conv.node.attributes, "out_dtype": "int32"}
    known = np.int32(0) if zero is None else zero.constant
    if known is not None:
        return source, {**attributes, "pad_value": int(known.reshape(())) + shift}
    if not any(conv.attrs.padding):
        return source, attributes
    assert zero is not None
    whole = builder.call("cast", _shifted(builder, builder.call("reshape", zero, newshape=()), shift), dtype=source.dtype)
    widths = padding_pairs(conv.node.op, conv.attrs.padding, conv.data.rank - 2)
    padded = builder.call("nn.pad", source, whole, pad_width=((0, 0), (0, 0), *widths))
    return padded, {**attributes, "padding": (0,) * len(widths)}


def _plus_offset(builder: RuleBuilder, total: Value, sums: Value, offset: np.ndarray) -> Value:
    """``total`` of products of the data, and ``sums`` of the data alone times what the weight is more."""
    return builder.call("add", total, builder.call("multiply", sums, builder.constant(offset)))


def _depthwise(builder: RuleBuilder, conv: Conv, data: _Integers, weight: _Weight, along: tuple[int, ...]) -> Value:
    """The sums, whole numbers of float32."""
    kernel = weight.array + weight.offset.reshape(-1, 1, *along[1:])
    wide = builder.call("cast", data.data, dtype="int32")
    if data.zero is not None:
        shape = () if data.zero.size == 1 else (data.zero.size, *along[1:])
        zero = builder.call("cast", builder.call("reshape", data.zero, newshape=shape), dtype="int32")
        wide = builder.call("subtract", wide, zero)
    real = builder.call("cast", wide, dtype="float32")
    attributes = {**conv.node.attributes, "out_dtype": ""}
    total = builder.call(conv.node.op, real, builder.constant(kernel.astype(np.float32)), name=conv.node.name, **attributes)
    return total if data.scale is not None else builder.call("cast", total, dtype="int32")


def _weight_is_swapped(node: Node) -> bool | None:
    """Whether the second operand is ``[K, N]``; None: it is no matrix, or the first is transposed."""
    if Dense.of(node) is not None:
        return False
    product = Matmul.of(node)
    if product is None or product.attrs.transpose_a or product.b.rank != 2:
        return None
    return not product.attrs.transpose_b


def _operands(node: Node, channels: bool = False) -> tuple[_Integers, _Integers] | Declined | None:
    """Data and weight of a product of integers, if it is one. Data may have constant scales for ``channels``, axis 1."""
    data, weight = _integers(operand(node)), _integers(operand(node, 1))
    if weight is None and operand(node, 1).constant is not None and operand(node, 1).dtype == "int32":
        weight = _Integers(operand(node, 1), None)  # small weights are folded when they are imported
    if data is None or weight is None or (data.scale is None) != (weight.scale is None):
        return None
    if node.result.dtype != ("int32" if data.scale is None else "float32"):
        return Declined("sums of another type are asked for")
    parameters = [v for v in (data.scale, data.zero if data.scale is not None else None) if v is not None and v.size != 1]
    if parameters and not (channels and data.axis == 1 and all(v.constant is not None for v in parameters)):
        return Declined(SEVERAL)
    return data, weight


def _with_one_zero(builder: RuleBuilder, data: _Integers) -> _Integers:
    """``data`` with one zero point, if all of theirs are the same."""
    known = None if data.zero is None else data.zero.constant
    if known is None or known.size < 2 or (known != known.flat[0]).any():
        return data
    return replace(data, zero=builder.constant(np.asarray(known.flat[0])))


def _has_one_zero(data: _Integers) -> bool:
    """Whether one number is the zero point of all data, so that padding may be it."""
    return data.zero is None or data.zero.size == 1


def _is_byte(data: _Integers) -> bool:
    """Whether the zero point is of the type of the data, so that padding may hold it."""
    zero = data.zero
    if zero is None or zero.dtype == data.data.dtype:
        return True
    low, high = dtypes.integer_range(data.data.dtype)
    if zero.constant is not None:
        return low <= int(zero.constant.reshape(())) <= high
    cast = Cast.of(zero.producer)
    return cast is not None and cast.data.dtype == data.data.dtype


def _integers(value: Value) -> _Integers | None:
    """``value`` as integers of 8 bits, or quantised ones of 16."""
    found = Dequantize.of(value.producer)
    if found is not None:
        if found.attrs.block_size or found.data.dtype not in (*BYTES, *WIDE):
            return None
        return _Integers(found.data, found.zero_point, found.scale, found.attrs.axis % max(1, found.data.rank))
    difference = made_by(value, "subtract")
    whole, zero = (value, None) if difference is None else (operand(difference), operand(difference, 1))
    cast = Cast.of(whole.producer)
    if cast is None or value.dtype != "int32" or cast.data.dtype not in BYTES:
        return None
    return _Integers(cast.data, zero) if zero is None or zero.rank <= cast.data.rank else None


def _bytes(weight: _Integers, axis: int) -> _Weight | Declined:
    """The weight without zero point, with scales: one, or one for each of the results along ``axis``."""
    data, zero, scale = (None if v is None else _constant(v) for v in (weight.data, weight.zero, weight.scale))
    if data is None or (zero is None) != (weight.zero is None) or (scale is None) != (weight.scale is None):
        return Declined("the weight is not constant")
    for parameter in (zero, scale):
        if parameter is not None and parameter.size != 1 and _axis(parameter, weight.axis, data.ndim) != axis:
            return Declined("the weight's scales or zero points are not those of columns of the result")
    whole = data.astype(np.int32)
    view = [-1 if k == axis else 1 for k in range(data.ndim)]
    if zero is not None:
        whole = whole - zero.astype(np.int32).reshape(view)
    if whole.size == 0 or np.any(whole > 255) or np.any(whole < -255):
        return Declined("the weight without its zero point has no elements, or numbers of more than 9 bits")
    low, high = dtypes.integer_range("int8")
    others = tuple(k for k in range(data.ndim) if k != axis)
    least, most = whole.min(axis=others), whole.max(axis=others)
    offset = np.where((least < low) | (most > high), least - low, 0).astype(np.int32)
    if np.any(most - offset > high):
        return Declined("the weight without its zero point has numbers of more than 8 bits")
    array = (whole - offset.reshape(view)).astype(np.int8)
    return _Weight(array, offset, None if scale is None else scale.reshape(-1))


def _constant(value: Value) -> np.ndarray | None:
    """What a constant holds, or a cast of one: importers leave those of many elements."""
    cast = Cast.of(value.producer)
    if cast is None:
        return value.constant
    known = cast.data.constant
    return None if known is None else known.astype(dtypes.numpy_dtype(value.dtype))


def _longest(weight: _Weight) -> int:
    """How many products may be summed: of weights with an offset, numbers of 9 bits, half as many."""
    return LONGEST if weight.is_plain else LONGEST // 2


def _axis(parameter: np.ndarray, axis: int | None, rank: int) -> int | None:
    """The axis of the weight along which a parameter of several elements lies, if it is one."""
    if axis is not None:
        return axis
    long = [k for k in range(parameter.ndim) if parameter.shape[k] != 1]
    return long[0] - parameter.ndim + rank if len(long) == 1 else None


def _unsigned(builder: RuleBuilder, data: Value) -> tuple[Value, int]:
    """``data`` as uint8, and what that is more."""
    if data.dtype == "uint8":
        return data, 0
    flipped = builder.call("reinterpret", data, dtype="uint8")
    return builder.call("bitwise_xor", flipped, builder.constant(np.uint8(128))), 128


def _signed(builder: RuleBuilder, data: Value) -> tuple[Value, int]:
    """``data`` as signed integers of as many bits, and what that is more."""
    if dtypes.is_signed(data.dtype):
        return data, 0
    half = 1 << (dtypes.bits(data.dtype) - 1)
    flipped = builder.call("bitwise_xor", data, builder.constant(np.asarray(half, dtypes.numpy_dtype(data.dtype))))
    return builder.call("reinterpret", flipped, dtype=data.dtype.removeprefix("u")), -half


def _scaled(builder: RuleBuilder, total: Value, data: _Integers, scale: np.ndarray | None) -> Value:
    """Sums as the real numbers that they stand for, if they do."""
    if data.scale is None or scale is None:
        return total
    real, factor = total if total.dtype == "float32" else builder.call("cast", total, dtype="float32"), data.scale.constant
    if factor is not None:
        several = (-1, *(1,) * (total.rank - 2))
        return builder.call("multiply", real, builder.constant(factor.reshape(() if factor.size == 1 else several) * scale))
    one = builder.call("reshape", data.scale, newshape=())
    return builder.call("multiply", real, builder.call("multiply", one, builder.constant(scale)))


def _centred(builder: RuleBuilder, total: Value, zero: Value | None, shift: int, sums: np.ndarray) -> Value:
    """``total`` without what a zero point of the data, ``shift`` more than ``zero``, adds to it."""
    known = np.int32(0) if zero is None else zero.constant
    if known is not None:
        if known.size == 1:
            known = known.reshape(())
        offset = (known.astype(np.int32) + shift) * sums
        return builder.call("subtract", total, builder.constant(offset)) if offset.any() else total
    assert zero is not None
    if zero.size == 1:
        zero = builder.call("reshape", zero, newshape=())
    offset = builder.call("multiply", _shifted(builder, zero, shift), builder.constant(sums))
    return builder.call("subtract", total, offset)


def _shifted(builder: RuleBuilder, zero: Value, shift: int) -> Value:
    return builder.call("add", builder.call("cast", zero, dtype="int32"), builder.constant(np.int32(shift)))


def run(graph: Graph, options: CompileOptions) -> int:
    convolutions = Rule("convolution_to_integers", ("nn.conv1d", "nn.conv2d"), partial(convolution_to_integers, options))
    products = (product_to_integers, activations_to_integers, convolutions, transposed_to_integers)
    return rewriting(*products, *rules_of(integer_rules.__name__))(graph, options)
