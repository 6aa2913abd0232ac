"""Calls of functions that the embedding program registers by name (``forge.register_func``, ``forge_register``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes
from forge.ir.batch import MixesBatch
from forge.ir.graph import Graph
from forge.ir.nodes import Node
from forge.ops.core.inference import fail
from forge.ops.core.op import Category, Op, Operand, Trait, register
from forge.ops.core.signatures import Array, Arrays, Dim, TensorType, Types, Value
from forge_runtime import registry

_ELEMENTS = "number or bool"


@dataclass(frozen=True)
class RegisteredAttrs:
    function: str
    shapes: tuple[tuple[Dim, ...], ...] = ()
    dtypes: tuple[str, ...] = ()


class _Registered(Op[RegisteredAttrs]):
    host_routine = "call_registered"
    destination_passing = True
    category = Category.CONTROL
    flops_per_element = 0
    values = Operand(variadic=True, accepts=_ELEMENTS)

    def infer(self, attrs: RegisteredAttrs, *values: Value) -> Types:
        if not attrs.function or not attrs.function.isprintable():
            raise fail(self.name, "function", repr(attrs.function), "the name of a registered function, which is printable text")
        if len(attrs.shapes) != len(attrs.dtypes):
            given = f"{len(attrs.shapes)} shapes and {len(attrs.dtypes)} dtypes"
            raise fail(self.name, "results", given, "one dtype for each shape")
        for dtype in attrs.dtypes:
            if not dtypes.belongs(dtype, _ELEMENTS):
                raise fail(self.name, "element type of a result", dtype, _ELEMENTS)
        return [TensorType(shape, dtype) for shape, dtype in zip(attrs.shapes, attrs.dtypes)]

    def reference(self, attrs: RegisteredAttrs, *values: Array) -> Arrays:
        shapes: Any = attrs.shapes  # of numbers
        results = [np.zeros(shape, dtypes.numpy_dtype(dtype)) for shape, dtype in zip(shapes, attrs.dtypes)]
        return registry.call(attrs.function, values, results)

    def carry_batch(self, attrs: RegisteredAttrs, *_: object) -> Any:
        raise MixesBatch(f"the function {attrs.function!r} may combine the elements of a batch", certain=False)

    def host_options(self, node: Node) -> Mapping[str, Any]:
        return {"function": node.attrs.function}


@register
class CallRegistered(_Registered):
    """The results that the registered ``function`` fills: ``function(*values, *results)``, of these ``shapes`` and ``dtypes``.

    The function may have effects: calls stay in order, are never merged, and never removed, used or not.
    """

    name = "call_registered"
    traits = Trait.STATEFUL | Trait.MAY_FAIL


@register
class CallRegisteredPure(_Registered):
    """``call_registered`` of a function whose results depend on its operands alone: equal calls are merged, unused removed."""

    name = "call_registered_pure"
    traits = Trait.MAY_FAIL


def registered_functions(graph: Graph) -> list[str]:
    """Names of the registered functions that ``graph`` and its regions call."""
    return sorted({node.attrs.function for node in graph.walk() if isinstance(node.op_def, _Registered)})
