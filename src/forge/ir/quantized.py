"""What makes a model a quantized one, by the facts that its operators declare."""

from __future__ import annotations

from forge import dtypes
from forge.ir.nodes import Node, Value
from forge.ir.op import Category, Kind
from forge.ir.types import TensorType

NARROW = 8
"""Bits of quantized numbers that are multiplied as integers."""


def is_quantized(node: Node) -> bool:
    """Whether it converts numbers to few bits or back, sums products of integers of 8 bits or fewer, or reads such weights."""
    if node.op_def.category is Category.QUANTIZATION or node.op_def.rounds_data(node.attrs):
        return True
    if node.op_def.category is not Category.CONTRACTION:
        return False
    operands = [v for v in node.operands if v is not None]
    sums_integers = dtypes.is_integer(getattr(node.results[0].type, "dtype", ""))
    return any(_is_narrow(v) if sums_integers else _has_codes(v) for v in operands)


def _has_codes(value: Value) -> bool:
    return isinstance(value.type, TensorType) and dtypes.is_integer(value.dtype) and dtypes.bits(value.dtype) <= NARROW


def _is_narrow(value: Value) -> bool:
    """Whether it has 8 bits or fewer, but for conversions and differences with zero points."""
    while dtypes.bits(value.dtype) > NARROW and value.producer is not None and value.producer.op_def.kind is Kind.ELEMENTWISE:
        source = value.producer.operands[0]
        if source is None:
            return False
        value = source
    return dtypes.is_integer(value.dtype) and dtypes.bits(value.dtype) <= NARROW
