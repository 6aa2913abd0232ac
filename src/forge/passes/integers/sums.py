"""Sums of scaled integers, read out of a graph and written into one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from forge import dtypes
from forge.ir.edits.rewrite import RuleBuilder
from forge.ir.nodes import Node, Value
from forge.ops.elementwise.cast import Cast
from forge.ops.nn.bias_add import BiasAdd
from forge.passes.integers.numbers import constant_of, numbers_of, rounded
from forge.passes.integers.terms import centred
from forge.passes.matching import made_by, operand, pairs

MAX_BIAS = 1 << 30
"""Sums of products leave room for a bias of this size in 32 bits."""
MAX_UNIT = 1 / 16
"""In steps of the result."""
MAX_TERMS = 8
ONE = np.ones(())


@dataclass(frozen=True)
class Sum:
    """``sum(term * factor) + bias``: whole numbers (int32, or float32 that holds them) times constants."""

    terms: tuple[tuple[Value, np.ndarray], ...] = ()
    bias: np.ndarray | None = None

    @property
    def is_finite(self) -> bool:
        numbers = [factor for _, factor in self.terms] + ([] if self.bias is None else [self.bias])
        return all(np.isfinite(n.astype(np.float32)).all() for n in numbers)

    def plus(self, other: Sum) -> Sum:
        biases = [b for b in (self.bias, other.bias) if b is not None]
        return Sum(self.terms + other.terms, sum(biases[1:], biases[0]) if biases else None)

    def times(self, factor: np.ndarray) -> Sum:
        return Sum(tuple((v, f * factor) for v, f in self.terms), None if self.bias is None else self.bias * factor)


def sum_of(builder: RuleBuilder, value: Value, depth: int = 0) -> Sum | None:
    """Returns ``value`` as a sum of whole numbers times constants, if it is one."""
    constant = constant_of(value)
    if constant is not None:
        return Sum((), constant.astype(np.float64))
    node = value.producer
    if node is None or value.dtype != "float32" or depth > MAX_TERMS:
        return None
    if (found := numbers_of(value)) is not None and found.scale.constant is not None:
        whole = rounded(builder, found) or centred(builder, found.data, found.zero_point)
        return Sum(((whole, np.asarray(found.scale.constant.reshape(()), np.float64)),))
    cast = Cast.of(node)
    if cast is not None:
        return Sum(((cast.data, ONE),)) if cast.data.dtype == "int32" else None
    if (biased := BiasAdd.of(node)) is not None:
        data, bias = sum_of(builder, biased.data, depth + 1), constant_of(biased.bias)
        axis = biased.attrs.axis % biased.data.rank
        if data is None or bias is None:
            return None
        along = [-1 if k == axis else 1 for k in range(biased.data.rank)]
        return data.plus(Sum((), bias.astype(np.float64).reshape(along)))
    if node.op == "add":
        parts = [sum_of(builder, operand(node, k), depth + 1) for k in (0, 1)]
        return None if parts[0] is None or parts[1] is None else parts[0].plus(parts[1])
    if node.op == "multiply":
        return _product(builder, node, depth)
    return Sum(((value, ONE),)) if _holds_integers(node) else None


def _product(builder: RuleBuilder, node: Node, depth: int) -> Sum | None:
    for x, factor in pairs(node):
        number = constant_of(factor)
        data = None if number is None else sum_of(builder, x, depth + 1)
        if data is not None and number is not None and data.terms:
            return data.times(number.astype(np.float64))
    return None


def _holds_integers(node: Node) -> bool:
    """Whether a depthwise convolution sums whole numbers: its data are converted, and its weights whole."""
    if node.op not in ("nn.conv1d", "nn.conv2d"):
        return False
    cast, weight = Cast.of(operand(node).producer), operand(node, 1).constant
    return cast is not None and cast.data.dtype == "int32" and weight is not None and bool(np.all(weight == np.rint(weight)))


def real_sum(builder: RuleBuilder, total: Sum) -> Value:
    """Returns the sum as float32. A bias is added to the term of the smallest unit, if that is a small part of a step."""
    terms, bias = list(total.terms), total.bias
    if bias is not None:
        place = min(range(len(terms)), key=lambda k: float(np.abs(terms[k][1]).max(initial=0)))
        value, factor = terms[place]
        biased = _with_bias(builder, value, factor, bias)
        if biased is not None:
            terms[place], bias = (biased, factor), None
    products = [_times(builder, value, factor) for value, factor in terms]
    result = reduce(partial(builder.call, "add"), products)
    return result if bias is None else builder.call("add", result, builder.constant(bias.astype(np.float32)))


def _with_bias(builder: RuleBuilder, value: Value, factor: np.ndarray, bias: np.ndarray) -> Value | None:
    """``value`` with ``bias`` in its units, where these are small."""
    if not np.all(factor) or np.any(np.abs(factor) > MAX_UNIT):
        return None
    difference = made_by(value, "subtract") if value.dtype == "int32" else None
    offset = None if difference is None else operand(difference, 1).constant
    units = np.rint(bias / factor) - (0 if offset is None else offset.astype(np.float64))
    held = units.astype(dtypes.numpy_dtype(value.dtype)) if np.all(np.abs(units) <= MAX_BIAS) else None
    if held is None or not np.array_equal(held, units):
        return None
    return builder.call("add", value if difference is None or offset is None else operand(difference), builder.constant(held))


def _times(builder: RuleBuilder, value: Value, factor: np.ndarray) -> Value:
    real = value if value.dtype == "float32" else builder.call("cast", value, dtype="float32")
    return builder.call("multiply", real, builder.constant(np.asarray(factor, np.float32)))
