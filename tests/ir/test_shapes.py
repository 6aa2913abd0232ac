"""What is known of the contents of integer tensors."""

from __future__ import annotations

import time

import numpy as np

from forge import dims, dims_text
from forge.ir import Builder, TensorType
from forge.ir.shapes import MAX_ELEMENTS, known_dims


def test_constants_of_every_integer_type_are_numbers() -> None:
    builder = Builder()
    for dtype in ("int64", "uint8", "int4", "uint2", "bool"):
        known = known_dims(builder.constant(np.array([1, 0]), dtype))
        assert known is not None and known.tolist() == [1, 0]
        assert all(isinstance(d, int) for d in known)


def test_what_is_unknown() -> None:
    builder = Builder()
    x = builder.input(TensorType((2,), "int64"))
    assert known_dims(None) is None
    assert known_dims(x) is None
    assert known_dims(builder.call("add", x, x)) is None
    assert known_dims(builder.constant([1.0, 2.0])) is None
    assert known_dims(builder.constant(np.zeros(MAX_ELEMENTS + 1, np.int64))) is None


def test_shape_arithmetic() -> None:
    builder = Builder()
    n = dims.symbol("n")
    shape = builder.call("shape_of", builder.input(TensorType((n, 3), "float32")))
    known = known_dims(builder.call("add", shape, builder.constant([1, 2])))
    assert known is not None and list(known) == [n + 1, 5]


def test_long_chains_and_large_results_cost_nothing() -> None:
    builder = Builder()
    value = builder.call("shape_of", builder.input(TensorType((dims.symbol("n"), 3), "float32")))
    for _ in range(60):
        value = builder.call("multiply", value, value)
    start = time.process_time()
    assert known_dims(value) is None
    huge = builder.call("broadcast_to", builder.constant(1), shape=(1 << 40,))
    assert known_dims(huge) is None
    shifted = builder.call("left_shift", builder.constant([1]), builder.constant([1 << 62]))
    known_dims(shifted)
    known_dims(builder.call("power", builder.constant([9]), builder.constant([1 << 62])))
    assert time.process_time() - start < 2


def test_fresh_symbols_differ_from_all_others() -> None:
    first = dims.fresh("size")
    following = f"size_{int(str(first).rpartition('_')[2]) + 1}"
    dims_text.parse(following)
    assert str(dims.fresh("size")) not in (str(first), following)
