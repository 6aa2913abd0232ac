"""Functions of TensorFlow that models of Keras 2 have between layers: ``TFOpLambda`` with the function's name, and its arguments.

Parameters are called as TensorFlow calls them. There is no code in the file: what has no converter here is refused by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from forge import dtypes
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters import images, ops_elementwise, ops_index, ops_nn, ops_products, ops_reduce, ops_shape
from forge.frontends.keras.converters.activations import activated
from forge.frontends.keras.promotion import together, value
from forge.frontends.keras.registry import FUNCTIONS, OPS, REGISTRY, converts, refuse
from forge.ir.nodes import Value

_UNARY = {
    "math.abs": "Absolute", "math.ceil": "Ceil", "math.cos": "Cos", "math.cosh": "Cosh", "math.erf": "Erf", "math.exp": "Exp",
    "math.expm1": "Expm1", "math.floor": "Floor", "math.is_finite": "Isfinite", "math.is_inf": "Isinf", "math.is_nan": "Isnan",
    "math.log": "Log", "math.log1p": "Log1p", "math.logical_not": "LogicalNot", "math.negative": "Negative",
    "math.reciprocal": "Reciprocal", "math.round": "Round", "math.rsqrt": "Rsqrt", "math.sigmoid": "Sigmoid", "math.sign": "Sign",
    "math.sin": "Sin", "math.sinh": "Sinh", "math.sqrt": "Sqrt", "math.square": "Square", "math.tan": "Tan", "math.tanh": "Tanh",
    "identity": "Copy", "stop_gradient": "StopGradient", "zeros_like": "ZerosLike", "ones_like": "OnesLike", "nn.relu": "Relu",
    "nn.relu6": "Relu6", "nn.sigmoid": "Sigmoid", "nn.tanh": "Tanh"}
_BINARY = {
    "__operators__.add": "Add", "math.add": "Add", "math.subtract": "Subtract", "math.multiply": "Multiply",
    "math.maximum": "Maximum", "math.minimum": "Minimum", "math.pow": "Power", "math.equal": "Equal",
    "math.not_equal": "NotEqual",
    "math.less": "Less", "math.less_equal": "LessEqual", "math.greater": "Greater", "math.greater_equal": "GreaterEqual",
    "math.logical_and": "LogicalAnd", "math.logical_or": "LogicalOr", "math.logical_xor": "LogicalXor",
    "math.floordiv": "FloorDivide", "compat.v1.floor_div": "FloorDivide", "math.floormod": "Mod",
    "math.divide_no_nan": "DivideNoNan", "math.atan2": "Arctan2"}
_ACTIVATIONS = {
    "nn.elu": "elu", "nn.selu": "selu", "nn.softsign": "softsign", "math.softplus": "softplus", "nn.softplus": "softplus"}
_REDUCTIONS = {
    "math.reduce_sum": "Sum", "math.reduce_prod": "Prod", "math.reduce_max": "Max", "math.reduce_min": "Min",
    "math.reduce_all": "All", "math.reduce_any": "Any", "math.reduce_logsumexp": "Logsumexp", "math.reduce_mean": "Mean",
    "math.reduce_std": "Std", "math.reduce_variance": "Var"}


def _operation(name: str) -> Callable[..., Any]:
    row = REGISTRY.lookup(OPS, name, 1)
    assert row is not None
    return row.function


def _floats(g: Context, *given: Value) -> None:
    """TensorFlow keeps integers in these functions, which Keras does not."""
    for one in given:
        if not dtypes.is_float(one.dtype):
            raise g.unsupported(f"got {one.dtype}; supported: floating-point numbers")


def _unary(name: str) -> Callable[..., Any]:
    return lambda g, x: _operation(name)(_as(g, name), x)


def _as(g: Context, name: str) -> Context:
    """The context of an operation whose converter asks for its name."""
    return Context(g.scope, g.layer.named(name), g.run)


def _binary(name: str) -> Callable[..., Any]:
    def convert(g: Context, x: Any, y: Any) -> Any:
        return _operation(name)(_as(g, name), x, y)

    return convert


def _activation(name: str) -> Callable[..., Any]:
    return lambda g, x: activated(g, x, name)


def _reduction(name: str) -> Callable[..., Any]:
    def convert(g: Context, x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        if name in ("Mean", "Std", "Var"):
            _floats(g, x)
        found = _operation(name)(_as(g, name), x, axis=axis, keepdims=keepdims)
        return g.cast(found, x.dtype) if name in ("Sum", "Prod") else found

    return convert


for _table, _make in (
    (_UNARY, _unary), (_BINARY, _binary), (_ACTIVATIONS, _activation), (_REDUCTIONS, _reduction)):
    for _function, _name in _table.items():
        converts(_function, domain=FUNCTIONS)(_make(_name))


@converts("math.divide", "math.truediv", "__operators__.truediv", domain=FUNCTIONS)
def divide(g: Context, x: Any, y: Any) -> Value:
    a, b = together(g, x, y)
    _floats(g, a, b)
    return g.call("divide", a, b)


@converts("math.squared_difference", domain=FUNCTIONS)
def squared_difference(g: Context, x: Any, y: Any) -> Value:
    found = g.call("subtract", *together(g, x, y))
    return g.call("multiply", found, found)


@converts("math.l2_normalize", "nn.l2_normalize", "linalg.l2_normalize", domain=FUNCTIONS)
def l2_normalize(g: Context, x: Any, *, axis: Any = None, epsilon: float = 1e-12) -> Value:
    _floats(g, x)
    total = _operation("Sum")(g, g.call("multiply", x, x), axis=axis, keepdims=True)
    return g.call("multiply", x, g.call("rsqrt", g.call("maximum", total, g.scalar(epsilon, total))))


@converts("clip_by_value", domain=FUNCTIONS)
def clip_by_value(g: Context, t: Any, clip_value_min: Any, clip_value_max: Any) -> Value:
    return g.call("minimum", *together(g, g.call("maximum", *together(g, t, clip_value_min)), clip_value_max))


@converts("nn.leaky_relu", domain=FUNCTIONS)
def leaky_relu(g: Context, features: Any, *, alpha: float = 0.2) -> Value:
    return ops_nn.leaky_relu(g, features, negative_slope=alpha)


@converts("nn.gelu", domain=FUNCTIONS)
def gelu(g: Context, features: Any, *, approximate: bool = False) -> Value:
    return ops_nn.gelu(g, features, approximate=approximate)


@converts("nn.silu", "nn.swish", domain=FUNCTIONS)
def silu(g: Context, features: Any, *, beta: float = 1.0) -> Value:
    scaled = features if beta == 1 else g.call("multiply", features, g.scalar(beta, features))
    return g.call("multiply", features, g.call("sigmoid", scaled))


@converts("nn.softmax", "nn.log_softmax", domain=FUNCTIONS)
def softmax(g: Context, logits: Any, *, axis: int = -1) -> Value:
    name = "LogSoftmax" if g.layer.class_name.endswith("log_softmax") else "Softmax"
    return ops_nn.softmax(_as(g, name), logits, axis=axis)


@converts("math.argmax", "math.argmin", domain=FUNCTIONS)
def arg_extreme(g: Context, input: Any, *, axis: int = 0, output_type: str = "int64") -> Value:  # noqa: A002
    name = "Argmax" if g.layer.class_name.endswith("argmax") else "Argmin"
    return g.cast(ops_reduce.arg_extreme(_as(g, name), input, axis=axis), dtypes.canonical(output_type))


@converts("linalg.matmul", domain=FUNCTIONS)
def matmul(g: Context, a: Any, b: Any, *, transpose_a: bool = False, transpose_b: bool = False) -> Value:
    given = [value(g, a), value(g, b)]
    for k, turns in enumerate((transpose_a, transpose_b)):
        if turns:
            rank = given[k].rank
            given[k] = g.moved(given[k], (*range(rank - 2), rank - 1, rank - 2))
    return ops_products.matmul(g, *given)


@converts("cast", domain=FUNCTIONS)
def cast(g: Context, x: Any, *, dtype: str) -> Value:
    return g.cast(value(g, x), dtypes.canonical(dtype))


@converts("where", "compat.v1.where_v2", domain=FUNCTIONS)
def where(g: Context, condition: Any, x: Any = None, y: Any = None) -> Value:
    return ops_elementwise.where(g, condition, x, y)


@converts("reshape", domain=FUNCTIONS)
def reshape(g: Context, tensor: Any, *, shape: Any) -> Value:
    return ops_shape.reshape(g, tensor, newshape=shape)


@converts("shape", "compat.v1.shape", domain=FUNCTIONS)
def shape_of(g: Context, input: Any, *, out_type: str = "int32") -> Value:  # noqa: A002
    return g.cast(g.call("stack", *(g.size(size) for size in input.shape), axis=0), out_type)


@converts("transpose", "compat.v1.transpose", domain=FUNCTIONS)
def transpose(g: Context, a: Any, *, perm: Any = None, conjugate: bool = False) -> Value:
    if conjugate and dtypes.is_complex(a.dtype):
        raise g.unsupported("got conjugate=True; expected False")
    return ops_shape.transpose(g, a, axes=perm)


@converts("expand_dims", domain=FUNCTIONS)
def expand_dims(g: Context, input: Any, *, axis: int) -> Value:  # noqa: A002
    return ops_shape.expand_dims(g, input, axis=axis)


@converts("squeeze", "compat.v1.squeeze", domain=FUNCTIONS)
def squeeze(g: Context, input: Any, *, axis: Any = None) -> Value:  # noqa: A002
    return ops_shape.squeeze(g, input, axis=axis)


@converts("concat", domain=FUNCTIONS)
def concat(g: Context, values: Any, *, axis: int) -> Value:
    return ops_shape.concatenate(g, values, axis=axis)


@converts("stack", domain=FUNCTIONS)
def stack(g: Context, values: Any, *, axis: int = 0) -> Value:
    return ops_shape.stack(g, values, axis=axis)


@converts("unstack", domain=FUNCTIONS)
def unstack(g: Context, value: Any, *, num: Any = None, axis: int = 0) -> list[Value]:
    return ops_shape.unstack(g, value, num=num, axis=axis)


@converts("split", domain=FUNCTIONS)
def split(g: Context, value: Any, *, num_or_size_splits: Any, axis: int = 0) -> list[Value]:
    sizes = num_or_size_splits
    if isinstance(sizes, tuple):  # sizes, where NumPy has the places between them
        if any(type(size) is not int or size < 0 for size in sizes):
            raise g.unsupported(f"got the sizes {sizes}; expected numbers")
        sizes = tuple(itertools.accumulate(sizes[:-1]))
    return ops_shape.split(g, value, indices_or_sections=sizes, axis=axis)


@converts("tile", domain=FUNCTIONS)
def tile(g: Context, input: Any, *, multiples: Any) -> Value:  # noqa: A002
    return ops_shape.tile(g, input, repeats=multiples)


@converts("pad", "compat.v1.pad", domain=FUNCTIONS)
def pad(g: Context, tensor: Any, *, paddings: Any, mode: str = "CONSTANT", constant_values: Any = None) -> Value:
    filler = constant_values if mode == "CONSTANT" else None
    return ops_shape.pad(g, tensor, filler, pad_width=paddings, mode=mode.lower())


@converts("gather", "compat.v1.gather", domain=FUNCTIONS)
def gather(g: Context, params: Any, indices: Any, *, axis: int = 0, batch_dims: int = 0) -> Value:
    if batch_dims:
        raise g.unsupported(f"got batch_dims={batch_dims}; supported: 0")
    return ops_index.take(g, params, indices, axis=axis)


@converts("one_hot", domain=FUNCTIONS)
def one_hot(g: Context, indices: Any, *, depth: int, axis: int = -1, dtype: str = "float32") -> Value:
    return ops_nn.one_hot(g, indices, num_classes=depth, axis=axis, dtype=dtype)


@converts("__operators__.getitem", domain=FUNCTIONS)
def get_item(g: Context, tensor: Any, *, slice_spec: Any) -> Value:
    def part(found: Any) -> Any:
        if isinstance(found, dict):
            parts = (found.get(key) for key in ("start", "stop", "step"))
            return Ellipsis if found.get("class_name") == "__ellipsis__" else slice(*parts)
        return found

    spec = slice_spec if isinstance(slice_spec, tuple) else (slice_spec,)
    return ops_index.get_item(g, tensor, [part(found) for found in spec])


@converts("image.resize", domain=FUNCTIONS)
def resize(g: Context, images_: Any, *, size: Any, method: str = "bilinear", antialias: bool = False) -> Value:
    return images.resize(g, images_, size=size, interpolation=method, antialias=antialias, data_format="channels_last")


@converts("image.rgb_to_grayscale", domain=FUNCTIONS)
def rgb_to_grayscale(g: Context, images_: Any) -> Value:
    return images.rgb_to_grayscale(g, images_, data_format="channels_last")


refuse("einsum", "Keras 2 writes its equation without its operands; save the model as a SavedModel", domain=FUNCTIONS)
refuse("TensorFlowOpLayer", "it has a node of a graph; save the model as a SavedModel, and load that with forge.from_tensorflow")
