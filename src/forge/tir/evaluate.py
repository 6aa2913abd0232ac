"""Evaluates tensor expressions with NumPy: what a lowering means, without loops or code generation.

Every point of a compute's domain is evaluated at once. A read out of bounds is an error even where a ``select``
discards it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from forge import dtypes
from forge.tir import expr as E
from forge.tir import gates
from forge.tir.expr import Tensor

Array = np.ndarray[Any, Any]


def evaluate(
    tensor: Tensor, inputs: Mapping[Tensor, Array], symbols: Mapping[str, int] | None = None
) -> Array:
    """The elements of ``tensor``.

    Args:
        tensor: the tensor expression.
        inputs: contents of the placeholders it reads.
        symbols: sizes, by the names of their variables.

    Raises:
        IndexError: a read is out of bounds; the message names tensor, axis, index and extent.
        KeyError: a placeholder or variable has no value.
    """
    return _Evaluator(dict(inputs), dict(symbols or {})).tensor(tensor)


def size(x: E.Expr, symbols: Mapping[str, int]) -> int:
    """The number that an expression over symbols is.

    Raises:
        KeyError: a variable has no value.
    """
    return _Evaluator({}, dict(symbols)).scalar(x)


class _Evaluator:
    def __init__(self, known: dict[Tensor, Array], symbols: dict[str, int]) -> None:
        self.known = known
        self.symbols = symbols

    def tensor(self, tensor: Tensor) -> Array:
        if tensor not in self.known:
            if tensor.axes is None or tensor.body is None:
                raise KeyError(f"placeholder {tensor.name} has no value")
            self.known[tensor] = self._compute(tensor, tensor.axes, tensor.body)
        return self.known[tensor]

    def _compute(self, tensor: Tensor, axes: tuple[E.Var, ...], body: E.Expr) -> Array:
        shape = tuple(self.scalar(e) for e in tensor.shape)
        reduction = body if isinstance(body, E.Reduce) else None
        inner = [] if reduction is None else [(a.var, self.scalar(a.extent)) for a in reduction.axes]
        domain = [*zip(axes, shape, strict=True), *inner]
        values: dict[E.Expr, Array] = {}
        for position, (variable, extent) in enumerate(domain):
            view = [1] * len(domain)
            view[position] = extent
            values[variable] = np.arange(extent).reshape(view)
        full = tuple(extent for _, extent in domain)
        dtype = dtypes.numpy_dtype(tensor.dtype)
        with np.errstate(all="ignore"):
            points = self._value(body if reduction is None else reduction.x, values)
            points = np.broadcast_to(points, full)
            if reduction is not None:
                points = _reduce(reduction.kind, points, tuple(range(len(shape), len(full))))
        return np.asarray(points).astype(dtype)

    def scalar(self, x: E.Expr) -> int:
        """The value of an expression over symbols and elements at constant indices."""
        return int(self._value(x, {}))

    def _value(self, x: E.Expr, values: dict[E.Expr, Array]) -> Array:
        if x not in values:
            values[x] = self._apply(x, values)
        return values[x]

    def _apply(self, x: E.Expr, values: dict[E.Expr, Array]) -> Array:
        match x:
            case E.Const(dtype="string"):
                return np.asarray("", dtype=object)
            case E.Const(value=value):
                return np.asarray(value, dtype=dtypes.numpy_dtype(x.dtype))
            case E.Var(name=name):
                return np.asarray(self.symbols[name])
            case E.Read(tensor=tensor, indices=indices):
                return self._read(tensor, [self._value(i, values) for i in indices])
            case E.Cast(x=inner):
                return _cast(self._value(inner, values), x.dtype)
            case E.Select(condition=c, a=a, b=b):
                return np.where(self._value(c, values), self._value(a, values), self._value(b, values))
            case E.Binary(op=op, a=a, b=b):
                return _narrow(_BINARY[op], self._value(a, values), self._value(b, values))
            case E.Compare(op=op, a=a, b=b):
                return np.asarray(E.COMPARE_OPS[op](self._value(a, values), self._value(b, values)))
            case E.Call(name=name, args=args):
                return _call(name, [self._value(a, values) for a in args], x.dtype)
        raise TypeError(f"{type(x).__name__} has no meaning in a tensor expression")

    def _read(self, tensor: Tensor, indices: list[Array]) -> Array:
        array = self.tensor(tensor)
        if not array.size:
            array = _readable(array)
        for axis, (index, extent) in enumerate(zip(indices, array.shape, strict=True)):
            if index.size and (index.min() < 0 or index.max() >= extent):
                raise IndexError(
                    f"read of {tensor.name}: axis {axis}: got an index in [{index.min()}, {index.max()}]; "
                    f"expected [0, {extent})"
                )
        if not indices:
            return array
        if any(i.size == 0 for i in indices):
            return np.empty(np.broadcast_shapes(*(i.shape for i in indices)), array.dtype)
        return np.asarray(array[tuple(indices)])


def _readable(array: Array) -> Array:
    """An empty array with one element, of no meaning, along each empty axis: code may read that and discard it."""
    shape = [max(1, extent) for extent in array.shape]
    if array.dtype == object:
        return np.full(shape, "no meaning", object)
    return np.full(np.prod(shape, dtype=np.int64) * array.dtype.itemsize, 0xA5, np.uint8).view(array.dtype).reshape(shape)


def _narrow(function: Callable[..., Any], *args: Array) -> Array:
    """``function`` in float32 for narrower floats, in complex128 for complex64, rounded once."""
    dtype = args[0].dtype
    name = dtypes.canonical(dtype)
    if name == "complex64":
        wide = np.asarray(function(*(a.astype(np.complex128) for a in args)))
        return wide.astype(dtype) if np.iscomplexobj(wide) else wide
    if dtypes.is_float(name) and dtypes.bits(name) <= 16:
        return np.asarray(function(*(a.astype(np.float32) for a in args))).astype(dtype)
    return np.asarray(function(*args))


def _cast(array: Array, dtype: str) -> Array:
    source = dtypes.canonical(array.dtype)
    target = dtypes.numpy_dtype(dtype)
    if dtypes.is_complex(source):
        return array.astype(target) if dtypes.is_complex(dtype) else _cast(array.real, dtype)
    if dtypes.is_integer(source) and dtypes.bits(source) < 8:
        array = array.astype(np.int8)
    if not (dtypes.is_float(source) and dtypes.is_integer(dtype)):
        return array.astype(target)
    low, high = dtypes.integer_range(dtype)
    wide = array.astype(np.float64)
    inside = (wide > low) & (wide < high)
    whole = np.where(inside, wide, 0).astype(np.int64 if dtypes.is_signed(dtype) else np.uint64).astype(target)
    return np.where(wide <= low, np.array(low, target), np.where(wide >= high, np.array(high, target), whole))


def _guarded(function: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    """Integer division with 0 for a divisor of 0, and wrap-around for INT_MIN / -1."""

    def divide(a: Array, b: Array) -> Array:
        zero = b == 0
        return np.where(zero, np.zeros_like(a), function(a, np.where(zero, np.ones_like(b), b)))

    return divide


def _truncdiv(a: Array, b: Array) -> Array:
    quotient = np.floor_divide(a, b)
    return np.asarray(quotient + ((quotient < 0) & (quotient * b != a)).astype(a.dtype))


def _shift_left(a: Array, b: Array) -> Array:
    inside = (b >= 0) & (b < 8 * a.dtype.itemsize)
    return np.where(inside, np.left_shift(a, np.where(inside, b, 0).astype(a.dtype)), np.zeros_like(a))


def _shift_right(a: Array, b: Array) -> Array:
    width = 8 * a.dtype.itemsize
    inside = (b >= 0) & (b < width)
    shifted = np.right_shift(a, np.where(inside, b, width - 1).astype(a.dtype))
    return np.where(inside | (a < 0), shifted, np.zeros_like(a))


def divide(a: Array, b: Array) -> Array:
    """a / b; complex numbers are scaled into the middle of the range, as NumPy's division leaves it at its ends."""
    if not np.iscomplexobj(b):
        return np.asarray(np.divide(a, b))
    size = np.maximum(np.abs(b.real), np.abs(b.imag))
    shift = np.where(size > 1e290, 2.0**-54, np.where(size < 1e-290, 2.0**54, 1.0))
    return np.asarray(_complex(a.real * shift, a.imag * shift) / _complex(b.real * shift, b.imag * shift))


_BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": divide,
    "truncdiv": _guarded(_truncdiv), "truncmod": _guarded(np.fmod),
    "floordiv": _guarded(np.floor_divide), "floormod": _guarded(np.mod),
    "min": np.minimum, "max": np.maximum, "xor": np.bitwise_xor, "shl": _shift_left, "shr": _shift_right,
    "and": np.bitwise_and, "or": np.bitwise_or,
}


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x.astype(np.float64)), dtype=np.float64).astype(x.dtype)


def _leading_zeros(x: Array) -> Array:
    width = 8 * x.dtype.itemsize
    return np.asarray(np.frompyfunc(lambda v: width - (int(v) % (1 << width)).bit_length(), 1, 1)(x), dtype=object)


def expm1(x: Array) -> Array:
    """e ** x - 1; of complex numbers with the infinities of exp."""
    if not np.iscomplexobj(x):
        return np.asarray(np.expm1(x))
    return np.where(np.abs(x.real) < 1, np.expm1(x), np.exp(x) - 1)


def log1p(x: Array) -> Array:
    """ln(1 + x); of complex numbers near 0 by |1 + x|**2 - 1, where NumPy loses the real part."""
    if not np.iscomplexobj(x):
        return np.asarray(np.log1p(x))
    size, result = x.real * (2 + x.real) + x.imag * x.imag, np.asarray(np.log1p(x))
    near = (np.abs(x.real) < 0.5) & (np.abs(x.imag) < 0.5)
    result.real = np.where(near, 0.5 * np.log1p(np.where(near, size, 0)), result.real)
    return result


