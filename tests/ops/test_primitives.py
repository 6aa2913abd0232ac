"""Types and refusals of windows, placed slices, diagonals, searching, segments, factorizations, regions and random bits."""

from __future__ import annotations

from typing import Any

import pytest

import forge.ops  # noqa: F401
from forge import dims
from forge.dims import Dim
from forge.errors import TypeInferenceError
from forge.ir.builder import Builder
from forge.ir.types import TensorType

N, M = dims.symbol("n"), dims.symbol("m")
F, K = "float32", "int64"


def infer(op: str, *shapes: Any, dtypes: str | tuple[str, ...] = "float32", **attributes: Any) -> list[tuple[Dim, ...]]:
    """Shapes of the results for operands of these shapes; None is absent."""
    builder = Builder()
    names = (dtypes,) * len(shapes) if isinstance(dtypes, str) else dtypes
    operands = [None if s is None else builder.input(TensorType(s, d)) for s, d in zip(shapes, names, strict=True)]
    return [v.shape for v in builder.call_multi(op, *operands, **attributes)]


SYMBOLIC: list[tuple[str, list[Any], tuple[str, ...], dict[str, Any], list[tuple[Dim, ...]]]] = [
    ("reduce_window", [(N, 8)], (F,), {"reduction": "sum", "window": (1, 3), "strides": (1, 2)}, [(N, 3)]),
    ("window_extreme", [(4, 8)], (F,), {"window": (2, 3)}, [(3, 6)]),
    ("sliding_window", [(N, 9, M)], (F,), {"axis": 1, "window_shape": (3,), "strides": (2,)}, [(N, 4, M, 3)]),
    ("nn.dilate", [(3, 1)], (F,), {"strides": (4, 5)}, [(9, 1)]),
    ("dynamic_slice", [(N, M), (2,)], (F, K), {"slice_sizes": (2, M)}, [(2, M)]),
    ("dynamic_update_slice", [(N, M), (2, M), (2,)], ("int8", "int8", "int32"), {}, [(N, M)]),
    ("diagonal", [(N, 3, 3)], (F,), {"offset": 1, "axis1": 1, "axis2": 2}, [(N, 2)]),
    ("searchsorted", [(N,), (M, 3)], (F, F), {}, [(M, 3)]),
    ("segment_reduce", [(N, 3), (N,)], (F, K), {"num_segments": M}, [(M, 3)]),
    ("nn.embedding_bag", [(9, 4), (N,), (M,)], (F, K, K), {}, [(M, 4)]),
    ("nn.space_to_batch_nd", [(N, 4, M)], (F,), {"block_shape": (2,), "paddings": ((1, 1),)}, [(N * 2, 3, M)]),
    ("nn.batch_to_space_nd", [(N * 2, 3, M)], (F,), {"block_shape": (2,), "crops": ((1, 1),)}, [(N, 4, M)]),
    ("linalg.lu", [(N, 4, 4)], ("float64",), {}, [(N, 4, 4), (N, 4)]),
    ("linalg.lu", [(N, 4, 7)], (F,), {}, [(N, 4, 7), (N, 4)]),
    ("linalg.permutation", [(N, 4)], (K,), {"size": M}, [(N, M)]),
    ("linalg.svd", [(N, 4, 3)], (F,), {}, [(N, 4, 4), (N, 3), (N, 3, 3)]),
    ("linalg.svd", [(N, 3, 4)], ("float64",), {"full_matrices": False}, [(N, 3, 3), (N, 3), (N, 3, 4)]),
    ("linalg.eigh", [(N, M, M)], ("float64",), {}, [(N, M), (N, M, M)]),
    ("linalg.householder", [(N, 6, 4)], (F,), {}, [(N, 6, 4), (N, 4)]),
    ("linalg.ldl", [(N, M, M)], (F,), {}, [(N, M, M), (N, M)]),
    ("linalg.ldl_solve", [(N, M, M), (N, M), (N, M, 3)], (F, K, F), {}, [(N, M, 3)]),
    ("cummax", [(N, 4)], ("int8",), {"axis": 1}, [(N, 4), (N, 4)]),
    ("vision.roi_pool", [(N, 3, 8, 8), (M, 5)], (F,) * 2, {"pooled_size": (2, 3)}, [(M, 3, 2, 3)]),
    ("image.crop_and_resize", [(N, 3, 8, 8), (M, 4), (M,)], (F, F, "int32"), {"crop_size": (2, 3)},
     [(M, 3, 2, 3)]),
]


@pytest.mark.parametrize(("op", "shapes", "dtypes", "attributes", "expected"), SYMBOLIC)
def test_shapes(op: str, shapes: list[Any], dtypes: tuple[str, ...], attributes: dict[str, Any], expected: list[Any]) -> None:
    assert infer(op, *shapes, dtypes=dtypes, **attributes) == expected


