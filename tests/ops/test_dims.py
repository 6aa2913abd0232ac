"""Shape arithmetic: what operators make of dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge.ops  # noqa: F401
from forge import dims
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType

N, M = dims.symbol("n"), dims.symbol("m")


class Shapes:
    """A graph with one input of shape (n, m, 4) and its shape as a vector."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.data = self.builder.input(TensorType((N, M, 4), "float32"))
        self.shape = self.builder.call("shape_of", self.data)

    def number(self, value: Any) -> Value:
        return self.builder.constant(value, "int64")

    def pick(self, position: int) -> Value:
        return self.call("take", self.shape, self.number(position), axis=0)

    def call(self, op: str, *operands: Value | None, **attributes: Any) -> Value:
        return self.builder.call(op, *operands, **attributes)


def contents(value: Value) -> Any:
    known = known_dims(value)
    return None if known is None else known.tolist()


ELEMENTWISE: dict[str, tuple[Any, Dim]] = {
    "add": (3, N + 3), "subtract": (1, N - 1), "multiply": (2, N * 2), "divide": (2, dims.floordiv(N, 2)),
    "trunc_divide": (2, dims.floordiv(N, 2)), "floor_divide": (2, dims.floordiv(N, 2)), "floor_mod": (2, dims.floormod(N, 2)),
    "mod": (2, dims.floormod(N, 2)), "maximum": (8, dims.maximum(N, 8)), "minimum": (8, dims.minimum(N, 8)),
}


@pytest.mark.parametrize("op", ELEMENTWISE)
def test_arithmetic(op: str) -> None:
    s = Shapes()
    other, expected = ELEMENTWISE[op]
    assert contents(s.call(op, s.pick(0), s.number(other))) == expected


@pytest.mark.parametrize(("op", "a", "b", "expected"), [
    ("divide", -7, 2, -3), ("floor_divide", -7, 2, -4), ("mod", -7, 2, -1), ("floor_mod", -7, 2, 1), ("divide", 7, 0, 0),
])
def test_numbers_follow_the_operators(op: str, a: int, b: int, expected: int) -> None:
    s = Shapes()
    assert contents(s.call(op, s.number(a), s.number(b))) == expected


@pytest.mark.parametrize(("op", "other", "expected"), [
    ("equal", 3, None), ("equal", -1, False), ("not_equal", -1, True), ("less", 0, False), ("greater_equal", 0, True),
    ("less", 5, None),
    ("greater", -1, True), ("less_equal", -1, False),
])
def test_comparisons_only_where_decidable(op: str, other: int, expected: bool | None) -> None:
    s = Shapes()
    assert contents(s.call(op, s.pick(0), s.number(other))) == expected


@pytest.mark.parametrize(("dtype", "op", "other", "expected"), [
    ("int32", "add", 1, N + 1), ("int32", "multiply", 768, N * 768), ("int32", "subtract", 5, N - 5),
    ("int32", "add", 2**31 - 1, None), ("int32", "multiply", 2**30, None), ("int64", "add", 2**63 - 1, None),
    ("int64", "multiply", 2**30, N * 2**30), ("uint32", "subtract", 1, None), ("uint64", "subtract", 1, None),
    ("uint64", "add", 1, N + 1), ("int8", "minimum", 100, None), ("uint16", "floor_mod", 7, None),
])
def test_known_only_where_it_fits_the_type(dtype: str, op: str, other: int, expected: Dim | None) -> None:
    s = Shapes()
    size = s.call("cast", s.pick(0), dtype=dtype)
    assert contents(s.call(op, size, s.builder.constant(other, dtype))) == expected


def test_what_has_bounds_fits_narrow_types() -> None:
    s = Shapes()
    rest = s.call("floor_mod", s.pick(0), s.number(7))
    assert contents(s.call("cast", rest, dtype="int8")) == dims.floormod(N, 7)
    assert contents(s.call("cast", s.call("add", rest, s.number(122)), dtype="int8")) is None
    assert contents(s.call("cast", s.call("greater_equal", rest, s.number(0)), dtype="uint8")) == 1
    assert contents(s.call("cast", s.shape, dtype="int8")) is None


@pytest.mark.parametrize(("dtype", "op", "operands", "expected"), [
    ("int8", "negative", [-128], -128), ("int8", "abs", [-128], -128), ("int8", "divide", [-128, -1], -128),
    ("int8", "floor_divide", [-128, -1], -128), ("uint8", "subtract", [3, 5], 254),
    ("int32", "multiply", [10**5, 10**5], 1410065408), ("int64", "multiply", [2**62, 4], 0),
    ("uint64", "add", [2**64 - 1, 2], 1), ("uint64", "divide", [2**64 - 1, 2], 2**63 - 1),
    ("uint64", "mod", [2**64 - 1, 10], 5), ("bool", "logical_xor", [True, True], False),
])
def test_numbers_wrap(dtype: str, op: str, operands: list[int], expected: int) -> None:
    s = Shapes()
    result = s.call(op, *(s.builder.constant(np.array(v, dtype)) for v in operands))
    assert contents(result) == expected
    assert result.producer is not None
    reference = result.producer.op_def.reference(result.producer.attrs, *(np.array(v, dtype) for v in operands))
    assert reference[0] == expected


