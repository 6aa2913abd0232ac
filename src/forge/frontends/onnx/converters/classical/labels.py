"""Labels and categories of classical models."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.compose.lookup import mapped
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.classical import DOMAIN
from forge.frontends.onnx.converters.sort.sort import compress
from forge.frontends.onnx.registry import converts

_UNUSED = "_Unused"


@converts("LabelEncoder", since=1, domain=DOMAIN)
def label_encoder_1(
    g: Context, x: Value, *, classes_strings: tuple[str, ...], default_int64: int = -1, default_string: str = _UNUSED
) -> Value:
    numbers = np.arange(len(classes_strings), dtype=np.int64)
    return _either_way(g, x, numbers, np.array(classes_strings, dtype=object), default_int64, default_string)


def _either_way(g: Context, x: Value, numbers: np.ndarray, names: np.ndarray, number: int, name: str) -> Value:
    """Numbers for strings and strings for numbers; ``number`` and ``name`` where there are none."""
    if x.dtype == "string":
        return mapped(g, x, names, numbers, number)
    return mapped(g, x, numbers, names, name)


@converts("LabelEncoder", since=2, domain=DOMAIN)
def label_encoder(
    g: Context, x: Value,
    *, default_float: float = -0.0, default_int64: int = -1, default_string: str = _UNUSED,
    default_tensor: np.ndarray | None = None, keys_floats: tuple[float, ...] | None = None,
    keys_int64s: tuple[int, ...] | None = None, keys_strings: tuple[str, ...] | None = None,
    keys_tensor: np.ndarray | None = None, values_floats: tuple[float, ...] | None = None,
    values_int64s: tuple[int, ...] | None = None, values_strings: tuple[str, ...] | None = None,
    values_tensor: np.ndarray | None = None,
) -> Value:
    keys = _only(g, "keys", keys_floats, keys_int64s, keys_strings, keys_tensor)
    values = _only(g, "values", values_floats, values_int64s, values_strings, values_tensor)
    if len(keys) != len(values):
        raise g.invalid(f"got {len(keys)} keys and {len(values)} values; expected as many of both")
    dtype = dtypes.canonical(values.dtype)
    if default_tensor is not None:
        return mapped(g, x, keys, values, default_tensor.reshape(-1)[0])
    default = default_string if dtype == "string" else default_float if dtypes.is_float(dtype) else default_int64
    return mapped(g, x, keys, values, default)


def _only(g: Context, what: str, floats: Any, integers: Any, strings: Any, tensor: np.ndarray | None) -> np.ndarray:
    """The one of these that is given, as a vector."""
    forms = ((floats, np.float32), (integers, np.int64), (strings, object))
    given = [np.array(values, dtype) for values, dtype in forms if values is not None]
    given += [tensor.reshape(-1)] if tensor is not None else []
    if len(given) != 1:
        raise g.invalid(f"got {len(given)} kinds of {what}; expected exactly one of the attributes {what}_*")
    return given[0]


@converts("CategoryMapper", since=1, domain=DOMAIN)
def category_mapper(
    g: Context, x: Value,
    *, cats_int64s: tuple[int, ...], cats_strings: tuple[str, ...], default_int64: int = -1, default_string: str = _UNUSED,
) -> Value:
    if len(cats_int64s) != len(cats_strings):
        raise g.invalid(f"got {len(cats_int64s)} numbers and {len(cats_strings)} strings; expected as many of both")
    numbers, names = np.array(cats_int64s, np.int64), np.array(cats_strings, object)
    return _either_way(g, x, numbers, names, default_int64, default_string)


@converts("OneHotEncoder", since=1, domain=DOMAIN)
def one_hot_encoder(
    g: Context, x: Value,
    *, cats_int64s: tuple[int, ...] | None = None, cats_strings: tuple[str, ...] | None = None, zeros: int = 1,
) -> Value:
    """Numbers of other types are compared as int64; elements of no category give zeros, or fail at run time if not ``zeros``."""
    if (cats_int64s is None) == (cats_strings is None) or (cats_strings is not None) != (x.dtype == "string"):
        raise g.invalid("expected cats_strings for strings, or cats_int64s for numbers")
    if cats_strings is not None:
        categories = g.constant(np.array(cats_strings, object))
    else:
        categories, x = g.constant(np.array(cats_int64s, np.int64)), g.cast(x, "int64")
    hits = g.call("equal", g.call("expand_dims", x, axis=-1), categories)
    return g.cast(hits if zeros else _all_hit(g, hits), "float32")


def _all_hit(g: Context, hits: Value) -> Value:
    """``hits``, rows of bools, each with a True; the run fails where there are fewer such rows than rows."""
    rows = g.reshape(hits, (dims.product(hits.shape[:-1]), hits.shape[-1]))
    kept = compress(g, rows, g.call("any", rows, axis=(1,)), axis=0)
    return g.reshape(kept, hits.shape)
