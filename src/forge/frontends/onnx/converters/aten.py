"""Operators of PyTorch under the name ATen, which its exporter wrote where ONNX had none; ``operator`` says which.

They mean what PyTorch says of ``aten::size`` and so on. The attributes that matter in training only are ignored.
"""

from __future__ import annotations

from typing import Any

from forge import dtypes
from forge.compose import indexing
from forge.frontends.convert import located
from forge.frontends.converter import ConverterFunction, describe
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.shape.full import range_11
from forge.frontends.onnx.converters.shape.reshape import reshape
from forge.frontends.onnx.registry import converts

_MODES = ("sum", "mean", "max")


@converts("ATen")
@converts("ATen", domain="org.pytorch.aten")
def aten(g: Context, *inputs: Value, operator: str, overload_name: str = "", **attributes: Any) -> Any:
    if operator not in _OPERATORS:
        raise g.unsupported(f"attribute 'operator': got {operator!r}; supported: {', '.join(sorted(_OPERATORS))}")
    with located(f"operator {operator}"):
        return _OPERATORS[operator].call(g, list(inputs), attributes)


def size(g: Context, x: Value, axis: Value | None = None) -> Value:
    """The shape of ``x``, or one of its sizes."""
    if axis is None:
        return g.call("shape_of", x, dtype="int64")
    (known,) = g.required_ints(axis, "the axis of size")
    return g.extent(x, g.axis(known, x.rank))


def arange(g: Context, start: Value, end: Value, step: Value) -> Value:
    """Whole numbers are int64; others have the type of the first that is none."""
    given = (start, end, step)
    dtype = next((v.dtype for v in given if dtypes.is_float(v.dtype)), "int64")
    return range_11(g, *(g.cast(v, dtype) for v in given))


def reshape_to(g: Context, x: Value, shape: Value) -> Value:
    return reshape(g, x, shape, allowzero=1)


def embedding_bag(
    g: Context, weight: Value, indices: Value, offsets: Value,
    *, mode: int = 0, include_last_offset: int = 0, padding_idx: int = -1, scale_grad_by_freq: int = 0, sparse: int = 0,
) -> list[Value | None]:
    """One row for each bag; what else PyTorch returns is for its own gradients."""
    if not 0 <= mode < len(_MODES):
        raise g.invalid(f"attribute 'mode': got {mode}; expected 0 (sum), 1 (mean) or 2 (max)")
    left_out = padding_idx if padding_idx >= 0 else None
    bags = g.call("nn.embedding_bag", weight, indices, offsets, mode=_MODES[mode],
                  include_last_offset=bool(include_last_offset), padding_idx=left_out)
    return [bags, None, None, None]


def index_put(g: Context, x: Value, *operands: Value) -> Value:
    """``x[indices] = values``, or ``+=``: operands are the indices of the first axes, the values, and whether they are added."""
    if len(operands) < 3:
        raise g.invalid(f"index_put: got {len(operands) + 1} inputs; expected 4 or more")
    *indices, values, accumulate = operands
    if any(v is None or not dtypes.is_integer(v.dtype) for v in indices):
        raise g.unsupported("index_put: got a mask, or an axis without index; supported: integers for the first axes")
    (is_sum,) = g.required_ints(accumulate, "whether index_put accumulates")
    return indexing.put(g, x, indices, values, accumulate=bool(is_sum))


_FUNCTIONS: dict[str, ConverterFunction] = {
    "arange": arange, "embedding_bag": embedding_bag, "index_put": index_put, "reshape": reshape_to, "size": size,
}
_OPERATORS = {name: describe("aten", name, 1, function) for name, function in _FUNCTIONS.items()}