REFUSED: list[tuple[str, list[Any], tuple[str, ...], dict[str, Any], str]] = [
    ("popcount", [(3,)], (F,), {}, "wrong element type; got float32; expected index"),
    ("copysign", [(3,), (3,)], ("int32",) * 2, {}, "wrong element type; got int32; expected float16 or"),
    ("reduce_precision", [(3,)], (F,), {"exponent_bits": 0, "mantissa_bits": 2}, "exponent_bits; got 0; expected at least 1"),
    ("reduce_window", [(3, 3)], (F,), {"reduction": "mean", "window": (1, 1)}, "got 'mean'; expected one of sum"),
    ("reduce_window", [(3, 3)], (F,), {"reduction": "sum", "window": (1,)}, r"window; got \(1,\); expected 2 sizes"),
    ("reduce_window", [(3, 3), (2,)], (F,) * 2, {"reduction": "sum", "window": (1, 1)}, "'init'; got .* expected one element"),
    ("reduce_window", [(3,)], (F,), {"reduction": "sum", "window": (1,), "base_dilation": (0,)}, "expected positive numbers"),
    ("window_extreme", [(3,)], (F,), {"window": (2,), "select": "mean"}, "select; got 'mean'; expected max or min"),
    ("select_and_scatter", [(4, 4), (4, 4)], (F,) * 2, {"window": (2, 2)}, "dimension 0 of source; got 4 and 3"),
    ("select_and_scatter", [(4,), (3,), (2,)], (F,) * 3, {"window": (2,)}, "'init'; got .* expected one element"),
    ("sliding_window", [(4,)], (F,), {"axis": 0, "window_shape": (2, 2)}, "expected 1 to 1 sizes"),
    ("nn.dilate", [(4,)], (F,), {"strides": (0,)}, "expected 1 positive numbers"),
    ("image.dilation2d", [(1, 2, 4, 4), (3, 2, 2)], (F,) * 2, {}, "channels of weight; got 3 and 2"),
    ("dynamic_slice", [(4, 4), (1,)], (F, K), {"slice_sizes": (1, 1)}, "length of start; got 1 and 2"),
    ("dynamic_slice", [(4,), (1,)], (F, K), {"slice_sizes": (5,)}, "dimension 0; got 5; expected 0 to 4"),
    ("dynamic_slice", [(4,), (1,)], (F, K), {"slice_sizes": (1, 1)}, "expected 1 sizes"),
    ("dynamic_update_slice", [(4,), (5,), (1,)], (F, F, K), {}, "got 5; expected 0 to 4"),
    ("strided_set", [(4,), (3,)], (F,) * 2, {"begin": (0,), "end": (2,)}, "dimension 0 of updates; got 3 and 2"),
    ("strided_set", [(4,), (3,)], (F,) * 2, {"begin": (0,), "end": (2, 3)}, "numbers of begin, end, strides and axes"),
    ("strided_set", [(4,), (3,)], (F,) * 2, {"begin": (0,), "end": (2,), "strides": (0,)}, "expected no 0"),
    ("roll", [(4,)], (F,), {"shift": (1, 2), "axis": (0,)}, "expected 1 numbers, one an axis"),
    ("as_strided", [(4,)], (F,), {"size": (3,), "stride": (2,)}, "last element; got 4; expected below 4"),
    ("as_strided", [(4,)], (F,), {"size": (3,), "stride": (-1,)}, "expected no negative number"),
    ("as_strided", [(4,)], (F,), {"size": (3,), "stride": ()}, "stride; got .* expected 1 numbers"),
    ("eye", [], (), {"n": -1, "m": 2}, "expected no negative size"),
    ("eye", [], (), {"n": 1, "m": 2, "dtype": "string"}, "got 'string'; expected a type of numbers"),
    ("matrix_set_diag", [(3, 3), (3,)], (F,) * 2, {"k1": 1, "k2": 0}, "expected k1 <= k2"),
    ("matrix_set_diag", [(3,), (3,)], (F,) * 2, {}, "rank of data; got 1; expected at least 2"),
    ("matrix_set_diag", [(3, 3), (1, 3)], (F,) * 2, {}, "rank of diagonal; got 2; expected 1"),
    ("searchsorted", [(2, 4), (3, 4)], (F,) * 2, {}, "dimension 0 of sorted; got 2 and 3"),
    ("searchsorted", [(4,), (3,)], (F,) * 2, {"dtype": "int8"}, "got 'int8'; expected int32 or int64"),
    ("repeat_interleave", [(4,), (3,)], (F, K), {}, "length of repeats; got 3 and 4"),
    ("sequence_mask", [(4,), (4,)], (F, K), {}, "expected axis 0 or 1, rank 2 or more"),
    ("sequence_mask", [(4, 2), (2,)], ("uint8", K), {"mask_value": -1.0}, "got -1.0; expected a number that uint8 holds"),
    ("cast", [(4,)], ("complex64",), {"dtype": "string"}, "complex numbers have no text; got complex64 to string"),
    ("masked_scatter", [(4,), (2, 4), (4,)], (F, "bool", F), {}, "rank of mask; got 2; expected at most 1"),
    ("sparse_to_dense", [(3, 2), (3,)], (K, F), {"output_shape": (4,)}, "length of an index; got 2 and 1"),
    ("segment_reduce", [(3,), (3,)], (F, K), {"reduction": "any", "num_segments": 1}, "got 'any'; expected one of"),
    ("segment_reduce", [(), (3,)], (F, K), {"num_segments": 1}, "expected at least one dimension"),
    ("segment_reduce", [(3,), (3,), ()], (F, K, F), {"reduction": "mean", "num_segments": 1},
     "expected none for a mean"),
    ("nn.embedding_bag", [(9, 4), (3,), (2,)], (F, K, K), {"mode": "min"}, "got 'min'; expected sum, mean or max"),
    ("nn.embedding_bag", [(9, 4), (3,), (2,), (3,)], (F, K, K, F), {"mode": "max"}, "expected mode sum"),
    ("nn.space_to_batch_nd", [(1, 5)], (F,), {"block_shape": (2,), "paddings": ((0, 0),)}, "got 5; expected a multiple of 2"),
    ("nn.space_to_batch_nd", [(1, 4)], (F,), {"block_shape": (0,), "paddings": ((0, 0),)}, "expected 1 to 1 positive numbers"),
    ("nn.space_to_batch_nd", [(1, 4)], (F,), {"block_shape": (2,), "paddings": ()}, "paddings; got .* expected 1 pairs"),
    ("nn.batch_to_space_nd", [(2, 4)], (F,), {"block_shape": (2,), "crops": ((5, 5),)}, "expected at most the size"),
    ("linalg.cholesky", [(3, 4)], (F,), {}, "sides of a matrix; got 3 and 4"),
    ("linalg.cholesky", [(3,)], (F,), {}, "rank of data; got 1; expected at least 2"),
    ("linalg.lu", [(3, 3)], ("float8_e5m2",), {}, "got float8_e5m2; expected float16 or"),
    ("linalg.ldl_solve", [(3, 3), (4,), (3, 1)], (F, K, F), {}, "dimension 0 of factors and pivots; got 3 and 4"),
    ("linalg.ldl_solve", [(3, 3), (3,), (2, 1)], (F, K, F), {}, "dimension 0 of factors and b; got 3 and 2"),
    ("linalg.permutation", [(4,)], (K,), {"size": 3}, "size; got 3 of 4 exchanges; expected at least as many"),
    ("linalg.solve", [(3, 3), (4, 1)], (F,) * 2, {}, "sides of a and b; got 4 and 3"),
    ("linalg.eigh", [(3, 4)], (F,), {}, "sides of a matrix; got 3 and 4"),
    ("linalg.svd", [(3,)], (F,), {}, "rank of data; got 1; expected at least 2"),
    ("linalg.householder_multiply", [(3, 2), (3,), (3, 1)], (F,) * 3, {}, "size of tau; got 3; expected at most 2"),
    ("linalg.householder_multiply", [(3, 2), (2,), (4, 1)], (F,) * 3, {}, "rows of factors and other; got 3 and 4"),
    ("linalg.householder_multiply", [(2, 3, 2), (2,), (2, 3, 1)], (F,) * 3, {}, "operand 'tau' has the wrong rank"),
    ("random.bits", [(2,)], ("uint64",), {"algorithm": "mt", "out_shape": (1,)}, "got 'mt'; expected threefry or philox"),
    ("random.bits", [(2,)], ("uint64",), {"algorithm": "threefry", "out_shape": (N,)},
     "attribute out_shape of threefry; got .*n.*; expected sizes that are known at compile time"),
    ("random.bits", [(3,)], ("uint64",), {"algorithm": "threefry", "out_shape": (1,)}, "length of state; got 3; expected 2"),
    ("random.bits", [(2,)], ("uint64",), {"algorithm": "philox", "out_shape": (1,), "out_dtype": "int8"},
     "expected uint32 or uint64"),
    ("vision.roi_pool", [(1, 1, 4, 4), (2, 4)], (F,) * 2, {"pooled_size": (1, 1)}, "numbers of a region; got 4 and 5"),
    ("vision.roi_pool", [(0, 1, 4, 4), (2, 5)], (F,) * 2, {"pooled_size": (1, 1)}, "number of images; got 0"),
    ("vision.roi_pool", [(1, 1, 4, 4), (2, 5)], (F,) * 2, {"pooled_size": (0, 1)}, "expected positive numbers"),
    ("image.crop_and_resize", [(1, 1, 4, 4), (2, 4), (2,)], (F, F, K), {"crop_size": (1, 1), "method": "area"},
     "got 'area'; expected bilinear or nearest_neighbor"),
    ("image.crop_and_resize", [(1, 1, 4, 4), (2, 4), (2,)], (F, F, K), {"crop_size": (0, 1)},
     "expected positive numbers"),
    ("scatter_nd", [(4,), (1, 3), (3,)], (F, K, F), {"out_of_range": "wrap"}, "got 'wrap'; expected clamp or drop"),
]


@pytest.mark.parametrize(("op", "shapes", "dtypes", "attributes", "message"), REFUSED)
def test_refused(op: str, shapes: list[Any], dtypes: tuple[str, ...], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeInferenceError, match=message):
        infer(op, *shapes, dtypes=dtypes, **attributes)
