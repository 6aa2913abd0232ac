"""Element types of operands of several types: tables next to what the frameworks do."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from forge.dims import symbol
from forge.errors import OpAttributeUnimplemented
from forge.frontends.promotion import NUMPY, Promotion, Strength, kind
from forge.frontends.torch.promotion import TORCH

NUMBERS = (True, 3, 0.5, 1j)
TENSOR, SCALAR, NUMBER = Strength.TENSOR, Strength.SCALAR, Strength.NUMBER


def types(table: Promotion) -> list[str]:
    return [*table.above, "complex128"]


def test_numpy_types() -> None:
    pairs = list(product(types(NUMPY), repeat=2))
    assert {pair: NUMPY.joined(*pair) for pair in pairs} == {pair: np.promote_types(*pair).name for pair in pairs}


def test_numpy_numbers() -> None:
    for dtype, number in product(types(NUMPY), NUMBERS):
        operands = [(NUMPY.number(number), NUMBER), (dtype, TENSOR)]
        assert NUMPY.common(operands) == np.result_type(np.zeros(2, dtype), number).name, operands
    assert [NUMPY.number(number) for number in NUMBERS] == [np.result_type(number).name for number in NUMBERS]


def test_numpy_arrays_of_rank_0_count() -> None:
    assert NUMPY.common([("float32", TENSOR), ("float64", SCALAR)]) == "float64"
    assert np.result_type(np.zeros(2, "float32"), np.zeros((), "float64")) == np.float64


def in_torch(*operands: tuple[str, Strength] | complex) -> str | None:
    """None: torch has no such type, or Forge has none."""
    torch = pytest.importorskip("torch")
    shapes = {TENSOR: (2,), SCALAR: ()}
    given = [torch.zeros(shapes[o[1]], dtype=getattr(torch, o[0])) if isinstance(o, tuple) else o for o in operands]
    try:
        found = str(torch.result_type(*given)).removeprefix("torch.")
    except RuntimeError as error:
        if "Promotion for" in str(error) or "Unknown Complex ScalarType" in str(error):
            return None
        raise
    return None if found == "complex32" else found


def test_torch_tensors() -> None:
    compared = set()
    for a, b in product(types(TORCH), repeat=2):
        for operands in product(((a, TENSOR), (a, SCALAR)), ((b, TENSOR), (b, SCALAR))):
            expected = in_torch(*operands)
            if expected is not None:
                compared.add((a, b))
                assert TORCH.common(operands) == expected, operands
    skipped = set(product(types(TORCH), repeat=2)) - compared
    assert all(any(dtype.startswith(("uint", "float8")) for dtype in pair) for pair in skipped)


def test_torch_numbers() -> None:
    compared = 0
    for dtype, strength, number in product(types(TORCH), (TENSOR, SCALAR), NUMBERS):
        expected = in_torch((dtype, strength), number)
        if expected is not None:
            compared += 1
            assert TORCH.common([(TORCH.number(number), NUMBER), (dtype, strength)]) == expected, (dtype, strength, number)
    assert compared > 100


def test_numbers_of_python() -> None:
    assert [TORCH.number(number) for number in NUMBERS] == ["bool", "int64", "float32", "complex64"]
    assert TORCH.number(symbol("n") + 1) == "int64"


def test_any_number_of_operands() -> None:
    assert TORCH.common([("int8", TENSOR)]) == "int8"
    assert TORCH.common([("float64", SCALAR), ("int64", NUMBER), ("bfloat16", TENSOR), ("float16", TENSOR)]) == "float32"
    assert TORCH.common([("float64", NUMBER), ("int16", SCALAR), ("bool", TENSOR)]) == "float64"
    assert [kind(dtype) for dtype in ("bool", "uint4", "float8_e5m2", "complex64")] == [0, 1, 2, 3]


def test_types_without_a_common_one() -> None:
    expected = "got types float8_e4m3fn and float8_e5m2; PyTorch has no common one of them: cast an operand"
    with pytest.raises(OpAttributeUnimplemented, match=expected):
        TORCH.joined("float8_e4m3fn", "float8_e5m2")
    strict = Promotion("Strict", {}, ("bool", "int32", "float32", "complex64"))
    assert strict.common([("int8", TENSOR), ("int8", TENSOR), ("int32", NUMBER)]) == "int8"
    with pytest.raises(OpAttributeUnimplemented, match="got types int16 and int8; Strict has no common one"):
        strict.joined("int16", "int8")
