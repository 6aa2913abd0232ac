"""What the specification says of operators: whether a version has one, and which element types it takes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import onnx
from onnx.defs import OpSchema

from forge import dtypes
from forge.frontends.onnx.tensors import element_code

_WIDER = {
    "bool": ("uint8", "int32", "int64", "float32"),
    "float16": ("float32",),
    "bfloat16": ("float32",),
    "uint32": ("int64",),
    **dict.fromkeys(("int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16"), ("int32", "int64", "float32")),
    **{name: ("float16", "float32") for name in dtypes.NAMES if name.startswith(("float8", "float4"))},
}
"""Element types that hold every value of another one, the nearest first."""


@cache
def schema(op: str, opset: int) -> OpSchema | None:
    """The schema of an operator of the default domain in an opset; None where it has none."""
    try:
        found = onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError:
        return None
    return None if found.deprecated else found


@cache
def type_text(dtype: str) -> str:
    """The element type as schemas write it: ``tensor(float)``."""
    name = str(onnx.TensorProto.DataType.Name(element_code(dtype))).lower()
    return f"tensor({name})"


_DTYPES = {type_text(name): name for name in dtypes.NAMES}


def variable(formal: Sequence[OpSchema.FormalParameter], position: int) -> str:
    """The type variable, or the type, of an input or output; the last one stands for all that follow."""
    return str(formal[min(position, len(formal) - 1)].type_str)


@cache
def accepted(found: OpSchema, variable: str) -> frozenset[str]:
    """The types, as text, that a type variable of an operator may stand for."""
    allowed = {c.type_param_str: frozenset(c.allowed_type_strs) for c in found.type_constraints}
    return allowed.get(variable, frozenset({variable}))


def fitting_dtype(found: OpSchema, variable: str, dtype: str) -> str | None:
    """``dtype``, or the nearest wider element type that the operator takes; None where it takes none."""
    allowed = accepted(found, variable)
    return next((d for d in (dtype, *_WIDER.get(dtype, ())) if type_text(d) in allowed), None)


def output_dtype(found: OpSchema, position: int, given: Sequence[tuple[str, str]]) -> str:
    """The element type of an output, "" for anything but a tensor, where inputs have these type variables and element types.

    The only one that it can have, else that of an input with the same variable, else that of the first input.
    """
    own = variable(found.outputs, position)
    possible = {_DTYPES.get(text, "") for text in accepted(found, own)}
    if len(possible) == 1:
        return possible.pop()
    return next((dtype for dtype in (*(d for v, d in given if v == own), *(d for _, d in given))), "")
