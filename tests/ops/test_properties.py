"""Random shapes and bounds: symbolic answers hold for every size, lowerings agree with NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import forge.ops
from forge import dims, te
from forge.dims import Dim
from forge.ops.shape.regroup import source_indices
from forge.ops.shape.slice import slice_range
from forge.tir.evaluate import evaluate
from tests.ops import harness
from tests.ops.case import Draw, row
from tests.ops.compare import check

N = dims.symbol("n")
BOUNDS = st.one_of(st.integers(-9, 9), st.sampled_from([2**31 - 1, -(2**31), 2**63 - 1]))
SYMBOLIC = st.builds(lambda a, b: a * N + b, st.integers(-1, 2), st.integers(-4, 4))
STRIDES = st.sampled_from([1, 2, 3, -1, -2])


def onnx_slice(n: int, begin: int, end: int, stride: int) -> list[int]:
    """The positions that ONNX's Slice takes, from its specification."""
    begin, end = (v + n if v < 0 else v for v in (begin, end))
    lowest_end, last = (0, n) if stride > 0 else (-1, n - 1)
    begin, end = min(max(begin, 0), last), min(max(end, lowest_end), last)
    return list(range(begin, end, stride))


@settings(max_examples=300)
@given(n=st.integers(0, 7), begin=st.one_of(BOUNDS, SYMBOLIC), end=st.one_of(BOUNDS, SYMBOLIC), stride=STRIDES)
def test_a_slice_of_a_symbolic_dimension_is_right_for_every_size(n: int, begin: Dim, end: Dim, stride: int) -> None:
    start, count = (dims.evaluate(d, {"n": n}) for d in slice_range(N, begin, end, stride))
    expected = onnx_slice(n, dims.evaluate(begin, {"n": n}), dims.evaluate(end, {"n": n}), stride)
    assert [start + k * stride for k in range(count)] == expected


@settings(max_examples=60)
@given(n=st.integers(0, 6), begin=BOUNDS, end=BOUNDS, stride=STRIDES, run_time=st.booleans())
def test_slices_are_lowered_as_numpy_slices(n: int, begin: int, end: int, stride: int, run_time: bool) -> None:
    data = Draw((n, 2))
    if run_time:
        case = row("strided_slice", [data, [begin], [end], [stride], [0]])
    else:
        case = row("strided_slice", [data], begin=(begin,), end=(end,), strides=(stride,), axes=(0,))
    (result,) = harness.run_lowered(case)
    array = case.arrays()[0]
    assert array is not None
    np.testing.assert_array_equal(result, array[onnx_slice(n, begin, end, stride)])


def splits(total: int, draw: st.DrawFn) -> tuple[int, ...]:
    """A shape of ``total`` elements."""
    shape = []
    while total > 1 and len(shape) < 4:
        factor = draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
        shape.append(factor)
        total //= factor
    return (*shape, total)


@st.composite
def shape_pairs(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    total = draw(st.sampled_from([1, 2, 6, 12, 24, 36]))
    return splits(total, draw), splits(total, draw)


@settings(max_examples=150)
@given(shapes=shape_pairs(), symbolic=st.booleans())
def test_reshapes_keep_the_row_major_order(shapes: tuple[tuple[int, ...], tuple[int, ...]], symbolic: bool) -> None:
    source, result = shapes
    named = {d: dims.symbol(f"s{d}") for d in (*source, *result) if d > 1} if symbolic else {}
    ours, theirs = ([named.get(d, d) for d in shape] for shape in shapes)
    data = te.placeholder(ours, "int64")
    view = te.compute(theirs, lambda *i: data[source_indices(ours, theirs, i)])
    array = np.arange(np.prod(source)).reshape(source)
    found = evaluate(view, {data: array}, {f"s{d}": d for d in named})
    np.testing.assert_array_equal(found, array.reshape(result))


@settings(max_examples=80)
@given(n=st.integers(1, 5), before=st.integers(-1, 7), after=st.integers(-1, 7),
       mode=st.sampled_from(["constant", "edge", "reflect", "symmetric", "wrap"]))
def test_padding_agrees_with_numpy(n: int, before: int, after: int, mode: str) -> None:
    if n + min(before, 0) + min(after, 0) < 1:
        return
    case = row("nn.pad", [Draw((n, 2))], pad_width=((before, after), (0, 0)), pad_mode=mode)
    array = case.arrays()[0]
    assert array is not None
    expected = np.pad(array, ((max(before, 0), max(after, 0)), (0, 0)), mode)  # type: ignore[call-overload]
    expected = expected[max(-before, 0) : len(expected) - max(-after, 0)]
    for result in (harness.run_reference(case)[0], harness.run_lowered(case)[0]):
        np.testing.assert_array_equal(result, expected)


@settings(max_examples=40)
@given(shape=st.lists(st.integers(0, 4), min_size=1, max_size=4), data=st.data())
def test_sums_over_run_time_axes_agree_with_numpy(shape: list[int], data: st.DataObject) -> None:
    axes = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True, min_size=1))
    keepdims = data.draw(st.booleans())
    case = row("sum", [Draw(tuple(shape), "int64"), axes], keepdims=keepdims)
    array = case.arrays()[0]
    assert array is not None
    (result,) = harness.run_lowered(case)
    check(result, np.sum(array, axis=tuple(axes), keepdims=keepdims), forge.ops.Accuracy.EXACT, case.id)
