"""Types of results: symbolic shapes, and one error message for every mistake."""

from __future__ import annotations

from typing import Any

import pytest

import forge.ops  # noqa: F401
from forge import dims
from forge.dims import Dim, DimExpr
from forge.errors import InvalidGraphError, TypeInferenceError
from forge.ir.builder import Builder
from forge.ir.types import TensorType

N, M = dims.symbol("n"), dims.symbol("m")
Spec = tuple[Dim, ...] | str


def infer(op: str, *shapes: Any, dtypes: str | tuple[str, ...] = "float32", **attributes: Any) -> Any:
    """Shape of the only result for operands of these shapes; (shape, dtype) pairs override ``dtypes``; None is absent."""
    builder = Builder()
    names = (dtypes,) * len(shapes) if isinstance(dtypes, str) else dtypes
    operands = [None if s is None else builder.input(TensorType(s, d)) for s, d in zip(shapes, names, strict=True)]
    return builder.call(op, *operands, **attributes).shape


@pytest.mark.parametrize(("a", "b", "expected"), [
    ((N, 3), (N, 3), (N, 3)), ((N, 1), (1, M), (N, M)), ((N, 3), (), (N, 3)), ((3,), (N, 3), (N, 3)),
    ((N * 2, 1), (2 * N, 4), (N * 2, 4)),
    ((0, 3), (1, 3), (0, 3)),
])
def test_broadcasting(a: tuple[Dim, ...], b: tuple[Dim, ...], expected: tuple[Dim, ...]) -> None:
    assert infer("add", a, b) == expected


