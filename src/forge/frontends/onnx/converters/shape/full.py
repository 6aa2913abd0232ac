"""Constants, ranges, and tensors of one number or of a diagonal."""

from __future__ import annotations

import numpy as np

from forge import dims
from forge.compose.checks import checked_divisor
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype
from forge.ir.shapes import MAX_ELEMENTS

_NUMBERS_AND_TEXTS = ("value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings")


@converts("Constant", introduced={"sparse_value": 11, **dict.fromkeys(_NUMBERS_AND_TEXTS, 12)})
def constant(
    g: Context,
    *, value: np.ndarray | None = None, sparse_value: np.ndarray | None = None, value_float: float | None = None,
    value_floats: tuple[float, ...] | None = None, value_int: int | None = None, value_ints: tuple[int, ...] | None = None,
    value_string: str | None = None, value_strings: tuple[str, ...] | None = None,
) -> Value:
    forms = (
        (value, None), (sparse_value, None), (value_float, "float32"), (value_floats, "float32"), (value_int, "int64"),
        (value_ints, "int64"), (value_string, "string"), (value_strings, "string"),
    )
    given = [form for form in forms if form[0] is not None]
    if len(given) != 1:
        raise g.invalid(f"got {len(given)} values; expected exactly one of the value attributes")
    return g.constant(*given[0])


@converts("ConstantOfShape", since=9)
def constant_of_shape(g: Context, shape: Value, *, value: np.ndarray | None = None) -> Value:
    fill = np.zeros((), np.float32) if value is None else value.reshape(())
    known = g.dims(shape)
    if known is None:
        return g.call("full", g.constant(fill), shape, shape=None)
    if any(isinstance(d, int) and d < 0 for d in known):
        raise g.invalid(f"shape: got {list(known)}; expected sizes; the model is invalid")
    size = dims.product(known)
    if isinstance(size, int) and size <= MAX_ELEMENTS and dims.is_static(*known):
        return g.constant(np.full([int(d) for d in known if isinstance(d, int)], fill))
    return g.call("full", g.constant(fill), shape=known)


@converts("Range", since=11)
def range_11(g: Context, start: Value, limit: Value, delta: Value) -> Value:
    start, limit, delta = (g.reshape(v, ()) for v in (start, limit, delta))
    delta = checked_divisor(g, delta, message="delta is 0; expected another number")
    return g.call("arange", start, limit, delta, dtype=start.dtype)


@converts("Range", since=27)
def range_27(g: Context, start: Value, limit: Value, delta: Value, *, stash_type: int = 1) -> Value:
    if start.dtype not in ("float16", "bfloat16"):
        return range_11(g, start, limit, delta)
    wide = element_dtype(stash_type, "attribute 'stash_type'")
    return g.cast(range_11(g, *(g.cast(v, wide) for v in (start, limit, delta))), start.dtype)


@converts("EyeLike", since=9)
def eye_like(g: Context, x: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    if x.rank != 2:
        raise g.invalid(f"got rank {x.rank}; expected a matrix")
    rows = g.call("add", g.reshape(g.count(g.extent(x, 0)), (x.shape[0], 1)), g.constant(k, "int64"))
    columns = g.reshape(g.count(g.extent(x, 1)), (1, x.shape[1]))
    kind = x.dtype if dtype is None else element_dtype(dtype, "attribute 'dtype'")
    return g.cast(g.call("equal", rows, columns), kind)


@converts("Trilu", since=14)
def trilu(g: Context, x: Value, k: Value | None = None, *, upper: int = 1) -> Value:
    return g.call("trilu", x, g.constant(0, "int64") if k is None else k, upper=bool(upper))
