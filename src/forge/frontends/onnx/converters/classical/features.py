"""Preparing features: scaling, normalizing, filling in, joining, picking; and maps, which there are none of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from forge import dtypes, errors
from forge.compose.checks import checked_indices
from forge.dims import Dim
from forge.errors import option
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.classical import DOMAIN
from forge.frontends.onnx.converters.classical.trees import Floats, Integers
from forge.frontends.onnx.registry import converts

_MIN_NORM = 1e-30


def _per_column(g: Context, what: str, values: Sequence[Any], x: Value, dtype: str) -> Value:
    """A constant with one value for each column of ``x``, or one for all."""
    columns = x.shape[-1] if x.rank else 1
    if len(values) != 1 and isinstance(columns, int) and len(values) != columns or not values:
        raise g.invalid(f"{what}: got {len(values)} values; expected one, or one for each of {columns} columns")
    array = np.array(values, np.float32 if dtypes.is_float(dtype) else np.int64).astype(np.dtype(dtype))
    return g.constant(array[0] if len(values) == 1 else array)


@converts("Scaler", since=1, domain=DOMAIN)
def scaler(g: Context, x: Value, *, offset: Floats = (), scale: Floats = ()) -> Value:
    """(x - offset) * scale; both default to what changes nothing."""
    data = g.cast(x, "float64" if x.dtype == "float64" else "float32")
    if offset:
        data = g.call("subtract", data, _per_column(g, "offset", offset, data, data.dtype))
    if scale:
        data = g.call("multiply", data, _per_column(g, "scale", scale, data, data.dtype))
    return g.cast(data, "float32")


@converts("Normalizer", since=1, domain=DOMAIN)
def normalizer(g: Context, x: Value, *, norm: str = "MAX") -> Value:
    """Rows divided by their largest number (MAX), the sum of their absolute values (L1) or their length (L2); zeros stay."""
    if x.rank not in (1, 2):
        raise g.invalid(f"got data of rank {x.rank}; expected 1 or 2")
    data = g.cast(x, "float64" if x.dtype == "float64" else "float32")
    axis = {"axis": (-1,), "keepdims": True}
    match norm:
        case "MAX":
            size = g.call("max", data, **axis)
        case "L1":
            size = g.call("sum", g.call("abs", data), **axis)
        case "L2":
            size = g.call("sqrt", g.call("sum", g.call("multiply", data, data), **axis))
        case _:
            raise g.invalid(f"norm: got {norm!r}; expected MAX, L1 or L2")
    nothing = g.call("equal", size, g.scalar(0, size))
    return g.cast(g.call("divide", data, g.call("where", nothing, g.scalar(1, size), size)), "float32")


@converts("Binarizer", since=1, domain=DOMAIN)
def binarizer(g: Context, x: Value, *, threshold: float = 0.0) -> Value:
    """1 above the threshold, else 0."""
    data = x if dtypes.is_float(x.dtype) else g.cast(x, "float64")
    return g.cast(g.call("greater", data, g.scalar(float(np.float32(threshold)), data)), x.dtype)


@converts("Imputer", since=1, domain=DOMAIN)
def imputer(
    g: Context, x: Value,
    *, imputed_value_floats: Floats = (), imputed_value_int64s: Integers = (), replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Value:
    """Elements that equal the replaced value, which may be NaN, become the imputed one of their column."""
    is_float = dtypes.is_float(x.dtype)
    values: Sequence[Any] = imputed_value_floats if is_float else imputed_value_int64s
    filled = _per_column(g, f"imputed_value_{'floats' if is_float else 'int64s'}", values, x, x.dtype)
    wanted = float(np.float32(replaced_value_float)) if is_float else replaced_value_int64
    missing = g.call("isnan", x) if wanted != wanted else g.call("equal", x, g.constant(wanted, x.dtype))
    return g.call("where", missing, filled, x)


@converts("FeatureVectorizer", since=1, domain=DOMAIN)
def feature_vectorizer(g: Context, *inputs: Value, inputdimensions: Integers | None = None) -> Value:
    """Columns of all inputs side by side as float32; each is cut, or filled with zeros, to its number of ``inputdimensions``."""
    if inputdimensions is not None and len(inputdimensions) != len(inputs) or min(inputdimensions or (0,)) < 0:
        raise g.invalid(f"inputdimensions: got {list(inputdimensions or ())}; expected a number for each of {len(inputs)} inputs")
    columns = []
    for k, value in enumerate(inputs):
        if value.rank not in (1, 2):
            raise g.invalid(f"input {k}: got rank {value.rank}; expected 1 or 2")
        rows = value if value.rank == 2 else g.call("expand_dims", value, axis=1)
        rows = g.cast(rows, "float32")
        columns.append(rows if inputdimensions is None else _of_width(g, rows, inputdimensions[k], k))
    return g.call("concatenate", *columns, axis=1)


def _of_width(g: Context, rows: Value, width: int, number: int) -> Value:
    columns = rows.shape[1]
    if not isinstance(columns, int):
        raise g.unsupported(f"input {number}: got {columns} columns; expected a known number; fix it with {option('shape=')}")
    if columns > width:
        return g.call("strided_slice", rows, begin=(0,), end=(width,), strides=(1,), axes=(1,))
    return rows if columns == width else g.call("nn.pad", rows, pad_width=((0, 0), (0, width - columns)))


@converts("ArrayFeatureExtractor", since=1, domain=DOMAIN)
def array_feature_extractor(g: Context, x: Value, indices: Value) -> Value:
    """Elements of the last axis at these indices; of a vector, as one row."""
    if not x.rank:
        raise g.invalid("got data of rank 0; expected at least 1")
    count: Dim = 1
    for extent in indices.shape:
        count = count * extent
    indices = checked_indices(g, indices, x.shape[-1], from_end=False)
    picked = g.call("take", x, g.reshape(indices, (count,)), axis=-1)
    return picked if x.rank > 1 else g.call("expand_dims", picked, axis=0)


def _refuse_maps(g: Context, operator: str, instead: str) -> NoReturn:
    raise g.unsupported(f"{operator}: got an operator on maps; expected tensors: compiled models have no maps; {instead}")


@converts("ZipMap", since=1, domain=DOMAIN)
def zip_map(
    g: Context, x: Value, *, classlabels_int64s: Integers | None = None, classlabels_strings: tuple[str, ...] | None = None
) -> Value:
    """Would turn rows of scores into maps from labels. The scores are the result; without ``drop_zipmap`` a warning says so."""
    if not g.convert_config["drop_zipmap"]:
        errors.warn(
            f"node {g.name!r} (ZipMap): dropped, since compiled models have no maps: the output is the tensor of scores, one "
            "column a class; to say that this is what you expect, load with convert_config={'drop_zipmap': True}, or export with "
            "options={'zipmap': False} (skl2onnx)")
    return x


@converts("DictVectorizer", since=1, domain=DOMAIN)
def dict_vectorizer(
    g: Context, x: Value, *, int64_vocabulary: Integers | None = None, string_vocabulary: tuple[str, ...] | None = None
) -> Value:
    _refuse_maps(g, "DictVectorizer", "make the vector before the model, one element a word of the vocabulary")


@converts("CastMap", since=1, domain=DOMAIN)
def cast_map(g: Context, x: Value, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1) -> Value:
    _refuse_maps(g, "CastMap", "make the tensor before the model")