def _complex(real: Array, imaginary: Array) -> Array:
    result = np.empty(np.broadcast_shapes(real.shape, imaginary.shape), dtypes.complex_of(dtypes.canonical(real.dtype)))
    result.real, result.imag = real, imaginary
    return result


_CALLS: dict[str, Callable[..., Any]] = {
    "fma": lambda a, b, c: a * b + c, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.round, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2,
    "expm1": expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": log1p, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": _erf,
    **gates.MEANINGS, "pow": np.power, "fmod": np.fmod, "atan2": np.arctan2, "isnan": np.isnan, "isinf": np.isinf,
    "popcount": lambda x: np.bitwise_count(x.view(f"uint{8 * x.dtype.itemsize}")), "clz": _leading_zeros,
    "sign": np.sign, "real": np.real, "imag": np.imag, "complex": _complex,
}


def _call(name: str, args: list[Array], dtype: str) -> Array:
    target = dtypes.numpy_dtype(dtype)
    if name == "reinterpret":
        return np.ascontiguousarray(args[0]).view(target).reshape(args[0].shape)
    if name not in _CALLS:
        raise TypeError(f"intrinsic {name} has no meaning in a tensor expression")
    return _narrow(_CALLS[name], *args).astype(target)


def _reduce(kind: str, points: Array, axes: tuple[int, ...]) -> Array:
    name = dtypes.canonical(points.dtype)
    if kind in ("and", "or") or (name == "bool" and kind in ("min", "max")):
        return np.asarray((np.all if kind in ("and", "min") else np.any)(points, axis=axes))
    if kind in ("sum", "prod"):
        wide = np.float64 if dtypes.is_float(name) else np.complex128 if dtypes.is_complex(name) else points.dtype
        return np.asarray((np.sum if kind == "sum" else np.prod)(points, axis=axes, dtype=wide))
    reduction = np.max if kind == "max" else np.min
    if dtypes.is_float(name):
        worst: float | int = float("-inf") if kind == "max" else float("inf")
    else:
        low, high = dtypes.integer_range(name)
        worst = low if kind == "max" else high
    wide_points = points.astype(np.float32) if dtypes.is_float(name) and dtypes.bits(name) <= 16 else points
    return np.asarray(reduction(wide_points, axis=axes, initial=worst))
