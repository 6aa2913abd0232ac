"""Convolutions of integers by constant weights.

A weight of uint8 whose difference to its zero point does not fit into int8 is stored as int8 and one offset for each result,
which adds ``offset * sum(data)``. Depthwise convolutions by such weights, and of data with a zero point for each channel, sum the
same integers in float32, which holds them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from forge.ir.edits.rewrite import Declined, RuleBuilder, rule
from forge.ir.nodes import Node, Value
from forge.ops.core.window_geometry import padding_pairs
from forge.ops.nn.convolution import Conv
from forge.ops.nn.transposed_convolution import Conv2DTranspose
from forge.options import CompileOptions
from forge.passes import use_winograd
from forge.passes.choose_layouts import has_usual_layout
from forge.passes.integers.operands import LONGEST, NINE_BITS, SEVERAL, WIDE, Integers, Weight, operands_of, weight_of
from forge.passes.integers.parts import MAX_PARTS, sum_of_parts
from forge.passes.integers.terms import centred, plus_offset, scaled, shifted, unsigned, without_zero
from forge.passes.matching import again

MAX_TAPS = (1 << 24) // (255 * 255)
"""float32 may not hold sums of more products."""
MIN_GROUP = 16
"""Channels of a group: narrower ones leave the lanes of vectors empty."""


def convolution_to_integers(options: CompileOptions, builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """Replaces a convolution of quantized numbers by one of integers, or of whole numbers of float32."""
    conv = Conv.of(node)
    assert conv is not None
    operands = operands_of(node, channels=conv.attrs.groups == conv.data.shape[1])
    if not isinstance(operands, tuple):
        return operands
    data, weight = operands[0].with_one_zero(builder), operands[1]
    if not has_usual_layout(conv):
        return Declined("the kernels of blocked layouts do not take it")
    if data.zero is not None and data.zero.size != 1 and data.scale is None:
        return Declined("the data have several zero points")
    if not data.is_byte:
        return Declined("the zero point of the data is not of their type")
    found = weight_of(weight, 0)
    if isinstance(found, Declined):
        return found
    kernel = found.array
    groups, outer = conv.attrs.groups, kernel.shape[0] // conv.attrs.groups
    depthwise = groups > 1 and kernel.shape[1] == outer == 1
    if not depthwise and any(v is not None and v.size != 1 for v in (data.scale, data.zero)):
        return Declined(SEVERAL)
    if groups > 1 and not depthwise and min(kernel.shape[1], outer) < MIN_GROUP:
        return Declined(f"groups of {kernel.shape[1]} to {outer} channels; expected at least {MIN_GROUP}")
    if groups > 1 and not depthwise and not found.is_plain:
        return Declined(NINE_BITS)
    along = (-1, *(1,) * (kernel.ndim - 2))
    if data.data.dtype in WIDE and depthwise:
        return Declined("float32 does not hold the sums of depthwise convolutions of 16 bits")
    if data.data.dtype in WIDE and use_winograd.is_on(options) and use_winograd.is_likely(conv):
        return Declined("16 bits, and float32 takes fewer products (Winograd's algorithm)")
    if data.data.dtype in WIDE:
        return _wide_convolution(builder, conv, data, found)
    in_float = depthwise and not (found.is_plain and data.has_one_zero)
    most = MAX_TAPS if in_float else found.longest
    if kernel[0].size > most:
        return Declined(f"sums of {kernel[0].size} products; expected at most {most}")
    make = _depthwise if in_float else _convolution
    scale = None if found.scale is None else found.scale.reshape(along)
    return scaled(builder, make(builder, conv, data, found, along), data, scale)


@rule(Conv2DTranspose)
def transposed_to_integers(builder: RuleBuilder, conv: Conv2DTranspose) -> Value | Declined | None:
    """Sums a transposed convolution as integers, where zero stands for zero: borders add fewer products."""
    operands = operands_of(conv.node)
    if not isinstance(operands, tuple):
        return operands
    data, weight = operands
    if not has_usual_layout(conv) or conv.attrs.groups != 1:
        return Declined("the kernels of blocked layouts do not take it")
    zero = np.int32(0) if data.zero is None else data.zero.constant
    if data.data.dtype != "uint8" or zero is None or zero.any():
        return Declined("the zero point of the data is not 0, of uint8")
    found = weight_of(weight, 1)
    if isinstance(found, Declined):
        return found
    kernel = found.array
    if not found.is_plain:
        return Declined(NINE_BITS)
    if kernel.size // kernel.shape[1] > LONGEST:
        return Declined(f"sums of more than {LONGEST} products")
    total = again(builder, conv.node, data.data, builder.constant(kernel), out_dtype="int32")
    return scaled(builder, total, data, None if found.scale is None else found.scale.reshape(-1, 1, 1))


def _convolution(builder: RuleBuilder, conv: Conv, data: Integers, weight: Weight, along: tuple[int, ...]) -> Value:
    """The sums, of int32. Padding is what stands for zero."""
    whole, shift = unsigned(builder, data.data)
    source, attributes = _padded(builder, conv, data.zero, whole, shift)
    kernel, offset = weight.array, weight.offset.reshape(along)
    total = again(builder, conv.node, source, builder.constant(kernel), **attributes)
    if not weight.is_plain:
        ones = builder.constant(np.ones((1, *kernel.shape[1:]), np.int8))
        apart = builder.call(conv.node.op, source, ones, **conv.node.attributes | attributes | {"channels": None})
        total = plus_offset(builder, total, apart, offset)
    sums = kernel.reshape(len(kernel), -1).sum(axis=1, dtype=np.int32).reshape(along) + kernel[0].size * offset
    return without_zero(builder, total, data.zero, shift, sums)


def _depthwise(builder: RuleBuilder, conv: Conv, data: Integers, weight: Weight, along: tuple[int, ...]) -> Value:
    """The sums, whole numbers of float32."""
    kernel = weight.array + weight.offset.reshape(-1, 1, *along[1:])
    shape = () if data.has_one_zero else (len(kernel), *along[1:])
    real = builder.call("cast", centred(builder, data.data, data.zero, shape=shape), dtype="float32")
    total = again(builder, conv.node, real, builder.constant(kernel.astype(np.float32)), out_dtype="")
    return total if data.scale is not None else builder.call("cast", total, dtype="int32")


def _wide_convolution(builder: RuleBuilder, conv: Conv, data: Integers, weight: Weight) -> Value | Declined:
    """Sums data of 16 bits in parts of the channels, if these are of one group."""
    def multiply(source: Value, part: np.ndarray, shift: int) -> Value:
        padded, attributes = _padded(builder, conv, data.zero, source, shift)
        return again(builder, conv.node, padded, builder.constant(part), **attributes)

    return sum_of_parts(builder, data, weight, weight.array, 1, multiply, MAX_PARTS if conv.attrs.groups == 1 else 1)


def _padded(builder: RuleBuilder, conv: Conv, zero: Value | None, source: Value, shift: int) -> tuple[Value, dict[str, Any]]:
    """``source`` and what changes of the attributes. Padding is what stands for zero, ``shift`` more than ``zero``."""
    attributes: dict[str, Any] = {"out_dtype": "int32"}
    known = np.int32(0) if zero is None else zero.constant
    if known is not None:
        return source, {**attributes, "pad_value": int(known.reshape(())) + shift}
    if not any(conv.attrs.padding):
        return source, attributes
    assert zero is not None
    whole = builder.call("cast", shifted(builder, builder.call("reshape", zero, newshape=()), shift), dtype=source.dtype)
    widths = padding_pairs(conv.node.op, conv.attrs.padding, conv.data.rank - 2)
    padded = builder.call("nn.pad", source, whole, pad_width=((0, 0), (0, 0), *widths))
    return padded, {**attributes, "padding": (0,) * len(widths)}
