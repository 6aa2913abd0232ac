"""Evaluates tensor expressions with NumPy, all elements at once: checks lowerings without generating code.

Reads are checked to be in bounds at every point of the domain, as ``forge.te`` demands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from forge import dtypes
from forge.te import Tensor
from forge.tir import expr as E

CALLS: dict[str, Callable[..., Any]] = {
    "fma": lambda a, b, c: a * b + c, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint,
    "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a), "exp": np.exp, "log": np.log, "tanh": np.tanh, "erf": np.vectorize(math.erf),
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)), "pow": np.power, "isnan": np.isnan, "isinf": np.isinf,
}
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "floordiv": np.floor_divide,
    "floormod": np.mod, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
}
COMPARE: dict[str, Callable[..., Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}
REDUCE: dict[str, Any] = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "and": np.all, "or": np.any}


class Evaluator:
    """Computes tensors from arrays of their placeholders."""

    def __init__(self, placeholders: Mapping[Tensor, np.ndarray], symbols: Mapping[str, int] | None = None) -> None:
        self.arrays: dict[Tensor, np.ndarray] = dict(placeholders)
        self.symbols = dict(symbols or {})

    def tensor(self, t: Tensor) -> np.ndarray:
        if t not in self.arrays:
            self.arrays[t] = self._compute(t)
        return self.arrays[t]

    def extent(self, x: E.Expr) -> int:
        return int(self.value(x, {}))

    def _compute(self, t: Tensor) -> np.ndarray:
        assert t.axes is not None and t.body is not None, f"placeholder {t.name} has no array"
        shape = [self.extent(x) for x in t.shape]
        reduction = list(t.body.axes) if isinstance(t.body, E.Reduce) else []
        extents = [*shape, *(self.extent(a.extent) for a in reduction)]
        env: dict[E.Var, Any] = {}
        for k, v in enumerate([*t.axes, *(a.var for a in reduction)]):
            env[v] = np.arange(extents[k]).reshape([-1 if i == k else 1 for i in range(len(extents))])
        body = t.body.x if isinstance(t.body, E.Reduce) else t.body
        full = np.broadcast_to(self.value(body, env), extents)
        if isinstance(t.body, E.Reduce):
            full = REDUCE[t.body.kind](full, axis=tuple(range(len(shape), len(extents))))
        return np.asarray(full).astype(dtypes.numpy_dtype(t.dtype))

    def value(self, x: E.Expr, env: Mapping[E.Var, Any]) -> Any:
        as_type = dtypes.numpy_dtype(x.dtype)
        match x:
            case E.Const(value=value):
                return np.asarray(value, as_type)
            case E.Var(name=name):
                return env[x] if x in env else np.asarray(self.symbols[name])
            case E.Binary(op=op, a=a, b=b):
                return self._binary(op, self.value(a, env), self.value(b, env), x.dtype)
            case E.Compare(op=op, a=a, b=b):
                return COMPARE[op](self.value(a, env), self.value(b, env))
            case E.Select(condition=c, a=a, b=b):
                return np.where(self.value(c, env), self.value(a, env), self.value(b, env))
            case E.Cast(x=inner):
                return self._cast(np.asarray(self.value(inner, env)), x.dtype)
            case E.Call(name=name, args=args):
                return np.asarray(CALLS[name](*(self.value(a, env) for a in args)), as_type)
            case E.Read(tensor=tensor, indices=indices):
                return self._read(tensor, [self.value(i, env) for i in indices])
        raise AssertionError(f"{type(x).__name__} is not evaluated here")

    def _binary(self, op: str, a: Any, b: Any, dtype: str) -> Any:
        if op in ("truncdiv", "truncmod"):
            quotient = np.trunc(np.asarray(a, np.float64) / b).astype(np.asarray(a).dtype)
            return quotient if op == "truncdiv" else a - quotient * b
        return np.asarray(BINARY[op](a, b), dtypes.numpy_dtype(dtype))

    def _cast(self, a: np.ndarray, dtype: str) -> np.ndarray:
        if dtypes.is_integer(dtype) and not np.issubdtype(a.dtype, np.integer) and a.dtype != bool:
            low, high = dtypes.integer_range(dtype)
            return np.clip(np.nan_to_num(np.trunc(a.astype(np.float64))), low, high).astype(dtypes.numpy_dtype(dtype))
        return a.astype(dtypes.numpy_dtype(dtype))

    def _read(self, tensor: Tensor, indices: list[Any]) -> Any:
        array = self.tensor(tensor)
        for axis, (index, extent) in enumerate(zip(indices, array.shape)):
            bad = np.asarray(index)[(np.asarray(index) < 0) | (np.asarray(index) >= extent)]
            assert not bad.size, f"{tensor.name}: axis {axis}: read at {bad[0]}; expected 0..{extent - 1}"
        return array[tuple(np.broadcast_arrays(*indices))] if indices else array
