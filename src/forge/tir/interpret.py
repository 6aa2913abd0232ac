"""Runs loop functions with NumPy, one statement at a time: what compiled code must agree with.

Every access is checked against the array's bounds. Narrow floats are computed in float32 and rounded where they are cast or
stored, as in compiled code. Slow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forge import dtypes
from forge.tir import expr as tir
from forge.tir import gates, stmt
from forge.tir.expr import DOTS, Buffer, Expr, Var

Array = np.ndarray[Any, Any]


def run(function: stmt.Function, arrays: Sequence[Array], scalars: Sequence[int] = ()) -> None:
    """Runs ``function`` on C-contiguous arrays (one a buffer), which it changes.

    Raises:
        IndexError: an access that is not masked lies outside of its buffer.
        ValueError: the function has failed on purpose.
    """
    buffers = {b: a.reshape(-1) for b, a in zip(function.buffers, arrays, strict=True)}
    bound = {v: np.array([s], dtypes.numpy_dtype(v.dtype)) for v, s in zip(function.scalars, scalars, strict=True)}
    with np.errstate(all="ignore"):
        Interpreter(buffers, bound).statement(function.body)


class Interpreter:
    """Values are arrays with one element a lane."""

    def __init__(self, buffers: dict[Buffer, Array], bound: dict[Var, Array]) -> None:
        self.buffers = buffers
        self.bound = bound
        self._memo: dict[Expr, Array] = {}
        self._registers: list[Array] = []
        """Tile registers: rows of bytes."""

    def statement(self, s: stmt.Stmt) -> None:
        self._memo.clear()
        match s:
            case stmt.Seq(body=body):
                for inner in body:
                    self.statement(inner)
            case stmt.For():
                self._loop(s)
            case stmt.Store():
                self._store(s)
            case stmt.If(condition=condition, then=then, otherwise=otherwise):
                chosen = then if self.value(condition)[0] else otherwise
                if chosen is not None:
                    self.statement(chosen)
            case stmt.Let(var=var, value=value):
                self.bound[var] = self.value(value)
            case stmt.Allocate(buffer=buffer):
                self._allocate(buffer)
            case stmt.Evaluate(value=value) | stmt.Prefetch(index=value):
                self.value(value)
            case stmt.Tiles():
                self._tiles(s)
            case stmt.Fail(message=message):
                raise ValueError(message)
            case _:
                raise TypeError(f"interp: {type(s).__name__} has no meaning inside a function")

    def _loop(self, s: stmt.For) -> None:
        begin, extent = int(self.value(s.begin)[0]), int(self.value(s.extent)[0])
        for i in range(begin, begin + extent):
            self.bound[s.var] = np.array([i], dtypes.numpy_dtype(s.var.dtype))
            self.statement(s.body)

    def _allocate(self, buffer: Buffer) -> None:
        count = buffer.lanes * math.prod(int(self.value(e)[0]) for e in buffer.shape)
        self.buffers[buffer] = np.zeros(count, dtypes.numpy_dtype(buffer.dtype))

    def _store(self, s: stmt.Store) -> None:
        places, active = self._places(s.buffer, s.index, s.mask)
        value = self.value(s.value).astype(dtypes.numpy_dtype(s.buffer.dtype))
        for lane in np.flatnonzero(active):
            self.buffers[s.buffer][places[lane]] = value[lane]

    def _tiles(self, s: stmt.Tiles) -> None:
        values = [int(self.value(x)[0]) for x in s.values]
        if s.operation == "configure":
            self._registers = [np.zeros((rows, size), np.uint8) for rows, size in zip(values[::2], values[1::2])]
        elif s.operation in stmt.TILE_DOTS:
            self._multiply_tiles(s.operation, *(self._registers[n] for n in s.numbers))
        elif s.buffer is not None:
            self._move_tile(s.operation, self._registers[s.numbers[0]], s.buffer, *values)
        elif s.operation == "zero":
            self._registers[s.numbers[0]][:] = 0

    def _move_tile(self, operation: str, register: Array, buffer: Buffer, first: int, stride: int) -> None:
        data = self.buffers[buffer]
        count = register.shape[1] // data.itemsize
        for k, row in enumerate(register):
            begin = (first + k * stride) * buffer.lanes
            if begin < 0 or begin + count > len(data):
                raise IndexError(f"{buffer.name}: elements [{begin}, {begin + count}) of a tile; expected [0, {len(data)})")
            if operation == "load":
                row[:] = data[begin : begin + count].view(np.uint8)
            else:
                data[begin : begin + count] = row.view(data.dtype)

    def _multiply_tiles(self, operation: str, sums: Array, left: Array, right: Array) -> None:
        """As AMX does: each number of a word of float has a sum of its own, to which its products are added in turn. These are
        added up last. Subnormal float32 are 0, which no float16 is.
        """
        kinds = [dtypes.numpy_dtype(name) for name in stmt.TILE_DOTS[operation]]
        group, total = 4 // kinds[0].itemsize, sums.view(kinds[2])
        x = _normal(left.view(kinds[0]).astype(kinds[2])).reshape(len(left), -1, group)
        y = _normal(right.view(kinds[1]).astype(kinds[2])).reshape(len(right), -1, group)
        added = np.zeros((*total.shape, group), total.dtype)
        for k in range(x.shape[1]):
            added = _normal(added + x[:, None, k] * y[None, k])
        total[:] = _normal(_normal(total) + _normal(added.sum(-1, total.dtype)))

    def _places(self, buffer: Buffer, index: Expr, mask: Expr | None) -> tuple[Array, Array]:
        """Element numbers, and which lanes are active; those are checked."""
        starts = self.value(index).astype(np.int64)
        places = (starts[:, None] * buffer.lanes + np.arange(buffer.lanes)).reshape(-1)
        active = np.ones(len(places), bool) if mask is None else np.resize(self.value(mask), len(places))
        size = len(self.buffers[buffer])
        outside = active & ((places < 0) | (places >= size))
        if outside.any():
            raise IndexError(f"{buffer.name}: element {places[outside][0]}; expected [0, {size})")
        return places, active

    def value(self, x: Expr) -> Array:
        """The lanes of ``x``, narrow floats as float32."""
        if x not in self._memo:
            self._memo[x] = self._compute(x)
        return self._memo[x]

    def _compute(self, x: Expr) -> Array:
        match x:
            case tir.Const(value=value):
                return _to_register(np.full(x.lanes, value, dtypes.numpy_dtype(x.dtype)), x.dtype)
            case tir.Var():
                return self.bound[x]
            case tir.Binary(op=op, a=a, b=b):
                return _binary(op, x.dtype, self.value(a), self.value(b))
            case tir.Compare(op=op, a=a, b=b):
                return np.asarray(_COMPARE[op](self.value(a), self.value(b)))
            case tir.Select(condition=condition, a=a, b=b):
                return np.where(self.value(condition), self.value(a), self.value(b))
            case tir.Cast(x=inner):
                return convert(self.value(inner), x.dtype)
            case tir.Broadcast(x=inner):
                return np.resize(self.value(inner), x.lanes)
            case tir.Ramp(base=base, stride=stride):
                first, step = self.value(base), self.value(stride)
                return np.asarray(first + step * np.arange(x.lanes, dtype=first.dtype))
            case tir.Load(buffer=buffer, index=index, mask=mask):
                places, active = self._places(buffer, index, mask)
                found = self.buffers[buffer][np.where(active, places, 0)]
                return np.where(active, _to_register(found, buffer.dtype), np.zeros(1, _register(buffer.dtype)))
            case tir.Call(name=name, args=args):
                return call(name, [self.value(a) for a in args], args[0].dtype, x.dtype, x.lanes)
        raise TypeError(f"interp: {type(x).__name__} has no meaning inside a function")


def _normal(values: Array) -> Array:
    """``values`` with 0 for what is subnormal."""
    if not np.issubdtype(values.dtype, np.floating):
        return values
    return np.where(np.abs(values) < np.finfo(values.dtype).tiny, np.copysign(0, values).astype(values.dtype), values)


def _register(dtype: str) -> np.dtype[Any]:
    narrow = dtypes.is_float(dtype) and dtypes.bits(dtype) < 32
    return np.dtype(np.float32) if narrow else dtypes.numpy_dtype(dtype)


def _to_register(values: Array, dtype: str) -> Array:
    return values.astype(_register(dtype))


def convert(values: Array, dtype: str) -> Array:
    """A cast: floats saturate into integers with NaN to 0; narrow floats round."""
    if np.issubdtype(values.dtype, np.floating) and dtypes.is_integer(dtype):
        low, high = dtypes.integer_range(dtype)
        whole = [0 if math.isnan(v) else int(min(max(v, low), high)) for v in values.astype(np.float64).tolist()]
        return np.array(whole, dtypes.numpy_dtype(dtype))
    if dtypes.is_integer(values.dtype.name) and dtypes.is_integer(dtype):
        whole = [dtypes.wrap_int(int(v), dtype) for v in values]
        return np.array(whole, dtypes.numpy_dtype(dtype))
    return _to_register(values.astype(dtypes.numpy_dtype(dtype)), dtype)


def _exact(op: Callable[[int, int, int], int], dtype: str) -> Callable[[Array, Array], Array]:
    """An operation on Python integers, wrapped into ``dtype``."""
    width = dtypes.bits(dtype)

    def apply(a: Array, b: Array) -> Array:
        pairs = zip(a.astype(object).tolist(), b.astype(object).tolist(), strict=True)
        return np.array([dtypes.wrap_int(op(int(x), int(y), width), dtype) for x, y in pairs], dtypes.numpy_dtype(dtype))

    return apply


def _trunc_divide(a: int, b: int, _width: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_INTEGER: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, _: a + b, "sub": lambda a, b, _: a - b, "mul": lambda a, b, _: a * b,
    "div": _trunc_divide, "truncdiv": _trunc_divide,
    "truncmod": lambda a, b, w: a - b * _trunc_divide(a, b, w) if b else 0,
    "floordiv": lambda a, b, _: a // b if b else 0, "floormod": lambda a, b, _: a % b if b else 0,
    "min": lambda a, b, _: min(a, b), "max": lambda a, b, _: max(a, b),
    "and": lambda a, b, _: a & b, "or": lambda a, b, _: a | b, "xor": lambda a, b, _: a ^ b,
    "shl": lambda a, b, w: a << b if 0 <= b < w else 0,
    "shr": lambda a, b, w: a >> b if 0 <= b < w else (-1 if a < 0 else 0),
}

_FLOAT: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum, "max": np.maximum,
    "truncdiv": lambda a, b: np.trunc(a / b), "truncmod": np.fmod, "floordiv": np.floor_divide, "floormod": np.mod,
}

_BOOL: dict[str, Callable[..., Any]] = {
    "and": np.logical_and, "mul": np.logical_and, "min": np.logical_and, "or": np.logical_or, "add": np.logical_or,
    "max": np.logical_or, "xor": np.logical_xor, "sub": np.logical_xor,
}

_COMPARE: dict[str, Callable[..., Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}


def _binary(op: str, dtype: str, a: Array, b: Array) -> Array:
    if dtypes.is_integer(dtype):
        return _exact(_INTEGER[op], dtype)(a, b)
    return np.asarray((_BOOL if dtype == "bool" else _FLOAT)[op](a, b))


def _by_element(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.array([function(v) for v in x.astype(np.float64).tolist()], x.dtype)


_CALLS: dict[str, Callable[..., Any]] = {
    "fma": lambda a, b, c: a * b + c, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.round, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": _by_element(math.erf), **gates.MEANINGS, "pow": np.power, "fmod": np.fmod,
    "unrounded": lambda x: x, "atan2": np.arctan2, "isnan": np.isnan, "isinf": np.isinf, "popcount": np.bitwise_count,
}

_REDUCTIONS = {"reduce_add": "add", "reduce_mul": "mul", "reduce_max": "max", "reduce_min": "min", "reduce_and": "and",
               "reduce_or": "or"}


def call(name: str, args: Sequence[Array], source: str, dtype: str, lanes: int) -> Array:
    """An intrinsic; ``source`` is the dtype of the first argument."""
    if name in _REDUCTIONS:
        return _fold(_REDUCTIONS[name], dtype, args[0])
    if name == "reinterpret":
        bits = args[0].astype(dtypes.numpy_dtype(source))
        return _to_register(np.ascontiguousarray(bits).view(dtypes.numpy_dtype(dtype)), dtype)
    if name == "lane":
        return np.asarray(args[0][int(args[1][0]):][:1])
    if name == "shuffle":
        both = np.concatenate(args[:2])
        return both[[int(a[0]) for a in args[2:]]]
    if name in DOTS:
        products = args[1].astype(np.int32) * args[2].astype(np.int32)
        return np.asarray(args[0] + products.reshape(lanes, -1).sum(axis=1, dtype=np.int32))
    if name == "dot_bf16":
        (a_low, a_high), (b_low, b_high) = _bfloat16_pair(args[1]), _bfloat16_pair(args[2])
        return np.asarray(args[0] + a_low * b_low + a_high * b_high, np.float32)
    if name == "clz":
        width = dtypes.bits(dtype)
        return np.array([width - (int(v) % (1 << width)).bit_length() for v in args[0]], args[0].dtype)
    return np.asarray(_CALLS[name](*args)).astype(bool if dtype == "bool" else _register(dtype))


def _bfloat16_pair(bits: Array) -> tuple[Array, Array]:
    """Both halves of 32-bit numbers, as the float32 values of bfloat16 ones."""
    words = bits.astype(np.uint32)
    return (words << np.uint32(16)).view(np.float32), (words & np.uint32(0xFFFF0000)).view(np.float32)


def _fold(op: str, dtype: str, values: Array) -> Array:
    """Halves the lanes until one is left; odd ones join at the end."""
    rest: list[Array] = []
    while len(values) > 1:
        if len(values) % 2:
            rest.append(values[-1:])
        half = len(values) // 2
        values = _binary(op, dtype, values[:half], values[half:2 * half])
    for odd in rest:
        values = _binary(op, dtype, values, odd)
    return values
