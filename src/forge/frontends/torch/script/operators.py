"""What nodes of TorchScript compute without torch's dispatcher: numbers, lists, texts, structures."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from forge.errors import ImportModelError
from forge.frontends.promotion import Strength, kind
from forge.frontends.torch.exported import dtype_of
from forge.frontends.torch.promotion import TORCH

Function = Callable[..., Any]


class Path(NamedTuple):
    """A module as a value of the graph."""

    path: str


class Number(NamedTuple):
    """A tensor of rank 0 that is a size or a known number, and what is computed of such.

    ``dtype`` is None for what was a number of Python, which does not widen the type of a result.
    """

    value: Any
    dtype: torch.dtype | None = None

    def tensor(self) -> Any:
        defaults = (torch.int64, torch.int64, torch.float64, torch.complex128)
        return torch.scalar_tensor(self.value, dtype=self.dtype or defaults[_category(self)])

    @property
    def is_like_plain(self) -> bool:
        """Whether operators of it and tensors with axes give what they give for a number of Python."""
        return self.dtype in (None, *_DEFAULTS)


class Vector(NamedTuple):
    """A tensor of rank 1 whose elements are known: ``torch.tensor`` of sizes."""

    values: tuple[Number, ...]

    def tensor(self) -> Any:
        return torch.stack([number.tensor() for number in self.values])


MAX_VECTOR = 8
"""Elements of a constant that may be a vector: shapes have no more."""
VECTORS: Mapping[str, Function] = MappingProxyType({
    "min": lambda values: reduce(torch.sym_min, values),
    "max": lambda values: reduce(torch.sym_max, values),
    "sum": sum,
    "prod": math.prod,
})
"""Reductions of vectors."""


def vector(tensors: Any, axis: Any) -> Vector | None:
    """What is stacked, if it is numbers of one type."""
    numbers = [x for x in tensors if isinstance(x, Number) and x.dtype is not None]
    alike = len(numbers) == len(tensors) > 0 and len({number.dtype for number in numbers}) == 1
    return Vector(tuple(numbers)) if alike and axis in (0, -1) else None


def reduced(name: str, values: Sequence[Number]) -> Number:
    """A reduction of numbers; sums and products of integers are int64."""
    dtype = values[0].dtype
    assert dtype is not None
    wide = torch.int64 if name in ("sum", "prod") and _category(values[0]) < 2 else dtype
    return number_of(VECTORS[name]([number.value for number in values]), wide)


_KINDS = ((bool, torch.SymBool), (int, torch.SymInt), (float, torch.SymFloat), (complex,))
_DEFAULTS = tuple(getattr(torch, name) for name in TORCH.numbers)
"""Of the categories of types: what numbers of Python are, and the type that a result of lower ones gets."""


def _category(number: Any) -> int:
    """0 to 3: truth values, integers, floats, complex numbers."""
    if isinstance(number, Number) and number.dtype is not None:
        return kind(dtype_of(number.dtype))
    return next(k for k, kinds in enumerate(_KINDS) if isinstance(plain_number(number), kinds))


def number_of(value: Any, dtype: torch.dtype) -> Number:
    """A value that a tensor of a type would have; float32 rounds what is not symbolic."""
    if dtype is torch.bool:
        value = value != 0 if not isinstance(value, bool | torch.SymBool) else value
    elif dtype.is_floating_point:
        value = torch.sym_float(value)
        value = float(np.float32(value)) if dtype is torch.float32 and isinstance(value, float) else value
    elif not dtype.is_complex:
        value = torch.sym_int(value)
    return Number(value, dtype)


def result_dtype(name: str, inputs: Sequence[Any]) -> torch.dtype:
    """The type of what an operator makes of numbers."""
    if name in _COMPARISONS:
        return torch.bool
    found = TORCH.common(_typed(x) for x in inputs[:2] if x is not None and not isinstance(x, str))
    is_float = name in _FLOATING or name == "div" and (len(inputs) < 3 or inputs[2] is None)
    dtype: torch.dtype = getattr(torch, "float32" if is_float and kind(found) < kind("float32") else found)
    return dtype


def _typed(number: Any) -> tuple[str, Strength]:
    if isinstance(number, Number) and number.dtype is not None:
        return dtype_of(number.dtype), Strength.SCALAR
    return TORCH.numbers[_category(number)], Strength.NUMBER


def as_number(tensor: torch.Tensor, among_numbers: bool) -> Number | Vector | None:
    """A constant as a number or a vector.

    None where it is a tensor: of another type, or a vector or floating and not used ``among_numbers`` only.
    """
    lower = _LOWER.get(tensor.dtype)
    if tensor.dim() == 1 and tensor.dtype is torch.int64 and among_numbers and 0 < tensor.numel() <= MAX_VECTOR:
        return Vector(tuple(Number(value, tensor.dtype) for value in tensor.tolist()))
    if tensor.dim() or lower is None:
        return None
    if torch.result_type(torch.empty((), dtype=lower), tensor) is lower:
        return Number(tensor.item())  # a number of Python is a tensor in a trace, too, but one that does not widen types
    return Number(tensor.item(), tensor.dtype) if among_numbers or tensor.dtype is torch.int64 else None


_LOWER = {torch.int64: torch.int32, torch.float32: torch.float16, torch.float64: torch.float32, torch.complex128: torch.complex64}
"""A type that the constants' types would widen."""


