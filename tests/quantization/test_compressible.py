"""Weights that can be codes of few bits, and codes in their places."""

from __future__ import annotations

import numpy as np
import pytest

from forge.ir.interp import run_graph
from forge.quantization.chosen.compressible import holders, holds_zeros, replace
from forge.quantization.weights.channels import from_rows, set_constant
from forge.quantization.weights.rounding import fit_steps, nearest
from tests.quantization.models import Net


def net_of(kind: str) -> Net:
    net = Net(4) if kind == "table" else Net(3, 8, 8) if kind == "convolution" else Net(64)
    if kind == "table":
        index = net.call("cast", net.x, dtype="int32")
        net.module(net.call("take", net.weight(10, 64), index, axis=0, mode="clip"))
    elif kind == "convolution":
        net.module(net.conv(net.x, 16))
    else:
        net.module(net.dense(net.x, 32))
    return net


@pytest.mark.parametrize("kind", ["product", "table", "convolution"])
@pytest.mark.parametrize("bits", [4, 8])
def test_codes_stand_for_the_rounded_weight(kind: str, bits: int) -> None:
    net = net_of(kind)
    graph = net.builder.graph
    (holder,) = [h for h in holders(graph, (), True, True) if not h.reason]
    assert holder.kind == kind
    group = holder.group(bits, 32)
    if group is None:
        assert kind == "convolution" and bits == 4
        return
    assert group == (27 if kind == "convolution" else 32)
    rounded = nearest(np.asarray(holder.rows, np.float32), group, fit_steps(bits, True))
    (data,) = net.samples(1)
    codes, scale, *_ = holder.stored(rounded, bits)
    assert codes.shape == holder.array.shape and holder.bytes(rounded, bits) == scale.nbytes + codes.size * bits // 8
    user, position = holder.readers[0]
    expected = graph.copy()
    again = next(n for n in expected.nodes if n.op == user.op)
    set_constant(again, position, from_rows(rounded.real, holder.array.shape, holder.axis))
    replace(graph, holder, rounded, bits)
    graph.sort()
    np.testing.assert_allclose(run_graph(graph, [data])[0], run_graph(expected, [data])[0], rtol=1e-5, atol=1e-5)


def test_reasons_to_stay_real() -> None:
    net = Net(64)
    small, weight = net.weight(2, 64), net.weight(32, 64)
    graph = net.builder.graph
    graph.outputs = [net.call("nn.dense", net.x, small), net.call("nn.dense", net.x, weight), net.call("abs", weight)]
    first, second = (h.reason for h in holders(graph, (), True, False))
    assert first == "fewer than 256 numbers" and second.endswith(" (abs) reads it, too")
    conv = net_of("convolution").builder.graph
    assert holders(conv, (), True, False)[0].reason.startswith("artifacts hold weights of convolutions in float")
    table = net_of("table").builder.graph
    assert holders(table, (), False, False)[0].reason == "embeddings=0"


def test_blocks_divide_the_depth() -> None:
    net = Net(96)
    net.module(net.dense(net.x, 32))
    (holder,) = [h for h in holders(net.builder.graph, (), True, True) if not h.reason]
    assert [holder.group(8, g) for g in (None, 96, 64, 33, 32)] == [96, 96, 48, 32, 32]
    assert holds_zeros(holder, 4, 32)
