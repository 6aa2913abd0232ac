"""canonicalize, eliminate_common_subexpr, eliminate_dead_code."""

from __future__ import annotations

import numpy as np
import pytest

from forge.ir.builder import Builder
from forge.ir.types import TensorType
from forge.passes import canonicalize, eliminate_common_subexpr, eliminate_dead_code
from tests.passes.checks import check, parse, rewrite, text_of, weights


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("%0 = nn.dropout(%x); abs(%0)", "abs(%x)"),
        ("%0 = copy(%x); %1 = copy(%0); abs(%1)", "abs(%x)"),
        ('%0 = cast(%x, dtype="float32"); abs(%0)', "abs(%x)"),
        ('%0 = cast(%x, dtype="float64"); %1 = cast(%0, dtype="float32"); abs(%1)', "abs(%x)"),
        ('%0 = cast(%x, dtype="int32"); %1 = cast(%0, dtype="float32"); abs(%1)',
         '%0 = cast(%x, dtype="int32");\n%1 = cast(%0, dtype="float32");\nabs(%1)'),
        ('%0 = cast(%x, dtype="int32"); %1 = cast(%0, dtype="float64"); %2 = cast(%1, dtype="int8"); abs(%2)',
         '%0 = cast(%x, dtype="int32");\n%1 = cast(%0, dtype="float64");\n%2 = cast(%1, dtype="int8");\nabs(%2)'),
        ('%0 = cast(%x, dtype="int8"); %1 = cast(%0, dtype="float8_e5m2"); %2 = cast(%1, dtype="float32"); abs(%2)',
         '%0 = cast(%x, dtype="int8");\n%1 = cast(%0, dtype="float8_e5m2");\n%2 = cast(%1, dtype="float32");\nabs(%2)'),
        ("%0 = reshape(%x, newshape=[6, 4]); %1 = reshape(%0, newshape=[2, 3, 4]); abs(%1)", "abs(%x)"),
        ("%0 = reshape(%x, newshape=[6, 4]); %1 = reshape(%0, newshape=[-1]); abs(%1)",
         "%0 = reshape(%x, newshape=[24]);\nabs(%0)"),
        ("%0 = expand_dims(%x, axis=0); %1 = squeeze(%0, axis=[0]); abs(%1)", "abs(%x)"),
        ("%0 = nn.batch_flatten(%x); %1 = nn.batch_flatten(%0); abs(%1)", "%0 = reshape(%x, newshape=[2, 12]);\nabs(%0)"),
        ("%0 = transpose(%x, axes=[2, 0, 1]); %1 = transpose(%0, axes=[1, 2, 0]); abs(%1)", "abs(%x)"),
        ("%0 = transpose(%x); %1 = transpose(%0, axes=[1, 0, 2]); abs(%1)", "%0 = transpose(%x, axes=[1, 2, 0]);\nabs(%0)"),
        ("%0 = add(%x, 0f); %1 = multiply(1f, %0); %2 = divide(%1, 1f); abs(%2)", "abs(%x)"),
        ("%0 = subtract(0f, %x); abs(%0)", "%0 = subtract(0f, %x);\nabs(%0)"),
        ("%0 = concatenate(%x, axis=1); abs(%0)", "abs(%x)"),
        ("%0 = strided_slice(%x, begin=[0], end=[9], axes=[1]); abs(%0)", "abs(%x)"),
        ("%0 = strided_slice(%x, begin=[-1], end=[-9], strides=[-1], axes=[1]); abs(%0)",
         "%0 = strided_slice(%x, begin=[-1], end=[-9], strides=[-1], axes=[1]);\nabs(%0)"),
        ("%0 = strided_slice(%x, begin=[0], end=[1], axes=[1]); %1 = strided_slice(%x, begin=[1], end=[2], axes=[1]); "
         "%2 = exp(%x); concatenate(%2, %0, %1, axis=1)",
         "%0 = exp(%x);\n%1 = strided_slice(%x, begin=[0], end=[2], axes=[1]);\nconcatenate(%0, %1, axis=1)"),
        ("%0 = strided_slice(%x, begin=[0], end=[1], axes=[1]); %1 = strided_slice(%x, begin=[1], end=[3], axes=[1]); "
         "%2 = concatenate(%0, %1, axis=1); abs(%2)", "abs(%x)"),
        ("%0 = strided_slice(%x, begin=[1], end=[2], axes=[1]); %1 = strided_slice(%x, begin=[0], end=[1], axes=[1]); "
         "concatenate(%0, %1, axis=1)",
         "%0 = strided_slice(%x, begin=[1], end=[2], axes=[1]);\n%1 = strided_slice(%x, begin=[0], end=[1], axes=[1]);\n"
         "concatenate(%0, %1, axis=1)"),
        ("%0 = strided_slice(%x, begin=[0], end=[1], axes=[1]); %1 = strided_slice(%x, begin=[1], end=[2], axes=[1]); "
         "concatenate(%0, %1, axis=2)",
         "%0 = strided_slice(%x, begin=[0], end=[1], axes=[1]);\n%1 = strided_slice(%x, begin=[1], end=[2], axes=[1]);\n"
         "concatenate(%0, %1, axis=2)"),
        ("%0 = transpose(%x, axes=[0, 2, 1]); nn.matmul(%x, %0)", "nn.matmul(%x, %x, transpose_b=True)"),
        ("%0 = exp(%x); %1 = nn.matmul(%x, %0, transpose_b=True); transpose(%1, axes=[2, 0, 1])",
         "%0 = exp(%x);\n%1 = nn.matmul(%0, %x, transpose_b=True);\ntranspose(%1, axes=[1, 0, 2])"),
    ],
)
def test_one_form(before: str, after: str) -> None:
    graph = parse(f"def @main(%x: Tensor[(2, 3, 4), float32]) {{ {before} }}")
    check(canonicalize.run, graph)
    assert text_of(graph) == after


