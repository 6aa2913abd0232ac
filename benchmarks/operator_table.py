"""The operators of ``benchmarks.operators``: one ONNX node each, and what torch does in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

Array = NDArray[Any]
Arrays = list[Array]

MEDIUM = 1 << 18


Inputs = Callable[[int], Arrays]


def _uniform(*shapes: tuple[int, ...]) -> Arrays:
    rng = np.random.default_rng(0)
    return [rng.uniform(0.1, 2.0, shape).astype(np.float32) for shape in shapes]


def _vector(n: int) -> Arrays:
    return _uniform((n,))


def _pair(n: int) -> Arrays:
    return _uniform((n,), (n,))


@dataclass(frozen=True)
class Operator:
    """One ONNX node; functions make its operands from the number of elements.

    Attributes:
        torch: what torch does with itself and the operands; of a sequence the first ``outputs`` count.
        constants: operands that are part of the model, after the inputs or, with ``constants_first``, before them.
        absent: positions of optional operands that are left out.
        onnxruntime: whether it takes the node and gives its results as arrays.
    """

    name: str
    op_type: str
    torch: Callable[[Any, list[Any]], Any]
    inputs: Inputs = _vector
    constants: Inputs = lambda n: []
    attrs: Mapping[str, Any] = field(default_factory=dict)
    constants_first: bool = False
    absent: Sequence[int] = ()
    outputs: int = 1
    onnxruntime: bool = True
    opset: int = 18

    def operands(self, inputs: Sequence[Any], constants: Sequence[Any]) -> list[Any]:
        """In the node's order, without the absent ones."""
        return [*constants, *inputs] if self.constants_first else [*inputs, *constants]