def test_a_chain_as_exporters_write_it() -> None:
    s = Shapes()
    batch = s.call("expand_dims", s.pick(0), axis=0)
    rest = s.call("expand_dims", s.call("multiply", s.pick(1), s.pick(2)), axis=0)
    target = s.call("concatenate", batch, rest, axis=0)
    assert contents(target) == [N, M * 4]
    assert s.call("reshape", s.data, target).type == TensorType((N, M * 4), "float32")


def test_movement() -> None:
    s = Shapes()
    assert contents(s.call("strided_slice", s.shape, begin=(1,), end=(2**31 - 1,))) == [M, 4]
    assert contents(s.call("strided_slice", s.shape, s.number([0]), s.number([2]))) == [N, M]
    assert contents(s.call("reshape", s.shape, newshape=(3, 1))) == [[N], [M], [4]]
    assert contents(s.call("squeeze", s.call("expand_dims", s.shape, axis=1), axis=(1,))) == [N, M, 4]
    assert contents(s.call("stack", s.pick(0), s.pick(2))) == [N, 4]
    assert contents(s.call("broadcast_to", s.pick(0), shape=(2,))) == [N, N]
    assert contents(s.call("take", s.shape, s.number([2, -3]), axis=0)) == [4, N]
    assert contents(s.call("reverse", s.shape, axis=0)) == [4, M, N]
    assert contents(s.call("transpose", s.call("reshape", s.shape, newshape=(1, 3)))) == [[N], [M], [4]]
    assert contents(s.call("tile", s.pick(0), reps=(2,))) == [N, N]


def test_creation_and_conversion() -> None:
    s = Shapes()
    assert contents(s.call("full", s.pick(0), shape=(2,))) == [N, N]
    assert contents(s.call("ones", shape=(2,), dtype="int64")) == [1, 1]
    assert contents(s.call("zeros_like", s.shape)) == [0, 0, 0]
    assert contents(s.call("arange", s.number(0), s.number(6), s.number(2))) == [0, 2, 4]
    assert contents(s.call("ndarray_size", s.data)) == N * M * 4
    assert contents(s.call("cast", s.shape, dtype="int32")) == [N, M, 4]
    assert contents(s.call("copy", s.shape)) == [N, M, 4]
    assert contents(s.call("cast", s.number([0, 2]), dtype="bool")) == [False, True]


def test_reductions() -> None:
    s = Shapes()
    assert contents(s.call("prod", s.shape)) == N * M * 4
    assert contents(s.call("sum", s.shape, keepdims=True)) == [N + M + 4]
    assert contents(s.call("max", s.call("take", s.shape, s.number([0, 2]), axis=0))) == dims.maximum(N, 4)
    assert contents(s.call("min", s.call("take", s.shape, s.number([0, 2]), axis=0))) == dims.minimum(N, 4)


def test_choices() -> None:
    s = Shapes()
    minus_one = s.number([-1, 7, -1])
    chosen = s.call("where", s.call("equal", minus_one, s.number(-1)), s.shape, minus_one)
    assert contents(chosen) == [N, 7, 4]
    assert contents(s.call("where", s.call("equal", s.shape, s.number(3)), s.shape, minus_one)) is None


def test_unknown_contents_stay_unknown() -> None:
    s = Shapes()
    unknown = s.builder.input(TensorType((3,), "int64"))
    assert contents(s.call("add", s.shape, unknown)) is None
    assert contents(s.call("concatenate", s.shape, unknown)) is None
    assert contents(s.call("cast", s.shape, dtype="float32")) is None


def test_arange_of_symbolic_length() -> None:
    s = Shapes()
    assert s.call("arange", s.number(0), s.pick(0), s.number(1)).type == TensorType((N,), "int64")
    assert s.call("arange", s.number(1), s.pick(0), s.number(2)).shape == (dims.maximum(0, dims.ceildiv(N - 1, 2)),)


def test_contents_agree_with_the_reference_on_numbers() -> None:
    builder = Builder()
    values = builder.constant(np.array([5, 3, 8]))
    for op, attributes in (("sum", {}), ("prod", {"keepdims": True}), ("max", {}), ("reverse", {"axis": 0})):
        result = builder.call(op, values, **attributes)
        node = result.producer
        assert node is not None
        expected = node.op_def.reference(node.attrs, *node.op_def.arguments([np.array([5, 3, 8])]))[0]
        np.testing.assert_array_equal(np.asarray(known_dims(result), np.int64), expected)
