"""Numbers to text and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.ops.core.inference import fail, object_array
from forge.ops.core.op import Operand, Trait, register
from forge.ops.core.scalar_math import float_text, parse_float, parse_integer
from forge.ops.core.signatures import Array, Arrays, TensorType, Types, Value
from forge.ops.core.strings import texts
from forge.ops.text.strings import StringOp


@dataclass(frozen=True)
class FromNumberAttrs:
    digits: int = 17


@register
class StringFromNumber(StringOp[FromNumberAttrs]):
    """The decimal text of data: bool, int64, uint64, or float64 with at most ``digits`` significant digits."""

    name = "string.from_number"
    data = Operand()

    def infer(self, attrs: FromNumberAttrs, data: Value) -> Types:
        if data.dtype not in ("bool", *_PARSED):
            raise fail(self.name, "operand 'data' has the wrong element type", data.dtype, f"bool or one of {', '.join(_PARSED)}")
        if not 1 <= attrs.digits <= 17:
            raise fail(self.name, "attribute digits", attrs.digits, "1 to 17")
        return [TensorType(data.shape, "string")]

    def reference(self, attrs: FromNumberAttrs, data: Array) -> Arrays:
        real = data.dtype == np.float64
        return [object_array([float_text(v, attrs.digits) if real else str(v) for v in data.ravel().tolist()], data.shape)]


_PARSED = ("int64", "uint64", "float64")


@dataclass(frozen=True)
class ToNumberAttrs:
    dtype: str
    within: str = "int64"


@register
class StringToNumber(StringOp[ToNumberAttrs]):
    """The numbers, of ``dtype`` (int64, uint64 or float64), that data are the decimal text of; it fails for other text.

    Numbers of int64 are in the range of ``within``.
    """

    name = "string.to_number"
    data = Operand(accepts="string")
    traits = Trait.MAY_FAIL

    def infer(self, attrs: ToNumberAttrs, data: Value) -> Types:
        if attrs.dtype not in _PARSED:
            raise fail(self.name, "attribute dtype", attrs.dtype, ", ".join(_PARSED))
        if not dtypes.is_integer(attrs.within) or attrs.within == "uint64":
            raise fail(self.name, "attribute within", attrs.within, "an integer type that int64 holds")
        return [TensorType(data.shape, attrs.dtype)]

    def reference(self, attrs: ToNumberAttrs, data: Array) -> Arrays:
        within = attrs.within if attrs.dtype == "int64" else attrs.dtype
        words = texts(data)
        numbers = [parse_float(w) if attrs.dtype == "float64" else parse_integer(w, within) for w in words]
        return [np.array(numbers, dtypes.numpy_dtype(attrs.dtype)).reshape(data.shape)]