@pytest.mark.parametrize(("indices", "after"), [
    ([0, 0, 1, 1, 2, 2], "%0 = repeat(%x, repeats=2, axis=1);\nabs(%0)"),
    ([0, 1, 2], "abs(%x)"),
    ([1, 2], "%0 = strided_slice(%x, begin=[1], end=[3], strides=[1], axes=[1]);\nabs(%0)"),
    ([0, 2], "%0 = strided_slice(%x, begin=[0], end=[3], strides=[2], axes=[1]);\nabs(%0)"),
    ([-3, -2], "%0 = strided_slice(%x, begin=[0], end=[2], strides=[1], axes=[1]);\nabs(%0)"),
    ([2, 1], "%0 = take(%x, meta[relay.Constant][0], axis=1);\nabs(%0)"),
    ([0, 0, 1, 1], "%0 = take(%x, meta[relay.Constant][0], axis=1);\nabs(%0)"),
    ([0, 1, 1], "%0 = take(%x, meta[relay.Constant][0], axis=1);\nabs(%0)"),
])
def test_regular_places(indices: list[int], after: str) -> None:
    b = Builder()
    x = b.input(TensorType((2, 3, 4), "float32"), "x")
    taken = b.call("take", x, b.constant(np.array(indices)), axis=1)
    graph = b.output(b.call("abs", taken))
    check(canonicalize.run, graph)
    assert text_of(graph) == after


VIEWS = [
    ("%0 = reshape(%x, newshape=[6, 4]); %1 = nn.dense(%0, meta[relay.Constant][0]); %2 = add(%1, meta[relay.Constant][1]); "
     "%3 = nn.gelu(%2); %4 = reshape(%3, newshape=[2, 3, 5]); tanh(%4)",
     "%0 = nn.dense(%x, meta[relay.Constant][0]);\n%1 = add(%0, meta[relay.Constant][1]);\n%2 = nn.gelu(%1);\ntanh(%2)"),
    ("%0 = reshape(%x, newshape=[8, 3]); %1 = add(%0, meta[relay.Constant][2]); abs(%1)",
     "%0 = reshape(%x, newshape=[8, 3]);\n%1 = add(%0, meta[relay.Constant][0]);\nabs(%1)"),
    ("%0 = reshape(%x, newshape=[24]); %1 = exp(%x); %2 = reshape(%1, newshape=[24]); %3 = add(%0, %2); abs(%3)",
     "%0 = exp(%x);\n%1 = add(%x, %0);\n%2 = abs(%1);\nreshape(%2, newshape=[24])"),
    ("%0 = divide(%x, 8f); abs(%0)", "%0 = multiply(%x, 0.125f);\nabs(%0)"),
    ("%0 = divide(%x, 3f); abs(%0)", "%0 = divide(%x, 3f);\nabs(%0)"),
    ("%0 = power(%x, 3f); abs(%0)", "%0 = multiply(%x, %x);\n%1 = multiply(%0, %x);\nabs(%1)"),
]


