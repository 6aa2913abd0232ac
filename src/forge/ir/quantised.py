"""What makes a model a quantised one, by the facts that its operators declare."""

from __future__ import annotations

from forge import dtypes
from forge.ir.nodes import Node, Value
from forge.ir.op import Category, Kind

NARROW = 8
"""Bits of quantised numbers that are multiplied as integers."""


def is_quantised(node: Node) -> bool:
    """Whether it converts numbers to few bits or back, or sums products of integers of 8 bits or fewer."""
    if node.op_def.category is Category.QUANTISATION or node.op_def.rounds_data(node.attrs):
        return True
    sums_integers = node.op_def.category is Category.CONTRACTION and dtypes.is_integer(getattr(node.results[0].type, "dtype", ""))
    return sums_integers and any(_is_narrow(v) for v in node.operands if v is not None)


def _is_narrow(value: Value) -> bool:
    """Whether it has 8 bits or fewer, but for conversions and differences with zero points."""
    while dtypes.bits(value.dtype) > NARROW and value.producer is not None and value.producer.op_def.kind is Kind.ELEMENTWISE:
        source = value.producer.operands[0]
        if source is None:
            return False
        value = source
    return dtypes.is_integer(value.dtype) and dtypes.bits(value.dtype) <= NARROW
