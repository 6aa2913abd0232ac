"""Operators bound to nodes: operands, attributes and results by name."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from forge.ir.builder import Builder
from forge.ir.nodes import Node
from forge.ir.op import NoAttrs, OpDef, Operand
from forge.ir.types import TensorType
from forge.ops.nn.convolution import Conv, Conv2D, Conv2DAttrs
from forge.ops.nn.recurrent import LSTM
from forge.ops.nn.transposed_convolution import ConvTranspose


@dataclass(frozen=True)
class Attrs:
    axis: int = 3


class Base(OpDef[Attrs]):
    first = Operand()
    second = Operand(optional=True)


class Derived(Base):
    """Three operands, of which it declares one."""

    rest = Operand(variadic=True, doc="any number")


F32 = TensorType((2,), "float32")


def node_of(op: OpDef[Attrs], *operands: int | None) -> Node:
    builder = Builder()
    inputs = [None if name is None else builder.input(F32, f"x{name}") for name in operands]
    return builder.graph.insert(Node(op, inputs, Attrs(7), [F32]))


def test_operands_follow_those_of_the_base_class() -> None:
    assert [(o.name, o.optional, o.variadic) for o in Derived.operands] == [
        ("first", False, False), ("second", True, False), ("rest", False, True)
    ]
    assert Derived.operands[:2] == Base.operands and Derived.first is Base.operands[0]


def test_the_class_of_attributes_is_that_of_the_declaration() -> None:
    class Without(OpDef[NoAttrs]):
        """No attributes, no operands."""

    class Own(Base):
        Attrs = NoAttrs

    assert (Derived.Attrs, Without.Attrs, Own.Attrs, Conv2D.Attrs) == (Attrs, NoAttrs, NoAttrs, Conv2DAttrs)
    assert Without.operands == ()


def test_a_bound_operator_has_operands_and_attributes_by_name() -> None:
    node = node_of(Derived(), 0, None, 2, 3)
    bound = Derived.of(node)
    assert bound is not None
    assert (bound.first, bound.second, bound.rest) == (node.operands[0], None, (node.operands[2], node.operands[3]))
    assert bound.attrs.axis == 7 and bound.result is node.result
    node.set_operand(0, node.operands[3])
    assert bound.first is node.operands[3]


def test_operands_at_the_end_may_be_left_out() -> None:
    bound = Derived.of(node_of(Derived(), 0))
    assert bound is not None and bound.second is None and bound.rest == ()


def test_a_class_binds_nodes_of_its_operators_only() -> None:
    builder = Builder()
    x, w = builder.input(TensorType((1, 3, 8, 8), "float32")), builder.input(TensorType((4, 3, 3, 3), "float32"))
    node = builder.call("nn.conv2d", x, w, padding=(1, 1)).producer
    for found in (Conv.of(node), Conv2D.of(node)):
        assert found is not None and found.weight is w and found.attrs.padding == (1, 1) and found.name == "nn.conv2d"
    assert ConvTranspose.of(node) is None and Conv.of(x.producer) is None


def test_operators_that_are_not_bound_have_no_values() -> None:
    assert [o.name for o in LSTM.operands] == [
        "x", "w", "r", "bias", "lengths", "h0", "c0", "peephole", "w_scale", "w_zero_point", "r_scale", "r_zero_point", "r_sums"]
    with pytest.raises(AttributeError, match="node"):
        LSTM().bias  # noqa: B018