SLICES = [
    ("%0 = split(%x, indices_or_sections=2, axis=2); add(%0.0, %0.1)",
     "%0 = strided_slice(%x, begin=[0], end=[2], axes=[2]);\n%1 = strided_slice(%x, begin=[2], end=[4], axes=[2]);\nadd(%0, %1)"),
    ("%0 = transpose(%x, axes=[2, 0, 1]); %1 = take(%0, 1i64, axis=0); abs(%1)",
     "%0 = take(%x, 1i64, axis=2);\nabs(%0)"),
    ("%0 = transpose(%x, axes=[2, 1, 0]); %1 = reshape(%0, newshape=[4, 1, 3, 2]); %2 = take(%1, 1i64, axis=2); abs(%2)",
     "%0 = take(%x, 1i64, axis=1);\n%1 = transpose(%0, axes=[1, 0]);\n%2 = abs(%1);\nreshape(%2, newshape=[4, 1, 2])"),
    ("%0 = take(%x, 2i64, axis=1); %1 = reshape(%0, newshape=[2, 2, 2]); abs(%1)",
     "%0 = reshape(%x, newshape=[2, 3, 2, 2]);\n%1 = take(%0, 2i64, axis=1);\nabs(%1)"),
    ("%0 = take(%x, 1i64, axis=2); %1 = reshape(%0, newshape=[6]); abs(%1)",
     "%0 = reshape(%x, newshape=[6, 4]);\n%1 = take(%0, 1i64, axis=1);\nabs(%1)"),
    ("%0 = strided_slice(%x, begin=[2], end=[4], axes=[2]); %1 = reshape(%0, newshape=[6, 1, 2]); abs(%1)",
     "%0 = reshape(%x, newshape=[6, 2, 2]);\n%1 = strided_slice(%0, begin=[1], end=[2], axes=[1]);\nabs(%1)"),
    ("%0 = strided_slice(%x, begin=[1], end=[3], axes=[2]); %1 = reshape(%0, newshape=[6, 1, 2]); abs(%1)",
     "%0 = strided_slice(%x, begin=[1], end=[3], axes=[2]);\n%1 = abs(%0);\nreshape(%1, newshape=[6, 1, 2])"),
    ("%0 = transpose(%x, axes=[2, 0, 1]); %1 = reshape(%0, newshape=[6, 4]); %2 = nn.dense(%1, meta[relay.Constant][0]); "
     "%3 = add(meta[relay.Constant][1], %2); %4 = reshape(%3, newshape=[3, 2, 5]); abs(%4)",
     "%0 = transpose(%x, axes=[2, 0, 1]);\n%1 = reshape(%0, newshape=[3, 2, 4]);\n%2 = nn.dense(%1, meta[relay.Constant][0]);\n"
     "%3 = add(%2, meta[relay.Constant][1]);\nabs(%3)"),
]


@pytest.mark.parametrize(("before", "after"), [*VIEWS, *SLICES])
def test_views_move_behind_arithmetic(before: str, after: str) -> None:
    graph = parse(f"def @main(%x: Tensor[(2, 3, 4), float32]) {{ {before} }}", [weights(5, 4), weights(5), weights(3)])
    check(canonicalize.run, graph)
    assert text_of(graph) == after


def test_moving_axes_of_one_is_a_reshape() -> None:
    graph = parse("def @main(%x: Tensor[(n, 1, 4), float32]) { %0 = transpose(%x, axes=[1, 0, 2]); abs(%0) }")
    check(canonicalize.run, graph, symbols={"n": 3})
    assert text_of(graph) == "%0 = reshape(%x, newshape=[1, n, 4]);\nabs(%0)"


def test_slices_leave_whole_axes_out() -> None:
    graph = parse("""def @main(%x: Tensor[(n, 6, 4, 5), float32]) {
      strided_slice(%x, begin=[0, 1, 0, 0], end=[n, 6, 4, 5], strides=[1, 1, 1, 2], axes=[0, 1, 2, 3])
    }""")
    check(canonicalize.run, graph, symbols={"n": 2})
    assert text_of(graph) == "strided_slice(%x, begin=[1, 0], end=[6, 5], strides=[1, 2], axes=[1, 3])"


