"""What the specification says of operators: whether a version has one, and which element types it takes."""

from __future__ import annotations

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


def input_variable(found: OpSchema, position: int) -> str:
    """The type variable, or the type, of an input; the last one stands for all that follow."""
    inputs = found.inputs
    return str(inputs[min(position, len(inputs) - 1)].type_str)


def output_variable(found: OpSchema, position: int) -> str:
    outputs = found.outputs
    return str(outputs[min(position, len(outputs) - 1)].type_str)


@cache
def accepted(op: str, opset: int, variable: str) -> frozenset[str]:
    """The types, as text, that a type variable of an operator may stand for."""
    found = schema(op, opset)
    assert found is not None
    for constraint in found.type_constraints:
        if constraint.type_param_str == variable:
            return frozenset(constraint.allowed_type_strs)
    return frozenset({variable})


def fitting_dtype(op: str, opset: int, variable: str, dtype: str) -> str | None:
    """``dtype``, or the nearest wider element type that the operator takes; None where it takes none."""
    allowed = accepted(op, opset, variable)
    return next((d for d in (dtype, *_WIDER.get(dtype, ())) if type_text(d) in allowed), None)
