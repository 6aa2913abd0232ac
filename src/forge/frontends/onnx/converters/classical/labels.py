"""Labels and categories of classical models."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dims, dtypes
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
        return _mapped(g, x, names, numbers, number)
    return _mapped(g, x, numbers, names, name)


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
        return _mapped(g, x, keys, values, default_tensor.reshape(-1)[0])
    default = default_string if dtype == "string" else default_float if dtypes.is_float(dtype) else default_int64
    return _mapped(g, x, keys, values, default)


def _only(g: Context, what: str, floats: Any, integers: Any, strings: Any, tensor: np.ndarray | None) -> np.ndarray:
    """The one of these that is given, as a vector."""
    forms = ((floats, np.float32), (integers, np.int64), (strings, object))
    given = [np.array(values, dtype) for values, dtype in forms if values is not None]
    given += [tensor.reshape(-1)] if tensor is not None else []
    if len(given) != 1:
        raise g.invalid(f"got {len(given)} kinds of {what}; expected exactly one of the attributes {what}_*")
    return given[0]


def _mapped(g: Context, x: Value, keys: np.ndarray, values: np.ndarray, default: Any) -> Value:
    """The value of the last key that equals each element; the default where there is none."""
    if dtypes.canonical(keys.dtype) != x.dtype:
        raise g.invalid(f"got {x.dtype} elements and {dtypes.canonical(keys.dtype)} keys; expected equal types")
    last = {key: position for position, key in enumerate(keys.tolist())}
    chosen = values[list(last.values())]
    table = g.constant(np.concatenate([chosen, np.array([default], values.dtype)]))
    return g.call("take", table, _places(g, x, keys[list(last.values())]), axis=0)


def _places(g: Context, x: Value, keys: np.ndarray) -> Value:
    """Positions of elements among different keys; the number of keys for others."""
    if x.dtype == "string":
        return g.call("string.lookup", x, g.constant(keys.astype(object)))
    if not len(keys):
        return g.call("zeros_like", g.cast(x, "int64"))
    order = np.argsort(keys, kind="stable")
    ascending = g.constant(keys[order])
    place = g.call("searchsorted", ascending, x)
    found = g.call("take", ascending, place, axis=0)
    hit = g.call("equal", found, x)
    if dtypes.is_float(x.dtype):
        hit = g.call("logical_or", hit, g.call("logical_and", g.call("isnan", found), g.call("isnan", x)))
    positions = g.call("take", g.constant(order.astype(np.int64)), place, axis=0)
    return g.call("where", hit, positions, g.constant(len(keys), "int64"))


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