@cache
def dtypes_by_number() -> Mapping[int, torch.dtype]:
    """TorchScript's numbers of element types."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some types are experimental
        for dtype in {v for v in vars(torch).values() if isinstance(v, torch.dtype)}:
            try:
                found[torch.ops.prim.dtype(torch.empty(0, dtype=dtype))] = dtype
            except (RuntimeError, NotImplementedError):  # types that no tensor has, such as bits
                continue
    return MappingProxyType(found)


def has_tensor(value: Any) -> bool:
    if isinstance(value, list | tuple) and not isinstance(value, Number | Path):
        return any(map(has_tensor, value))
    return isinstance(value, torch.Tensor)


def has_axes(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() > 0


def has_module(inputs: Sequence[Any]) -> bool:
    return any(isinstance(x, Path) for x in inputs)


def plain_number(value: Any) -> Any:
    """A number in the place of what stands for a tensor; anything else stays the same object."""
    return value.value if isinstance(value, Number) else value


def truth(value: Any) -> bool:
    return bool(plain_number(value))


def _integer(value: Any) -> Any:
    value = plain_number(value)
    value = value.item() if isinstance(value, torch.Tensor) else value
    return value if isinstance(value, torch.SymBool) else torch.sym_int(value)


def _float(value: Any) -> Any:
    value = plain_number(value)
    return value.item() if isinstance(value, torch.Tensor) else torch.sym_float(value)


def _bool(value: Any) -> Any:
    value = plain_number(value)
    return value.item() if isinstance(value, torch.Tensor) else bool(value)


def _divided(a: Any, b: Any, rounding: str | None = None) -> Any:
    if rounding == "floor":
        return a // b
    if rounding == "trunc":
        return -(-a // b) if (a < 0) != (b < 0) else a // b
    return a / b


def _same(value: Any, *_: Any) -> Any:
    return value


def _nothing(*_: Any) -> None:
    """For what only says something."""


def _index(values: Any, index: Any) -> Any:
    return values[plain_number(index)]


def _slice(values: Any, begin: Any = None, end: Any = None, step: Any = 1) -> Any:
    return values[begin:end:step]


def _set_item(values: Any, index: Any, value: Any) -> None:
    values[plain_number(index)] = value


def _raise(text: Any = "", *_: Any) -> Any:
    raise ImportModelError(f"trace: it raises {text!r} for these inputs")


def _whole(round_: Function) -> Function:
    return lambda a: a if isinstance(a, int | torch.SymInt) else round_(a)


_LISTS: Mapping[str, Function] = {
    "__getitem__": _index,
    "_set_item": _set_item,
    "append": lambda values, x: values.append(x),
    "extend": lambda values, more: values.extend(more),
    "insert": lambda values, k, x: values.insert(k, x),
    "pop": lambda values, k=-1: values.pop(k),
    "copy": lambda values: values.copy(),
    "len": len,
    "list": list,
    "keys": list,
    "values": lambda found: list(found.values()),
    "__contains__": operator.contains,
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "warn": _nothing,
}

NUMBERS: Mapping[str, Function] = MappingProxyType({
    **_LISTS,
    "add": lambda a, b, alpha=1: a + b * alpha if alpha != 1 else a + b,
    "sub": lambda a, b, alpha=1: a - b * alpha,
    "rsub": lambda a, b, alpha=1: b - a * alpha,
    "mul": operator.mul,
    "div": _divided,
    "true_divide": operator.truediv,
    "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "neg": operator.neg,
    "abs": abs,
    "min": min,
    "max": max,
    "sqrt": lambda a: torch.sym_sqrt(a),
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "__and__": lambda a, b: a and b,
    "__or__": lambda a, b: a or b,
    "__not__": operator.not_,
    "Int": _integer,
    "Float": _float,
    "Bool": _bool,
    "IntImplicit": _same,
    "FloatImplicit": _same,
    "ScalarImplicit": _same,
    "item": _same,
    "detach": _same,
    "clone": _same,
    "slice": _slice,
    "__range_length": lambda a, b, step: max(0, len(range(a, b, step))),
    "__derive_index": lambda k, a, step: a + k * step,
    "format": lambda text, *rest: text.format(*rest),
    "str": str,
})
"""Operators on numbers, texts and lists without tensors."""

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_FLOATING = frozenset({"true_divide", "sqrt"})
"""Those that make floats of integers; so does ``div``, if it does not round."""
TYPES_OF_NUMBERS = frozenset({torch.bool, torch.int32, torch.int64, torch.float32, torch.float64})
"""Types that `Number` has; what is converted to another one is a tensor."""

NUMERIC = _COMPARISONS | _FLOATING | {
    "add", "sub", "rsub", "mul", "div", "floor_divide", "remainder", "pow", "neg", "abs", "floor", "ceil", "detach", "clone",
}
"""Those whose result is a tensor where an operand is one."""

ARITY: Mapping[str, int] = MappingProxyType({"slice": 4, "format": 99})
"""How many of the inputs count, where it is not the first three."""

WITH_NUMBERS = frozenset({
    "add", "sub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow", "eq", "ne", "lt", "le", "gt", "ge",
})  # fmt: skip
"""Operators of a tensor and another one, or a number, which counts as one of rank 0 does."""

TENSORS: Mapping[str, Function] = MappingProxyType({
    **_LISTS,
    "size": lambda x, axis=None: list(x.shape) if axis is None else x.shape[plain_number(axis)],
    "dim": lambda x: x.dim(),
    "numel": lambda x: x.numel(),
    "is_floating_point": lambda x: x.is_floating_point(),
    "requires_grad": lambda x: x.requires_grad,
    "Int": _integer,
    "Float": _float,
    "Bool": _bool,
    "IntImplicit": _integer,
    "FloatImplicit": _float,
    "ScalarImplicit": lambda x: x.item(),
})
"""Operators that the dispatcher lacks, or that give numbers."""


def _number_of(tensor: torch.Tensor) -> int:
    return next(number for number, dtype in dtypes_by_number().items() if dtype is tensor.dtype)


def _as_tensor(number: Any) -> Any:
    return Number(number, torch.int64) if isinstance(number, int | torch.SymInt) else Number(number).tensor()


STRUCTURES: Mapping[str, Callable[[Sequence[Any]], Sequence[Any]]] = MappingProxyType({
    "prim::ListConstruct": lambda inputs: [list(inputs)],
    "prim::TupleConstruct": lambda inputs: [tuple(inputs)],
    "prim::DictConstruct": lambda inputs: [dict(zip(inputs[::2], inputs[1::2]))],
    "prim::ListUnpack": lambda inputs: list(inputs[0]),
    "prim::TupleUnpack": lambda inputs: list(inputs[0]),
    "prim::TupleIndex": lambda inputs: [inputs[0][inputs[1]]],
    "prim::NumToTensor": lambda inputs: [_as_tensor(inputs[0])],
    "prim::unchecked_cast": lambda inputs: inputs,
    "prim::unchecked_unwrap_optional": lambda inputs: inputs,
    "aten::_unwrap_optional": lambda inputs: inputs,
    "prim::Uninitialized": lambda inputs: [None],
    "prim::data": lambda inputs: [inputs[0].detach()],
    "prim::dtype": lambda inputs: [_number_of(inputs[0])],
    "prim::device": lambda inputs: [torch.device("cpu")],
    "prim::is_cuda": lambda inputs: [False],
    "prim::layout": lambda inputs: [0],
    "prim::shape": lambda inputs: [list(inputs[0].shape)],
    "prim::min": lambda inputs: [min(inputs if len(inputs) > 1 else inputs[0])],
    "prim::max": lambda inputs: [max(inputs if len(inputs) > 1 else inputs[0])],
    "prim::RaiseException": lambda inputs: _raise(*inputs),
    "prim::Print": lambda inputs: [],
})
"""Nodes that put values together, take them apart, or ask about tensors."""