@pytest.mark.parametrize(("before", "after"), [
    ("%0 = mean(%x, axis=[1, 2]); reshape(%0, newshape=[n, 1, 1, 5])", "mean(%x, axis=[1, 2], keepdims=True)"),
    ("%0 = sum(%x, axis=[-1]); expand_dims(%0, axis=3)", "sum(%x, axis=[-1], keepdims=True)"),
    ("%0 = max(%x, axis=[0, 3], exclude=True); reshape(%0, newshape=[n, 1, 1, 5])",
     "max(%x, axis=[0, 3], keepdims=True, exclude=True)"),
    ("%0 = mean(%x, axis=[1, 2]); reshape(%0, newshape=[n, 1, 5])",
     "%0 = mean(%x, axis=[1, 2]);\nreshape(%0, newshape=[n, 1, 5])"),
])
def test_views_that_add_reduced_axes_go(before: str, after: str) -> None:
    graph = parse(f"def @main(%x: Tensor[(n, 3, 4, 5), float32]) {{ {before} }}")
    check(canonicalize.run, graph, symbols={"n": 2})
    assert text_of(graph) == after


def test_layout_round_trips_go() -> None:
    graph = parse("""def @main(%x: Tensor[(n, 6, 4, 4), float32]) {
      %0 = layout_transform(%x, src_layout="NCHW", dst_layout="NCHW4c");
      %1 = layout_transform(%0, src_layout="NCHW4c", dst_layout="NCHW", channels=6);
      abs(%1)
    }""")
    check(canonicalize.run, graph, symbols={"n": 1})
    assert text_of(graph) == "abs(%x)"


def test_outputs_keep_their_names() -> None:
    graph = parse("def @main(%x: Tensor[(2), float32]) { nn.dropout(%x) }")
    assert check(canonicalize.run, graph) == 0
    graph = parse("def @main(%x: Tensor[(2), float32]) { %0 = abs(%x); %1 = nn.dropout(%0); %1 }")
    graph.outputs[0].name = "y"
    assert check(canonicalize.run, graph) == 1
    assert graph.output_names == ["y"]


def test_equal_nodes_are_merged() -> None:
    graph = parse("""def @main(%x: Tensor[(2), float32], %y: Tensor[(2), float32]) {
      %0 = add(%x, %y);
      %1 = add(%y, %x);
      %2 = subtract(%0, %1);
      %3 = subtract(%1, %0);
      %4 = clip(%2, a_min=0f, a_max=1f);
      %5 = clip(%2, a_min=0f, a_max=2f);
      %6 = add(%4, %5);
      add(%6, %3)
    }""")
    assert check(eliminate_common_subexpr.run, graph) == 2
    assert [n.op for n in graph.nodes] == ["add", "subtract", "clip", "clip", "add", "add"]


def test_constants_merge_by_bytes() -> None:
    graph = parse("""def @main(%x: Tensor[(2), float32]) {
      %0 = add(%x, 0f);
      %1 = add(%x, -0f);
      %2 = add(%x, 0f);
      %3 = multiply(%0, %1);
      multiply(%3, %2)
    }""")
    check(eliminate_common_subexpr.run, graph)
    assert len(graph.select("add")) == 2
    assert len(graph.select("constant")) == 2


def test_large_constants_merge_only_when_all_is_equal() -> None:
    builder = Builder()
    big = np.zeros(10_000, np.float32)
    other = big.copy()
    other[9_999] = 1
    values = [builder.constant(a) for a in (big, big.copy(), other)]
    graph = builder.output(*(builder.call("negative", v) for v in values))
    rewrite(eliminate_common_subexpr.run, graph)
    assert len(graph.select("constant")) == 2


def test_dead_nodes_go() -> None:
    graph = parse("def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); %1 = abs(%0); abs(%x) }")
    assert check(eliminate_dead_code.run, graph) == 2
    assert text_of(graph) == "abs(%x)"


def test_what_defines_a_needed_size_stays() -> None:
    builder = Builder()
    x, shape = builder.input(TensorType((6,), "float32"), "x"), builder.input(TensorType((2,), "int64"), "shape")
    rows = builder.call("reshape", x, shape).shape[0]
    graph = builder.output(builder.call("broadcast_to", builder.constant(np.float32(1)), shape=(rows,)))
    assert rewrite(eliminate_dead_code.run, graph) == 0
    assert graph.select("reshape")
