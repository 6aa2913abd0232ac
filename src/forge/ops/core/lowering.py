"""What lowerings of operators share: sizes as expressions, index arithmetic, accumulators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ir.types import TensorType
from forge.ops.core.window_geometry import compute_dtype
from forge.te import Expr, Tensor
from forge.tir import expr as E


def as_dim(x: Expr) -> Dim:
    """The dimension that an extent stands for: the inverse of ``te.dim``."""
    match x:
        case E.Const(value=value):
            return int(value)  # type: ignore[arg-type]
        case E.Var(name=name):
            return dims.symbol(name)
        case E.Binary(op=op, a=a, b=b) if op in dims.OPERATIONS:
            return dims.OPERATIONS[op](as_dim(a), as_dim(b))
    raise TypeError(f"extent {x!r} is not a dimension")


def shape_of(tensor: Tensor) -> tuple[Dim, ...]:
    """The shape of an operand as dimensions."""
    return tuple(as_dim(e) for e in tensor.shape)


def dim_type(tensor: Tensor) -> TensorType:
    """The type of an operand."""
    return TensorType(shape_of(tensor), tensor.dtype)


def identifier(name: str) -> str:
    """An operator's name as one word."""
    return name.replace(".", "_")


def injective(name: str, result: TensorType, body: Callable[..., Expr]) -> Tensor:
    """A compute of type ``result``; ``body`` takes the indices as one tuple."""
    return te.compute(result.shape, lambda *i: body(i), identifier(name), result.dtype)


def scalar(tensor: Tensor) -> Expr:
    """The only element of ``tensor``."""
    return tensor[tuple(te.const(0) for _ in tensor.shape)]


def element(tensor: Tensor, position: int) -> Expr:
    """Element ``position`` of a vector (or the scalar) as an index."""
    value = tensor[te.const(position)] if tensor.ndim else tensor[()]
    return te.cast(value, "int64")


def length(tensor: Tensor) -> int:
    """Elements of a vector or scalar whose length is static."""
    return int(as_dim(tensor.shape[0])) if tensor.ndim else 1  # type: ignore[arg-type]


def wrapped(index: Expr, extent: Expr) -> Expr:
    """``index`` as int64 with negative values counted from the end, moved into the bounds."""
    wide = te.cast(index, "int64")
    if E.is_const(extent, 1):
        return te.const(0)
    return te.clamp(te.select(wide < 0, wide + extent, wide), extent)


def row_major(indices: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    """The flat index."""
    flat: Expr = te.const(0)
    for index, extent in zip(indices, shape, strict=True):
        flat = flat * extent + index
    return flat


def unravel(flat: Expr, shape: Sequence[Expr]) -> tuple[Expr, ...]:
    """The indices of a flat index; the first is not reduced modulo its extent."""
    indices: list[Expr] = []
    for position in range(len(shape) - 1, -1, -1):
        if position == 0:
            indices.append(flat)
        else:
            indices.append(flat % shape[position])
            flat = flat // shape[position]
    return tuple(reversed(indices))


def replaced(indices: Sequence[Expr], axis: int, value: Expr) -> tuple[Expr, ...]:
    """``indices`` with the one at ``axis`` replaced."""
    return (*indices[:axis], value, *indices[axis + 1 :])


def new_symbols(result: TensorType, definitions: Sequence[Expr]) -> dict[str, Expr]:
    """Definitions of the plain symbols among the dimensions of ``result``, given a definition of every dimension."""
    return {
        name: value
        for d, value in zip(result.shape, definitions, strict=True)
        if (name := dims.symbol_name(d)) is not None
    }


def is_one(extent: Expr) -> bool:
    return E.is_const(extent, 1)


def chain_select(conditions: Sequence[Expr], values: Sequence[Expr], default: Expr) -> Expr:
    """The value of the first condition that holds, else ``default``."""
    for condition, value in reversed(list(zip(conditions, values, strict=True))):
        default = te.select(condition, value, default)
    return default


def wide(array: np.ndarray) -> np.ndarray:
    """``array`` as the dtype that sums are computed in."""
    return array.astype(dtypes.numpy_dtype(compute_dtype(dtypes.canonical(array.dtype))), copy=False)


def cast_result(tensor: Tensor, dtype: str) -> Tensor:
    """``tensor``, or an element-wise conversion of it to ``dtype``."""
    if tensor.dtype == dtype:
        return tensor
    return te.compute(tensor.shape, lambda *i: te.cast(tensor[i], dtype), name=f"{tensor.name}_cast")


def lowest(dtype: str) -> float | int | bool:
    """The identity of max."""
    if dtypes.is_float(dtype):
        return float("-inf")
    return False if dtype == "bool" else dtypes.integer_range(dtype)[0]
