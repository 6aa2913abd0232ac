"""Each operator of TensorFlow, in its element types and options, beside what TensorFlow gave (`record`).

Floats agree to `ACCURACY`, relative to the largest result; infinities, NaN and all that are not floats are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import forge
from forge import dtypes
from forge.frontends.tensorflow import converters
from forge.frontends.tensorflow.registry import REGISTRY
from tests.frontends.tensorflow.case import Case
from tests.frontends.tensorflow.cases import CASES
from tests.frontends.tensorflow.record import kept, record


@cache
def recorded() -> dict[str, list[np.ndarray]]:
    return kept()


def outcome(case: Case, *how: str, open_: bool = False) -> list[np.ndarray]:
    """What Forge gives: compiled, or by ``how``."""
    graph, inputs = case.made(open_=open_)
    found: Any = forge.from_tensorflow(graph.data(), outputs=case.outputs).get_inference_function(*how)(*inputs)
    return [np.asarray(one) for one in (found if isinstance(found, list | tuple) else [found])]


def difference(case: Case, found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> str:
    """What is wrong; "" where nothing is."""
    for number, (one, wanted) in enumerate(zip(found, expected, strict=True)):
        if one.shape != wanted.shape or one.dtype != wanted.dtype:
            return f"output {number}: got {one.dtype}{one.shape}; expected {wanted.dtype}{wanted.shape}"
        wrong = _different(case, one, wanted)
        if wrong:
            return f"output {number}: {wrong}"
    return ""


def _different(case: Case, found: np.ndarray, expected: np.ndarray) -> str:
    dtype = dtypes.canonical(expected.dtype)
    if not (dtypes.is_float(dtype) or dtypes.is_complex(dtype)):
        unequal = found != expected
        return f"got {found[unequal][:4]}; expected {expected[unequal][:4]}" if unequal.any() else ""
    wide = np.complex128 if dtypes.is_complex(dtype) else np.float64
    one, other = found.astype(wide), expected.astype(wide)
    odd = ~(np.isfinite(one) & np.isfinite(other))
    if not np.array_equal(one[odd], other[odd], equal_nan=True):
        return f"got {one[odd][:4]}; expected {other[odd][:4]}"
    bound = case.accuracy(dtype) * max(float(np.abs(other[~odd]).max(initial=0)), 1e-30)
    away = np.abs(one[~odd] - other[~odd])
    if away.max(initial=0) <= bound:
        return ""
    worst = int(away.argmax())
    return f"differs by {away[worst]:.3g}, {one[~odd][worst]} from {other[~odd][worst]}; expected at most {bound:.3g}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reference(case: Case) -> None:
    assert difference(case, outcome(case, "reference"), recorded()[case.name]) == ""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_compiled(case: Case) -> None:
    assert difference(case, outcome(case), recorded()[case.name]) == ""


NEED_SIZES = frozenset(
    "BlockLSTM BlockLSTMV2 Bincount BroadcastArgs ConcatOffset DataFormatVecPermute DenseBincount NonMaxSuppressionV5 Slice "
    "Squeeze".split())
"""Operators that read sizes, or how many axes there are, of which some cases are refused where these are not known."""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_first_sizes_are_not_known(case: Case) -> None:
    try:
        found = outcome(case, "reference", open_=True)
    except forge.ForgeError:
        assert case.row.op in NEED_SIZES
        return
    assert difference(case, found, recorded()[case.name]) == ""


def test_what_was_recorded_is_what_the_cases_are() -> None:
    assert list(recorded()) == [case.name for case in CASES], "python -m tests.frontends.tensorflow.record"


@pytest.mark.sampled(10, by_name=True)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recorded(case: Case) -> None:
    """The TensorFlow that is installed gives what was recorded."""
    pytest.importorskip("tensorflow", reason="needs the extra tflite, which has TensorFlow")
    assert difference(case, record(case), recorded()[case.name]) == ""


ELSEWHERE = frozenset({"arrays", "control", "frames", "lists", "stablehlo"})
"""Modules of converters whose operators other modules of tests have: they stand by themselves in no graph."""
WITHOUT_CASES = frozenset(
    "AccumulateNV2 BatchCholesky BatchMatrixBandPart BatchMatrixDeterminant BatchMatrixInverse BatchMatrixSolve "
    "BatchMatrixTriangularSolve DebugGradientIdentity DebugIdentity DebugIdentityV2 DebugIdentityV3 DeepCopy Multinomial "
    "OptimizationBarrier QuantizeAndDequantize RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt RefIdentity "
    "TopK TruncatedNormal XlaSharding _EagerConst _FusedDepthwiseConv2dNative".split())
"""Operators of test_other.py."""


def test_operators_have_cases() -> None:
    converters.load_all()
    own = {row.op for row in REGISTRY.rows() if row.function.__module__.rpartition(".")[2] not in ELSEWHERE}
    assert own - {case.row.op for case in CASES} == WITHOUT_CASES


def test_names_of_cases_differ() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