@pytest.mark.parametrize(("a", "b"), [((N,), (M,)), ((N,), (4,)), ((3,), (4,)), ((N,), (N + 1,))])
def test_dimensions_that_are_not_provably_equal_do_not_broadcast(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> None:
    with pytest.raises(TypeInferenceError, match=r"add: shapes do not broadcast; got .* expected equal dimensions"):
        infer("add", a, b)


def test_the_error_of_symbols_says_what_to_do() -> None:
    with pytest.raises(TypeInferenceError, match="give equal sizes the same symbol, or use broadcast_to"):
        infer("add", (N,), (4,))


SYMBOLIC: list[tuple[str, list[Any], dict[str, Any], tuple[Dim, ...]]] = [
    ("reshape", [(N, 4, 3)], {"newshape": (0, -1)}, (N, 12)),
    ("reshape", [(N, M, 12)], {"newshape": (N, M, 3, 4)}, (N, M, 3, 4)),
    ("reshape", [(N, 12)], {"newshape": (-1, 4)}, (N * 3, 4)),
    ("reshape", [(N, M)], {"newshape": (-1,)}, (N * M,)),
    ("transpose", [(N, 2, M)], {"axes": (2, 0, 1)}, (M, N, 2)),
    ("squeeze", [(N, 1, M, 1)], {"axis": (1, 3)}, (N, M)),
    ("expand_dims", [(N,)], {"axis": -1, "num_newaxis": 2}, (N, 1, 1)),
    ("concatenate", [(N, 3), (M, 3), (2, 3)], {"axis": 0}, (N + M + 2, 3)),
    ("stack", [(N,), (N,)], {"axis": 1}, (N, 2)),
    ("strided_slice", [(N, 6)], {"begin": (0,), "end": (-1,)}, (dims.maximum(N - 1, 0), 6)),
    ("strided_slice", [(N, 6)], {"begin": (1,), "end": (2**40,)}, (dims.maximum(N - 1, 0), 6)),
    ("strided_slice", [(N, 6)], {"begin": (0,), "end": (2**40,), "strides": (2,)}, (dims.ceildiv(N, 2), 6)),
    ("strided_slice", [(N, 6)], {"begin": (0,), "end": (3,)}, (dims.minimum(N, 3), 6)),
    ("strided_slice", [(N, 6)], {"begin": (0,), "end": (N,)}, (N, 6)),
    ("strided_slice", [(N, 6)], {"begin": (0,), "end": (N - 1,)}, (dims.maximum(N - 1, 0), 6)),
    ("strided_slice", [(N, 6)], {"begin": (-1,), "end": (-(2**40),), "strides": (-1,)}, (N, 6)),
    ("broadcast_to", [(N, 1)], {"shape": (M, N, 5)}, (M, N, 5)),
    ("tile", [(N, 2)], {"reps": (M, 3)}, (N * M, 6)),
    ("repeat", [(N, 2)], {"repeats": 3, "axis": 0}, (N * 3, 2)),
    ("nn.pad", [(N, 2)], {"pad_width": ((1, 2), (0, 0))}, (N + 3, 2)),
    ("sum", [(N, M, 3)], {"axis": (1,)}, (N, 3)),
    ("argmax", [(N, M)], {"axis": -1, "keepdims": True}, (N, 1)),
    ("nn.depth_to_space", [(N, 8, M, 3)], {"block_size": 2}, (N, 2, M * 2, 6)),
    ("full", [()], {"shape": (N, 2)}, (N, 2)),
    ("topk", [(N, M)], {"k": 3, "ret_type": "values"}, (N, 3)),
]


@pytest.mark.parametrize(("op", "shapes", "attributes", "expected"), SYMBOLIC)
def test_symbolic_shapes(op: str, shapes: list[Any], attributes: dict[str, Any], expected: tuple[Dim, ...]) -> None:
    assert infer(op, *shapes, **attributes) == expected


def test_split_of_a_symbolic_dimension() -> None:
    builder = Builder()
    x = builder.input(TensorType((N * 2, 3), "float32"))
    assert [v.shape for v in builder.call_multi("split", x, indices_or_sections=2)] == [(N, 3)] * 2
    parts = builder.call_multi("split", x, indices_or_sections=(N,))
    assert [v.shape for v in parts] == [(N, 3), (N, 3)]


RUN_TIME: list[tuple[str, list[Any], tuple[str, ...], int]] = [
    ("reshape", [(N, 4), (3,)], ("float32", "int64"), 3),
    ("squeeze", [(N, 1, 4), (1,)], ("float32", "int64"), 2),
    ("expand_dims", [(N, 4), (2,)], ("float32", "int64"), 4),
    ("broadcast_to", [(1, 1), (3,)], ("float32", "int64"), 3),
    ("tile", [(N, 4), (2,)], ("float32", "int64"), 2),
    ("strided_slice", [(N, 4), (2,), (2,)], ("float32", "int64", "int64"), 2),
    ("sum", [(N, 4, 5), (2,)], ("float32", "int64"), 1),
    ("full", [(), (3,)], ("float32", "int64"), 3),
    ("arange", [(), (), ()], ("int64", "int64", "int64"), 1),
]


@pytest.mark.parametrize(("op", "shapes", "dtypes", "rank"), RUN_TIME)
def test_sizes_that_arrive_at_run_time_are_new_symbols(op: str, shapes: list[Any], dtypes: tuple[str, ...], rank: int) -> None:
    shape = infer(op, *shapes, dtypes=dtypes)
    assert len(shape) == rank
    assert all(isinstance(d, DimExpr) for d in shape)
    assert shape != infer(op, *shapes, dtypes=dtypes)


MISTAKES: list[tuple[str, list[Any], Any, dict[str, Any], str]] = [
    ("add", [(3,), (3,)], ("float32", "int32"), {}, "add: element types differ; got float32 and int32"),
    ("exp", [(3,)], "int32", {}, "exp: operand 'data' has the wrong element type; got int32; expected float"),
    ("logical_and", [(3,), (3,)], "float32", {},
     "logical_and: operand 'lhs' has the wrong element type; got float32; expected bool"),
    ("add", [(3,)], "float32", {}, "add: got 1 operands; expected 2"),
    ("exp", [(3,)], "float32", {"axis": 1}, "exp: unknown attribute 'axis'"),
    ("where", [(3,), (3,), (3,)], "float32", {}, "where: operand 'condition'"),
    ("cast", [(3,)], "float32", {"dtype": "float99"}, "cast: attribute dtype; got 'float99'"),
    ("clip", [(3,), (2,)], "float32", {}, "clip: operand 'min'; got .* expected one element"),
    ("reinterpret", [(3,)], "float32", {"dtype": "int64"}, "reinterpret: element widths differ"),
    ("reshape", [(2, 3)], "float32", {"newshape": (7,)}, "reshape: number of elements"),
    ("reshape", [(2, 3)], "float32", {"newshape": (-1, -1)}, "reshape: attribute newshape; .* expected at most one -1"),
    ("reshape", [(2, 3)], "float32", {"newshape": (2, 3, 0)}, "reshape: attribute newshape"),
    ("reshape", [(2, 3)], "float32", {"newshape": (-2,)}, "reshape: attribute newshape"),
    ("squeeze", [(N, 1)], "float32", {}, "squeeze: attribute axis; got None for symbolic dimensions"),
    ("squeeze", [(2, 3)], "float32", {"axis": (0,)}, "squeeze: dimension 0; got 2; expected 1"),
    ("squeeze", [(2, 1)], "float32", {"axis": (2,)}, "squeeze: axis out of range; got 2; expected between -2 and 1"),
    ("expand_dims", [(2,)], "float32", {"axis": 3}, "expand_dims: axis out of range"),
    ("transpose", [(2, 3)], "float32", {"axes": (0, 0)}, "transpose: an axis appears twice"),
    ("transpose", [(2, 3)], "float32", {"axes": (0,)}, "transpose: attribute axes"),
    ("concatenate", [(2, 3), (2, 4)], "float32", {"axis": 0}, "concatenate: dimension 1 of the operands; got 3 and 4"),
    ("concatenate", [(2, 3), (2,)], "float32", {"axis": 0}, "concatenate: operand 'data' has the wrong rank"),
    ("stack", [(2,), (3,)], "float32", {}, "stack: dimension 0 of the operands"),
    ("split", [(7,)], "float32", {"indices_or_sections": 2}, "split: number of parts; got 2 of 7"),
    ("split", [(7,)], "float32", {"indices_or_sections": (5, 3)}, "split: positions of the parts"),
    ("strided_slice", [(7,)], "float32", {"begin": (0,), "end": (1, 2)}, "strided_slice: numbers of begin"),
    ("strided_slice", [(7,)], "float32", {"begin": (0,), "end": (1,), "strides": (0,)},
     "strided_slice: strides; .* expected no 0"),
    ("strided_slice", [(7,)], "float32", {"begin": (0,), "end": (1,), "slice_mode": "x"}, "strided_slice: attribute slice_mode"),
    ("broadcast_to", [(3,)], "float32", {"shape": (4,)}, "broadcast_to: dimension; got 3; expected 1 or 4"),
    ("repeat", [(3,)], "float32", {"repeats": 2}, "repeat: attribute axis; .* flatten with reshape first"),
    ("nn.pad", [(3,)], "float32", {"pad_width": ((1, 1),), "pad_mode": "x"}, "nn.pad: attribute pad_mode"),
    ("nn.pad", [(3,)], "float32", {"pad_width": ((1, 1), (0, 0))}, "nn.pad: attribute pad_width; got 2 pairs"),
    ("nn.pad", [(3,)], "float32", {"pad_width": ((-2, -2),)}, "nn.pad: attribute pad_width"),
    ("nn.depth_to_space", [(1, 6, 2, 2)], "float32", {"block_size": 2}, "nn.depth_to_space: dimension 1; got 6; expected a"),
    ("nn.space_to_depth", [(1, 6, 3, 2)], "float32", {"block_size": 2}, "nn.space_to_depth: dimension 2; got 3"),
    ("nn.space_to_depth", [(1, 6, 2)], "float32", {"block_size": 2}, "nn.space_to_depth: operand 'data' has the wrong rank"),
    ("nn.gelu", [(3,)], "float32", {"approximate": "fast"}, "nn.gelu: attribute approximate"),
    ("nn.prelu", [(2, 3), (4,)], "float32", {}, "nn.prelu: channels of data and alpha"),
    ("sum", [(3,)], "float32", {"axis": (1,)}, "sum: axis out of range"),
    ("all", [(3,)], "float32", {}, "all: operand 'data' has the wrong element type; got float32; expected bool"),
    ("argmax", [(3, 4)], "float32", {"axis": (0, 1)}, "argmax: attribute axis"),
    ("take", [(3,), (2,)], "float32", {"axis": 0}, "take: operand 'indices' has the wrong element type"),
    ("take", [(3,), (2,)], ("float32", "int64"), {"axis": 0, "mode": "x"}, "take: attribute mode"),
    ("gather", [(3, 2), (2,)], ("float32", "int64"), {}, "gather: operand 'indices' has the wrong rank"),
    ("gather", [(3, 2), (3, 4)], ("float32", "int64"), {"axis": 0}, "gather: dimension 1 of indices; got 4; expected at most 2"),
    ("gather_nd", [(3, 2), (3, 4)], ("float32", "int64"), {}, "gather_nd: first dimension of indices; got 3; expected at most 2"),
    ("scatter_nd", [(3, 2), (1, 4), (4, 3)], ("float32", "int64", "float32"), {}, "scatter_nd: shape of updates"),
    ("scatter_elements", [(3,), (2,), (2,)], ("float32", "int64", "float32"), {"reduction": "x"},
     "scatter_elements: attribute reduction"),
    ("one_hot", [(3,), (1,), (1,)], "float32", {"depth": 3}, "one_hot: operand 'indices' has the wrong element type"),
    ("arange", [(2,), (), ()], "int64", {}, "arange: operand 'start'; got .* expected one element"),
    ("trilu", [(3,)], "float32", {}, "trilu: rank of data"),
    ("topk", [(3,)], "float32", {"k": 4, "ret_type": "values"}, "topk: k; got 4; expected at most 3"),
    ("random.uniform", [], (), {"out_shape": (2,), "out_dtype": "int32"}, "random.uniform: attribute out_dtype"),
]


@pytest.mark.parametrize(("op", "shapes", "dtypes", "attributes", "message"), MISTAKES, ids=[m[4][:60] for m in MISTAKES])
def test_mistakes(op: str, shapes: list[Any], dtypes: Any, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        infer(op, *shapes, dtypes=dtypes, **attributes)


@pytest.mark.parametrize(("op", "rank", "dtype", "attributes"), [
    ("nn.avg_pool2d", 4, "int32", {"pool_size": (2, 2)}), ("nn.adaptive_avg_pool1d", 3, "int8", {"output_size": (2,)}),
    ("nn.max_pool2d_with_indices", 4, "bool", {"pool_size": (2, 2)}), ("nn.max_pool2d", 4, "string", {"pool_size": (2, 2)}),
    ("image.resize1d", 3, "string", {"size": (5,)}),
])
def test_layers_refuse_element_types(op: str, rank: int, dtype: str, attributes: dict[str, Any]) -> None:
    with pytest.raises(TypeInferenceError, match=f"operand 'data' has the wrong element type; got {dtype}"):
        infer(op, (4,) * rank, dtypes=dtype, **attributes)


@pytest.mark.parametrize("op", ["nn.rnn", "nn.lstm", "nn.gru"])
def test_recurrent_cells_refuse_integers(op: str) -> None:
    gates = {"nn.rnn": 1, "nn.lstm": 4, "nn.gru": 3}[op]
    activations = ("tanh",) if gates == 1 else ("sigmoid", "tanh", "tanh")[: 3 if gates == 4 else 2]
    none = (0.0,) * len(activations)
    with pytest.raises(TypeInferenceError, match="operand 'x' has the wrong element type; got int32; expected float"):
        infer(op, (2, 3, 4), (1, 6 * gates, 4), (1, 6 * gates, 6), dtypes="int32", activations=activations, activation_alpha=none,
              activation_beta=none)
