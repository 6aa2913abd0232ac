"""Sequences and optionals."""

from __future__ import annotations

import onnx

from forge.frontends.converter import forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import anonymous_dim, declared_type, element_dtype
from forge.ir.types import OptionalType

converts("SequenceConstruct", since=11)(forwarding("sequence_construct", None))
converts("SequenceAt", since=11)(forwarding("sequence_at", 2))
converts("SequenceInsert", since=11)(forwarding("sequence_insert", 2, optional=1))
converts("SequenceErase", since=11)(forwarding("sequence_erase", 1, optional=1))
converts("SequenceLength", since=11)(forwarding("sequence_length"))


@converts("SequenceEmpty", since=11)
def sequence_empty(g: Context, *, dtype: int = onnx.TensorProto.FLOAT) -> Value:
    return g.call("sequence_empty", dtype=element_dtype(dtype, "attribute 'dtype'"))


@converts("SplitToSequence", since=11)
def split_to_sequence(g: Context, x: Value, split: Value | None = None, *, axis: int = 0, keepdims: int = 1) -> Value:
    return g.call("split_to_sequence", x, split, axis=g.axis(axis, x.rank), keepdims=bool(keepdims))


@converts("ConcatFromSequence", since=11)
def concat_from_sequence(g: Context, sequence: Value, *, axis: int, new_axis: int = 0) -> Value:
    return g.call("concat_from_sequence", sequence, axis=axis, new_axis=bool(new_axis))


@converts("Optional", since=15)
def optional(g: Context, value: Value | None = None, *, type: onnx.TypeProto | None = None) -> Value:  # noqa: A002
    if value is not None:
        return g.call("optional", value)
    if type is None:
        raise g.invalid("got neither a value nor attribute 'type'; expected one of them")
    return g.call("optional", type=str(declared_type(type, anonymous_dim, "attribute 'type'")))


@converts("OptionalHasElement", since=15)
def optional_has_element(g: Context, value: Value | None = None) -> Value:
    """Known unless the type is an optional: nothing has no element, any other value has one."""
    if value is None or not isinstance(value.type, OptionalType):
        return g.constant(value is not None)
    return g.call("optional_has_element", value)


@converts("OptionalGetElement", since=15)
def optional_get_element(g: Context, value: Value) -> Value:
    return g.call("optional_get_element", value) if isinstance(value.type, OptionalType) else value
