"""Calls of functions of the user's that are linked into the model."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes, external
from forge.dims import Dim
from forge.errors import CompileError, ExecutionError
from forge.ir.batch import MixesBatch
from forge.ir.graph import Graph
from forge.ops.core.inference import fail
from forge.ops.core.op import Category, Kind, Op, Operand, Trait, register
from forge.ops.core.signatures import Array, Arrays, TensorType, Types, Value

MAX_ARGUMENTS = 1000
"""Of a call: they lie on the stack. C has functions of 127 parameters at least."""

_ELEMENTS = "number or bool"


@dataclass(frozen=True)
class ExternalAttrs:
    """``arguments``: a JSON list: numbers, texts, null for the next operand, and ``{"size": k}`` for number k of ``sizes``."""

    function: str
    shapes: tuple[tuple[Dim, ...], ...]
    dtypes: tuple[str, ...]
    arguments: str = ""
    sizes: tuple[Dim, ...] = ()


def arguments_of(attrs: ExternalAttrs, count: int) -> list[Any]:
    """What the function gets before its results: numbers, texts, None for operands, ``{"size": k}``."""
    return json.loads(attrs.arguments) if attrs.arguments else [None] * count


class DLTensor(ctypes.Structure):
    """DLPack's description of a tensor."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64))


class ExternValue(ctypes.Union):
    """``forge_extern_value`` of ``forge/extern.h``."""

    _fields_ = (("integer", ctypes.c_int64), ("number", ctypes.c_double), ("text", ctypes.c_char_p), ("tensor", ctypes.c_void_p))


class _External(Op[ExternalAttrs]):
    kernel = "extern"
    kind = Kind.OPAQUE
    category = Category.CONTROL
    flops_per_element = 0
    says_place = True
    values = Operand(variadic=True, accepts=_ELEMENTS)

    def infer(self, attrs: ExternalAttrs, *values: Value) -> Types:
        if not external.is_name(attrs.function):
            raise fail(self.name, "function", repr(attrs.function), "a name of C that does not begin with forge_")
        if not attrs.shapes or len(attrs.shapes) != len(attrs.dtypes):
            given = f"{len(attrs.shapes)} shapes and {len(attrs.dtypes)} dtypes"
            raise fail(self.name, "results", given, "at least one, and one dtype for each shape")
        self._check_arguments(attrs, len(values))
        for dtype in (*attrs.dtypes, *(v.dtype for v in values)):
            if external.dlpack_type(dtype) is None:
                raise fail(self.name, "an element type", dtype, "integers, floats or bool, which DLPack has")
        return [TensorType(shape, dtype) for shape, dtype in zip(attrs.shapes, attrs.dtypes)]

    def _check_arguments(self, attrs: ExternalAttrs, count: int) -> None:
        try:
            listed = arguments_of(attrs, count)
        except (ValueError, RecursionError) as error:
            raise fail(self.name, "arguments", repr(attrs.arguments[:80]), "the text of a JSON list") from error
        expected = f"numbers, texts, sizes and {count} times null"
        if isinstance(listed, list) and len(listed) > MAX_ARGUMENTS - len(attrs.shapes):
            raise fail(self.name, "arguments", f"{len(listed)} and {len(attrs.shapes)} results", f"at most {MAX_ARGUMENTS}")
        if not isinstance(listed, list) or sum(a is None for a in listed) != count:
            raise fail(self.name, "arguments", repr(attrs.arguments[:80]), expected)
        for argument in listed:
            is_size = isinstance(argument, dict) and argument.get("size") in range(len(attrs.sizes))
            is_value = isinstance(argument, int | float) and not isinstance(argument, bool) or _is_text(argument)
            fits = not isinstance(argument, int) or -(1 << 63) <= argument < 1 << 63
            if argument is not None and not is_size and not (is_value and fits):
                raise fail(self.name, "an argument", repr(argument), f"{expected}; texts without zero, integers of 64 bits")

    def reference(self, attrs: ExternalAttrs, *values: Array) -> Arrays:
        code = external.find(attrs.function)
        if code is None:
            raise CompileError(missing(attrs.function))
        shapes: Any = attrs.shapes  # of numbers
        results = [np.zeros(shape, dtypes.numpy_dtype(dtype)) for shape, dtype in zip(shapes, attrs.dtypes)]
        given = iter([np.ascontiguousarray(value).copy() for value in values])
        listed = [next(given) if a is None else attrs.sizes[a["size"]] if isinstance(a, dict) else a
                  for a in arguments_of(attrs, len(values))]  # fmt: skip
        status = _call(code.function(attrs.function), [*listed, *results])
        if status:
            raise ExecutionError(external.failure(attrs.function, status))
        return results

    def carry_batch(self, attrs: ExternalAttrs, *_: object) -> Any:
        raise MixesBatch(f"the function {attrs.function!r} may combine the elements of a batch", certain=False)


def _is_text(argument: object) -> bool:
    """Whether C can have it as UTF-8 that ends with zero."""
    return isinstance(argument, str) and "\0" not in argument and not any(0xD800 <= ord(c) < 0xE000 for c in argument)


def _call(function: Any, arguments: list[Any]) -> int:
    values, kinds = (ExternValue * len(arguments))(), (ctypes.c_int32 * len(arguments))()
    kept = []  # what the values point to
    for k, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            code, bits = external.dlpack_type(dtypes.canonical(argument.dtype)) or (0, 0)
            shape = (ctypes.c_int64 * max(argument.ndim, 1))(*argument.shape)
            device = (ctypes.c_int32 * 2)(external.CPU, 0)
            described = DLTensor(argument.ctypes.data, device, argument.ndim, code, bits, 1, ctypes.addressof(shape), None, 0)
            kept += [shape, described]
            values[k].tensor, kinds[k] = ctypes.addressof(described), external.TENSOR
        elif isinstance(argument, str):
            values[k].text, kinds[k] = argument.encode(), external.TEXT
        elif isinstance(argument, float):
            values[k].number, kinds[k] = argument, external.NUMBER
        else:
            values[k].integer, kinds[k] = int(argument), external.INTEGER
    return int(function(values, kinds, len(arguments)))


def missing(function: str) -> str:
    """The message where no code has a function."""
    return f"call_extern: no code has the function {function!r}; attach the external module that does (AttachExternModules)"


@register
class CallExtern(_External):
    """What the function ``function``, which is linked into the model, writes into results of these ``shapes`` and ``dtypes``.

    It may have effects: calls stay in order, are never merged, and never removed, used or not.
    """

    name = "call_extern"
    traits = Trait.STATEFUL | Trait.MAY_FAIL


@register
class CallExternPure(_External):
    """``call_extern`` of a function whose results depend on its operands alone: equal calls are merged, unused removed."""

    name = "call_extern_pure"
    traits = Trait.MAY_FAIL


def external_functions(graph: Graph) -> Iterator[str]:
    """Names of the functions that ``graph`` and its regions call."""
    return (node.attrs.function for node in graph.walk() if node.op in (CallExtern.name, CallExternPure.name))
