"""What follows convolutions into another layout, by ``Op.in_layout``, in every pass that changes layouts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from forge.ir.graph import Graph
from forge.ir.op import REGISTRY
from forge.ops.core.define import define_operator
from forge.options import CompileOptions
from forge.passes import choose_layouts, convert_layout, widen_conv1d
from forge.passes.base import GraphPass
from tests.passes.checks import check, parse, weights

CONV = "%0 = nn.conv2d(%x, meta[relay.Constant][0], padding=[1, 1]); "


@pytest.fixture(autouse=True)
def _operator() -> Iterator[None]:
    define_operator("acme.mix", lambda a, b: a + 3 * b, element=lambda a, b: a + b * 3.0, operands=("a", "b"))
    yield
    del REGISTRY["acme.mix"]


def _last(graph: Graph, options: CompileOptions) -> int:
    return convert_layout.run(graph, CompileOptions(target=options.target, channel_layout="last"))


@pytest.mark.parametrize("run", [choose_layouts.run, _last])
@pytest.mark.parametrize(("body", "follows"), [
    ("acme.mix(%0, %x)", True),
    ("acme.mix(meta[relay.Constant][1], %0)", True),
    ("nn.softmax(%0, axis=-1)", True),
    ("take(%0, meta[relay.Constant][2], axis=3)", True),
    ("take(%0, meta[relay.Constant][2])", False),
    ("repeat(%0, repeats=2, axis=-2)", True),
    ("strided_slice(%0, begin=[1, 16], end=[3, 32], axes=[2, 1])", True),
    ("strided_slice(%0, begin=[1], end=[6], strides=[2], axes=[-1])", True),
    ("concatenate(%0, %x, axis=2)", True),
    ("image.resize2d(%0, size=[4, 5])", True),
    ("broadcast_to(%0, shape=[2, 32, 8, 8], exact=True)", True),
    ("broadcast_to(%0, shape=[3, 2, 32, 8, 8])", False),
    ("prod(%0, axis=[2], keepdims=True)", True),
    ("mean(%0, axis=[1], exclude=True, keepdims=True)", True),
    ("nn.pad(%0, pad_width=[[0, 0], [0, 0], [1, 2], [0, 3]])", True),
    ("nn.prelu(%0, meta[relay.Constant][3])", True),
    ("argmax(%0, axis=1)", False),
    ("reverse(%0, axis=[2])", False),
])
def test_followers(run: GraphPass, body: str, follows: bool) -> None:
    constants = [weights(32, 32, 3, 3), weights(32, 1, 1), np.array([1, 5, 0], np.int64), weights(32)]
    graph = parse(f"def @main(%x: Tensor[(2, 32, 8, 8), float32]) {{ {CONV}{body} }}", constants)
    assert check(run, graph) == 1 + follows


def test_a_result_without_the_moved_axes_keeps_its_name() -> None:
    text = f"def @main(%x: Tensor[(2, 3, 8, 8), float32]) {{ {CONV}%y = mean(%0, axis=[2, 3]); %y }}"
    graph = parse(text, [weights(5, 3, 3, 3)])
    assert check(_last, graph) == 2
    assert graph.output_names == ["y"]


@pytest.mark.parametrize("body", [
    "nn.softmax(%0, axis=1)", "sum(%0, axis=[1], keepdims=True)", "mean(%0, axis=[2, 3])",
    "nn.pad(%0, pad_width=[[0, 0], [16, 0], [0, 0], [0, 0]])", "repeat(%0, repeats=2, axis=1)",
    "strided_slice(%0, begin=[0], end=[32], strides=[2], axes=[1])", "concatenate(%0, %y, axis=1)",
])
def test_blocks_of_channels_stay_whole(body: str) -> None:
    text = f"def @main(%x: Tensor[(2, 32, 8, 8), float32], %y: Tensor[(2, 4, 8, 8), float32]) {{ {CONV}{body} }}"
    assert check(choose_layouts.run, parse(text, [weights(32, 32, 3, 3)])) == 1


@pytest.mark.parametrize(("body", "follows"), [
    ("acme.mix(%0, %x)", True), ("nn.pad(%0, pad_width=[[0, 0], [1, 0], [2, 0]])", True), ("concatenate(%0, %x, axis=-1)", True),
    ("mean(%0, axis=[2], keepdims=True)", True), ("mean(%0, axis=[2])", False), ("nn.softmax(%0)", True),
    ("broadcast_to(%0, shape=[1, 8, 8])", True),
    ("strided_slice(%0, begin=[1], end=[7], axes=[2])", True), ("nn.max_pool1d(%0, pool_size=[2])", False),
])
def test_rows_follow_as_images(body: str, follows: bool) -> None:
    text = f"def @main(%x: Tensor[(2, 8, 8), float32]) {{ %0 = nn.conv1d(%x, meta[relay.Constant][0], padding=[1]); {body} }}"
    assert check(widen_conv1d.run, parse(text, [weights(8, 8, 3)])) == 1 + follows


@pytest.mark.parametrize(("run", "conversion"), [(choose_layouts.run, "layout_transform"), (_last, "transpose")])
def test_what_is_read_in_both_layouts_is_converted_once(run: GraphPass, conversion: str) -> None:
    graph = parse("""def @main(%x: Tensor[(2, 32, 8, 8), float32]) {
      %s = reverse(%x, axis=[2]);
      %0 = nn.conv2d(%s, meta[relay.Constant][0], padding=[1, 1]);
      %1 = nn.conv2d(%s, meta[relay.Constant][1], padding=[1, 1]);
      (%0, %1, reverse(%s, axis=[3]), reverse(%0, axis=[2]))
    }""", [weights(32, 32, 3, 3), weights(32, 32, 3, 3, seed=3)])
    assert check(run, graph) == 2
    assert len([n for n in graph.select(conversion) if n.operands[0] is not None and n.operands[0].constant is None]) == 3


def test_a_single_number_times_a_constant_for_each_channel_keeps_its_axes() -> None:
    graph = parse("""def @main(%x: Tensor[(1, 32, 1, 1), float32]) {
      %0 = nn.conv2d(%x, meta[relay.Constant][0]);
      %1 = multiply(%0, meta[relay.Constant][1]);
      nn.conv2d(%1, meta[relay.Constant][2])
    }""", [weights(1, 32, 1, 1), weights(1, 16, 1, 1), weights(16, 16, 1, 1)])
    assert check(choose_layouts.run, graph) == 3
