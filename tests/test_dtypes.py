"""Element types: names, NumPy equivalents, ranges."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from forge import dtypes


@pytest.mark.parametrize("name", dtypes.NAMES)
def test_names_and_numpy_types_belong_together(name: str) -> None:
    numpy = dtypes.numpy_dtype(name)
    assert dtypes.canonical(name) == name
    assert dtypes.canonical(numpy) == name
    assert dtypes.canonical(numpy.type) == name
    if name != "string":
        assert dtypes.itemsize(name) == numpy.itemsize == np.zeros(1, numpy).nbytes


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("float", "float32"), ("double", "float64"), ("half", "float16"), ("bf16", "bfloat16"), ("int", "int32"),
        ("long", "int64"),
        ("bool_", "bool"), ("uint1", "bool"), ("str", "string"), ("object", "string"), (np.float32, "float32"), (bool, "bool"),
        (np.dtype(">f4"), "float32"), (np.dtype("U7"), "string"), (np.dtype(object), "string"), (ml_dtypes.bfloat16, "bfloat16"),
        (np.array([1], "int16").dtype, "int16"), (ml_dtypes.int4, "int4"),
    ],
)  # fmt: skip
def test_canonical(given: object, name: str) -> None:
    assert dtypes.canonical(given) == name


@pytest.mark.parametrize(
    "given", ["float33", "", "strange", "Float32", None, "S5", np.dtype("S5"), np.dtype("M8[s]"), np.dtype("V3"), object()]
)
def test_what_is_no_element_type(given: object) -> None:
    with pytest.raises(TypeError):
        dtypes.canonical(given)


@pytest.mark.parametrize("name", ["linalg", "float33", "ndarray", "str_"])
def test_numpy_dtype_takes_canonical_names_only(name: str) -> None:
    with pytest.raises(TypeError, match="unknown dtype"):
        dtypes.numpy_dtype(name)


def test_kinds_are_a_partition() -> None:
    for name in dtypes.NAMES:
        kinds = [dtypes.is_integer(name), dtypes.is_float(name), dtypes.is_complex(name), name in ("bool", "string")]
        assert sum(kinds) == 1
        assert dtypes.is_integer(name) == (dtypes.is_signed(name) or dtypes.is_unsigned(name))


@pytest.mark.parametrize("name", [n for n in dtypes.NAMES if dtypes.is_integer(n)])
def test_integer_ranges(name: str) -> None:
    low, high = dtypes.integer_range(name)
    info = ml_dtypes.iinfo(dtypes.numpy_dtype(name))
    assert (low, high) == (info.min, info.max)
    assert high - low + 1 == 1 << dtypes.bits(name)
    assert [dtypes.wrap_int(v, name) for v in (low, high, low - 1, high + 1)] == [low, high, high, low]


def test_strings_have_no_size() -> None:
    with pytest.raises(TypeError, match="string has no fixed size"):
        dtypes.bits("string")


def every_value(name: str) -> np.ndarray:
    """All values of a type of at most 16 bits, or the outermost ones."""
    if name == "bool":
        return np.array([False, True])
    if dtypes.is_integer(name):
        low, high = dtypes.integer_range(name)
        edges = np.arange(low, high + 1) if dtypes.bits(name) <= 16 else np.array([low, low + 1, -1, high - 1, high])
        return edges.astype(dtypes.numpy_dtype(name))
    if dtypes.bits(name) <= 16:
        bits = np.arange(1 << dtypes.bits(name), dtype=np.uint16)
        return bits.astype(np.uint8 if dtypes.bits(name) <= 8 else np.uint16).view(dtypes.numpy_dtype(name))
    return np.nextafter(np.array([1, -2, 3], name), np.array(9, name))


@pytest.mark.filterwarnings("ignore")
def test_what_a_type_represents() -> None:
    """Values come back, where it says so; it does for the pairs that matter."""
    numbers = [n for n in dtypes.NAMES if not dtypes.is_complex(n) and n != "string"]
    for source in numbers:
        values = every_value(source).astype(np.float64)
        for target in (t for t in numbers if dtypes.represents(t, source) and dtypes.bits(source) < 64):
            there = values.astype(dtypes.numpy_dtype(target)).astype(np.float64)
            np.testing.assert_array_equal(there, values, f"{source} -> {target}")
    assert dtypes.represents("float64", "int32")
    assert dtypes.represents("float32", "bfloat16")
    assert dtypes.represents("int16", "uint8")
    assert not dtypes.represents("float64", "int64")
    assert not dtypes.represents("float16", "int16")
    assert not dtypes.represents("uint64", "int8")
    assert not dtypes.represents("int8", "float8_e5m2")
