"""Builds graphs node by node, with type inference at each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dtypes
from forge.errors import ForgeError, InvalidGraphError, TypeInferenceError
from forge.ir.graph import Graph
from forge.ir.nodes import CONSTANT, ConstantAttrs, Node, Value
from forge.ir.op import OpDef, get_op
from forge.ir.types import Type

# What the inference of an operator may raise on operands and attributes that its author did not think of.
MISFITS = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)


class Builder:
    """Appends nodes to ``graph``, or inserts them before ``before``."""

    def __init__(self, graph: Graph | None = None, before: Node | None = None, location: str = "") -> None:
        self.graph = graph if graph is not None else Graph()
        self.before = before
        self.location = location

    def input(self, type_: Type, name: str = "") -> Value:
        return self.graph.add_input(type_, name)

    def call(self, op: str | OpDef[Any], *operands: Value | None, name: str = "", **attributes: Any) -> Value:
        """Adds a node with one result and returns that.

        Raises:
            InvalidGraphError: the operands or attributes do not fit the operator.
        """
        return self.node(op, operands, attributes, name=name).result

    def call_multi(self, op: str | OpDef[Any], *operands: Value | None, name: str = "", **attributes: Any) -> list[Value]:
        """Adds a node with any number of results and returns them."""
        return self.node(op, operands, attributes, name=name).results

    def node(
        self,
        op: str | OpDef[Any],
        operands: Sequence[Value | None],
        attributes: dict[str, Any],
        regions: Sequence[Graph] = (),
        name: str = "",
        result_names: Sequence[str] = (),
    ) -> Node:
        """Adds a node. Optional operands that are absent at the end of the list are left out."""
        op_def = get_op(op) if isinstance(op, str) else op
        check_arity(op_def, operands, regions)
        operands = _without_absent_tail(op_def, operands)
        attrs = op_def.make_attrs(attributes)
        types = infer(op_def, operands, attrs, regions)
        node = Node(op_def, operands, attrs, types, regions, name, self.location, result_names)
        return self.insert(node)

    def insert(self, node: Node) -> Node:
        return self.graph.insert(node, self.before)

    def constant(self, value: Any, dtype: str | None = None, name: str = "") -> Value:
        array = np.asarray(value, dtype=None if dtype is None else dtypes.numpy_dtype(dtype))
        attrs = ConstantAttrs(array)
        node = Node(CONSTANT, [], attrs, CONSTANT.infer(attrs), name=name, location=self.location, result_names=[name])
        return self.insert(node).result

    def output(self, *values: Value) -> Graph:
        """Sets the graph's outputs and returns it."""
        self.graph.outputs = list(values)
        return self.graph


def infer(op_def: OpDef[Any], operands: Sequence[Value | None], attrs: Any, regions: Sequence[Graph] = ()) -> list[Type]:
    """Result types of an application of ``op_def``.

    Raises:
        InvalidGraphError: the operands or attributes do not fit the operator.
    """
    formal, last = op_def.operands, len(op_def.operands) - 1
    for position, value in enumerate(operands):
        if value is not None:
            formal[position if position < last else last].check(op_def.name, value.type)
    try:
        context = (attrs, regions) if op_def.regions else (attrs,)
        return list(op_def.infer(*context, *op_def.arguments(operands)))
    except ForgeError:
        raise
    except MISFITS as error:
        types = ", ".join("None" if v is None else str(v.type) for v in operands)
        raise TypeInferenceError(f"{op_def.name}: got operands ({types}) and {attrs}, which do not fit: {error!r}") from error


def check_arity(op_def: OpDef[Any], operands: Sequence[Value | None], regions: Sequence[Graph] = ()) -> None:
    """Raises InvalidGraphError when the number of operands or regions, or an absent operand, does not fit the declaration."""
    formal = op_def.operands
    variadic = bool(formal) and formal[-1].variadic
    required = sum(not o.optional and not o.variadic for o in formal)
    if len(operands) < required or (len(operands) > len(formal) and not variadic):
        at_most = f"{required} to {len(formal)}" if required < len(formal) else str(required)
        expected = f"at least {required}" if variadic else at_most
        raise InvalidGraphError(f"{op_def.name}: got {len(operands)} operands; expected {expected}")
    for position, value in enumerate(operands):
        declared = formal[min(position, len(formal) - 1)]
        if value is None and not declared.optional:
            raise InvalidGraphError(f"{op_def.name}: operand {declared.name!r} is missing")
    if len(regions) != len(op_def.regions):
        raise InvalidGraphError(f"{op_def.name}: got {len(regions)} regions; expected {len(op_def.regions)}")


def _without_absent_tail(op_def: OpDef[Any], operands: Sequence[Value | None]) -> Sequence[Value | None]:
    count = len(operands)
    while count and operands[count - 1] is None and not op_def.operands[min(count, len(op_def.operands)) - 1].variadic:
        count -= 1
    return operands[:count]