def _shape(n: int) -> tuple[int, int]:
    """Of a matrix: rows and width."""
    return (n // 1024, 1024) if n >= MEDIUM else (n // 64, 64)


def _matrix(n: int) -> Arrays:
    return _uniform(_shape(n))


def _image_shape(n: int) -> tuple[int, int, int, int]:
    side = 8 if n < MEDIUM else 64
    return 1, n // side**2, side, side


def _image(n: int) -> Arrays:
    return _uniform(_image_shape(n))


def _half_image(n: int) -> Arrays:
    """Of half the side: what makes ``n`` elements when its side doubles."""
    batch, channels, height, width = _image_shape(n)
    return _uniform((batch, channels, height // 2, width // 2))


def _channels(count: int) -> Inputs:
    return lambda n: [np.linspace(0.5, 1.5, _image_shape(n)[1], dtype=np.float32)] * count


def _row_weights(count: int) -> Inputs:
    return lambda n: [np.linspace(0.5, 1.5, _shape(n)[1], dtype=np.float32)] * count


def _integers(high: int, *shape: int) -> Array:
    return np.random.default_rng(1).integers(0, high, shape)


def _integer_pair(n: int) -> Arrays:
    return [_integers(1 << 20, n).astype(np.int32)] * 2


def _choices(n: int) -> Arrays:
    return [_integers(2, n).astype(bool), *_pair(n)]


def _rows_of(data: Arrays) -> Array:
    return _integers(len(data[0]), len(data[0]))


def _distinct(n: int) -> Arrays:
    """A matrix without equal values in a row: every order is unique."""
    rows, width = _shape(n)
    order = np.argsort(np.random.default_rng(1).random((rows, width), np.float32), axis=1)
    return [order.astype(np.float32)]


def _with_order(n: int) -> Arrays:
    """A matrix and, in every row, a permutation of the columns."""
    order = np.argsort(np.random.default_rng(1).random(_shape(n), np.float32), axis=1)
    return [*_matrix(n), order]


def _with_updates(n: int) -> Arrays:
    """A matrix, half of its row numbers in any order, and rows to put there."""
    rows, width = _shape(n)
    places = np.random.default_rng(1).permutation(rows)[: rows // 2]
    return [*_matrix(n), places[:, None], *_uniform((rows // 2, width))]


def _quarter(n: int) -> Arrays:
    rows, width = _shape(n)
    return _uniform((max(rows // 4, 1), width))


def _half(n: int) -> Arrays:
    rows, width = _shape(n)
    return _uniform((rows, width // 2))


def _i64(*values: int) -> Inputs:
    return lambda n: [np.array(values, np.int64)]


def _group_norm(t: Any, x: list[Any]) -> Any:
    return t.nn.functional.group_norm(x[0], 4, x[1], x[2])


def _rms_norm(t: Any, x: list[Any]) -> Any:
    return t.nn.functional.rms_norm(x[0], x[1].shape, x[1], 1e-5)


def _batch_norm(t: Any, x: list[Any]) -> Any:
    return t.batch_norm(x[0], x[1], x[2], x[3], x[4], False, 0.0, 1e-5, False)


def _resize(mode: str) -> Callable[[Any, list[Any]], Any]:
    corners = {} if mode == "nearest" else {"align_corners": False}
    return lambda t, x: t.nn.functional.interpolate(x[0], scale_factor=2, mode=mode, **corners)


def _split(t: Any, x: list[Any]) -> Any:
    return [part.contiguous() for part in t.split(x[0], x[0].shape[1] // 2, 1)]


def _one_hot(t: Any, x: list[Any]) -> Any:
    return t.nn.functional.one_hot(x[0], 256).float()


_SUM = {"keepdims": 0}
_NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
_POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}
_POOL3 = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1]}
_SCALES = np.array([1, 1, 2, 2], np.float32)

ELEMENTWISE = (
    Operator("add", "Add", lambda t, x: x[0] + x[1], _pair),
    Operator("add int32", "Add", lambda t, x: x[0] + x[1], _integer_pair),
    Operator("multiply by row", "Mul", lambda t, x: x[0] * x[1], _matrix, _row_weights(1)),
    Operator("relu", "Relu", lambda t, x: t.relu(x[0])),
    Operator("exp", "Exp", lambda t, x: t.exp(x[0])),
    Operator("log", "Log", lambda t, x: t.log(x[0])),
    Operator("tanh", "Tanh", lambda t, x: t.tanh(x[0])),
    Operator("erf", "Erf", lambda t, x: t.erf(x[0])),
    Operator("gelu", "Gelu", lambda t, x: t.nn.functional.gelu(x[0]), opset=20),
    Operator("sigmoid", "Sigmoid", lambda t, x: t.sigmoid(x[0])),
    Operator("sqrt", "Sqrt", lambda t, x: t.sqrt(x[0])),
    Operator("pow", "Pow", lambda t, x: t.pow(x[0], x[1]), _pair),
    Operator("less", "Less", lambda t, x: x[0] < x[1], _pair),
    Operator("clip", "Clip", lambda t, x: t.clamp(x[0], 0.5, 1.0),
             constants=lambda n: [np.array(0.5, np.float32), np.array(1, np.float32)]),
    Operator("where", "Where", lambda t, x: t.where(x[0], x[1], x[2]), _choices),
    Operator("cast to float16", "Cast", lambda t, x: x[0].half(), attrs={"to": TensorProto.FLOAT16}),
    Operator("cast to bfloat16", "Cast", lambda t, x: x[0].bfloat16(), attrs={"to": TensorProto.BFLOAT16},
             onnxruntime=False),
    Operator("cast to int8", "Cast", lambda t, x: x[0].to(t.int8), attrs={"to": TensorProto.INT8}),
    Operator("cast to int64", "Cast", lambda t, x: x[0].long(), attrs={"to": TensorProto.INT64}),
    Operator("cast from float16", "Cast", lambda t, x: x[0].float(),
             lambda n: [_vector(n)[0].astype(np.float16)], attrs={"to": TensorProto.FLOAT}),
)

REDUCTIONS = (
    Operator("sum of all", "ReduceSum", lambda t, x: t.sum(x[0]), attrs=_SUM),
    Operator("sum of rows", "ReduceSum", lambda t, x: t.sum(x[0], 1), _matrix, _i64(1), _SUM),
    Operator("sum of columns", "ReduceSum", lambda t, x: t.sum(x[0], 0), _matrix, _i64(0), _SUM),
    Operator("max of all", "ReduceMax", lambda t, x: t.amax(x[0]), attrs=_SUM),
    Operator("max of rows", "ReduceMax", lambda t, x: t.amax(x[0], 1), _matrix, _i64(1), _SUM),
    Operator("max of columns", "ReduceMax", lambda t, x: t.amax(x[0], 0), _matrix, _i64(0), _SUM),
    Operator("mean of images", "ReduceMean", lambda t, x: t.mean(x[0], (2, 3)), _image, _i64(2, 3), _SUM),
    Operator("norm of rows", "ReduceL2", lambda t, x: t.linalg.vector_norm(x[0], 2, 1), _matrix, _i64(1), _SUM),
    Operator("argmax of rows", "ArgMax", lambda t, x: t.argmax(x[0], 1), _matrix, attrs={"axis": 1, "keepdims": 0}),
    Operator("argmax of columns", "ArgMax", lambda t, x: t.argmax(x[0], 0), _matrix, attrs={"axis": 0, "keepdims": 0}),
    Operator("cumsum", "CumSum", lambda t, x: t.cumsum(x[0], 1), _matrix, lambda n: [np.array(1)]),
    Operator("cumsum of columns", "CumSum", lambda t, x: t.cumsum(x[0], 0), _matrix, lambda n: [np.array(0)]),
)

NORMS = (
    Operator("softmax", "Softmax", lambda t, x: t.softmax(x[0], -1), _matrix),
    Operator("log softmax", "LogSoftmax", lambda t, x: t.log_softmax(x[0], -1), _matrix),
    Operator("softmax of columns", "Softmax", lambda t, x: t.softmax(x[0], 0), _matrix, attrs={"axis": 0}),
    Operator("layer norm", "LayerNormalization", lambda t, x: t.layer_norm(x[0], x[1].shape, x[1], x[2]), _matrix,
             _row_weights(2)),
    Operator("rms norm", "RMSNormalization", _rms_norm, _matrix, _row_weights(1), opset=23),
    Operator("instance norm", "InstanceNormalization",
             lambda t, x: t.instance_norm(*x, None, None, True, 0.0, 1e-5, False), _image, _channels(2)),
    Operator("group norm", "GroupNormalization", _group_norm, _image, _channels(2), {"num_groups": 4}, opset=21),
    Operator("batch norm", "BatchNormalization", _batch_norm, _image, _channels(4)),
)

MOVEMENT = (
    Operator("transpose", "Transpose", lambda t, x: x[0].t().contiguous(), _matrix, attrs={"perm": [1, 0]}),
    Operator("channels last", "Transpose", lambda t, x: x[0].permute(0, 2, 3, 1).contiguous(), _image,
             attrs={"perm": [0, 2, 3, 1]}),
    Operator("gather rows", "Gather", lambda t, x: t.index_select(x[0], 0, x[1]), _matrix,
             lambda n: [_rows_of(_matrix(n))]),
    Operator("embedding", "Gather", lambda t, x: t.nn.functional.embedding(x[1], x[0]),
             lambda n: [_integers(len(_quarter(n)[0]), _shape(n)[0])], _quarter, constants_first=True),
    Operator("gather elements", "GatherElements", lambda t, x: t.gather(x[0], 1, x[1]), _with_order,
             attrs={"axis": 1}),
    Operator("scatter rows", "ScatterND", lambda t, x: x[0].index_copy(0, x[1][:, 0], x[2]), _with_updates),
    Operator("concat", "Concat", lambda t, x: t.cat(x), _pair, attrs={"axis": 0}),
    Operator("split", "Split", _split, _matrix, attrs={"axis": 1, "num_outputs": 2}, outputs=2),
    Operator("slice", "Slice", lambda t, x: x[0][:, 1:].contiguous(), _matrix,
             lambda n: [np.array([1]), np.array([1 << 30]), np.array([1])]),
    Operator("pad", "Pad", lambda t, x: t.nn.functional.pad(x[0], (1, 1, 1, 1)), _matrix, _i64(1, 1, 1, 1)),
    Operator("tile", "Tile", lambda t, x: x[0].tile((1, 2)), _half, _i64(1, 2)),
    Operator("expand", "Expand", lambda t, x: x[0].expand(*x[1]).contiguous(), lambda n: _uniform((_shape(n)[0], 1)),
             lambda n: [np.array(_shape(n))]),
    Operator("one hot", "OneHot", _one_hot, lambda n: [_integers(256, n // 256)],
             lambda n: [np.array(256), np.array([0, 1], np.float32)]),
)

ORDER = (
    Operator("top 8", "TopK", lambda t, x: t.topk(x[0], 8), _distinct, _i64(8), outputs=2),
    Operator("sort", "TopK", lambda t, x: t.sort(x[0], descending=True), _distinct,
             lambda n: [np.array([_shape(n)[1]])], outputs=2),
    Operator("max pool", "MaxPool", lambda t, x: t.max_pool2d(x[0], 2), _image, attrs=_POOL),
    Operator("max pool 3", "MaxPool", lambda t, x: t.max_pool2d(x[0], 3, 1, 1), _image, attrs=_POOL3),
    Operator("average pool", "AveragePool", lambda t, x: t.nn.functional.avg_pool2d(x[0], 2), _image, attrs=_POOL),
    Operator("average pool 3", "AveragePool", lambda t, x: t.nn.functional.avg_pool2d(x[0], 3, 1, 1, False, False), _image,
             attrs=_POOL3),
    Operator("resize nearest", "Resize", _resize("nearest"), _half_image, lambda n: [_SCALES], _NEAREST, absent=(1,)),
    Operator("resize linear", "Resize", _resize("bilinear"), _half_image, lambda n: [_SCALES], {"mode": "linear"}, absent=(1,)),
)

OPERATORS = (*ELEMENTWISE, *REDUCTIONS, *NORMS, *MOVEMENT, *ORDER)
