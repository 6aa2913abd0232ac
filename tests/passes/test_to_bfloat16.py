"""to_bfloat16, and what the passes after it make of its results."""

from __future__ import annotations

import numpy as np
import pytest

from forge.ir.graph import Graph
from forge.passes import choose_layouts, pack_weights, to_bfloat16
from forge.target import Target
from tests.passes.checks import AVX2, AVX512, check, parse, rewrite, text_of, weights

DOTS = Target.parse("llvm -mcpu=znver4")
pytestmark = pytest.mark.usefixtures("narrow_layers")

ROUNDED = 2e-2
"""Relative to the largest output: a few roundings to 8 bits."""


def weight_rank(graph: Graph, op: str) -> int:
    weight = next(n for n in graph.nodes if n.op == op).operands[1]
    assert weight is not None
    return weight.rank


def narrow(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes if n.op not in ("constant", "cast") and n.results[0].dtype == "bfloat16"]


def test_what_is_between_contractions_is_stored_in_bfloat16() -> None:
    graph = parse("""def @main(%x: Tensor[(2, 3, 8, 8), float32]) {
      %0 = nn.conv2d(%x, meta[relay.Constant][0]);
      %1 = nn.bias_add(%0, meta[relay.Constant][1]);
      %2 = nn.gelu(%1);
      %3 = nn.global_avg_pool2d(%2);
      exp(%3)
    }""", [weights(4, 3, 3, 3), weights(4)])
    assert check(to_bfloat16.run, graph, tolerance=ROUNDED) == 4
    assert text_of(graph) == (
        '%0 = cast(%x, dtype="bfloat16");\n'
        "%1 = nn.conv2d(%0, meta[relay.Constant][0]);\n"
        "%2 = nn.bias_add(%1, meta[relay.Constant][1]);\n"
        "%3 = nn.gelu(%2);\n"
        "%4 = nn.global_avg_pool2d(%3);\n"
        '%5 = cast(%4, dtype="float32");\n'
        "exp(%5)"
    )


def test_scores_of_a_softmax_are_float32() -> None:
    graph = parse("""def @main(%q: Tensor[(2, 5, 4), float32], %k: Tensor[(2, 7, 4), float32], %v: Tensor[(2, 7, 6), float32]) {
      %0 = nn.matmul(%q, %k, transpose_b=True);
      %1 = multiply(%0, 0.5f);
      %2 = nn.softmax(%1);
      nn.matmul(%2, %v)
    }""")
    check(to_bfloat16.run, graph, tolerance=ROUNDED)
    assert narrow(graph) == ["nn.matmul"]


@pytest.mark.parametrize(("node", "follows"), [
    ("multiply(%0, 0.3f)", True),
    ("add(%0, 256f)", True),
    ("add(%0, 257f)", False),
    ("add(%0, 639.5f)", False),
    ("add(%0, 1e30f)", True),
    ("maximum(%0, -3.4028235e+38f)", False),
    ("sum(%0)", False),
    ("nn.softmax(%0)", False),
])
def test_constants_that_count_stay_float32(node: str, follows: bool) -> None:
    text = f"def @main(%x: Tensor[(3, 5), float32]) {{ %0 = nn.dense(%x, meta[relay.Constant][0]); {node} }}"
    graph = parse(text, [weights(5, 5)])
    check(to_bfloat16.run, graph, tolerance=ROUNDED)
    wide_scores = "softmax" in node
    assert len(narrow(graph)) == (2 if follows else 0 if wide_scores else 1)


def test_what_is_only_cast_for_a_contraction_draws_nothing_along() -> None:
    graph = parse("""def @main(%x: Tensor[(3, 5), float32]) {
      %0 = nn.dense(%x, meta[relay.Constant][0]);
      (nn.softmax(%0), nn.dense(%0, meta[relay.Constant][0]), nn.relu(%0))
    }""", [weights(5, 5)])
    assert check(to_bfloat16.run, graph, tolerance=ROUNDED) == 2
    assert graph.find("nn.relu").dtype == "float32"


@pytest.mark.parametrize(("target", "rank"), [(DOTS, 7), (AVX512, 6), (AVX2, 6)])
def test_convolutions_are_packed_in_pairs_where_the_target_multiplies_them(target: Target, rank: int) -> None:
    graph = parse("""def @main(%x: Tensor[(1, 20, 8, 8), bfloat16]) { nn.conv2d(%x, meta[relay.Constant][0]) }""",
                  [weights(9, 20, 3, 3).astype("bfloat16")])
    check(choose_layouts.run, graph, target, tolerance=ROUNDED)
    assert weight_rank(graph, "nn.contrib_conv2d_NCHWc") == rank


def test_an_odd_number_of_channels_is_not_packed_in_pairs() -> None:
    graph = parse("""def @main(%x: Tensor[(1, 17, 8, 8), bfloat16]) { nn.conv2d(%x, meta[relay.Constant][0]) }""",
                  [weights(9, 17, 3, 3).astype("bfloat16")])
    check(choose_layouts.run, graph, DOTS, tolerance=ROUNDED)
    assert weight_rank(graph, "nn.contrib_conv2d_NCHWc") == 6


@pytest.mark.parametrize(("depth", "rank"), [(6, 4), (7, 3)])
def test_dense_is_packed_in_pairs(depth: int, rank: int) -> None:
    graph = parse(f"def @main(%x: Tensor[(3, {depth}), bfloat16]) {{ nn.dense(%x, meta[relay.Constant][0]) }}",
                  [weights(5, depth).astype("bfloat16")])
    check(pack_weights.run, graph, DOTS, tolerance=ROUNDED)
    assert weight_rank(graph, "nn.contrib_dense_pack") == rank


def test_recurrent_layers_keep_their_states() -> None:
    graph = parse("""def @main(%x: Tensor[(3, 2, 4), float32]) {
      nn.rnn(%x, meta[relay.Constant][0], meta[relay.Constant][1], activations=["tanh"],
        activation_alpha=[0f], activation_beta=[0f])
    }""", [weights(1, 32, 4) / 8, weights(1, 32, 32) / 8])
    assert check(to_bfloat16.run, graph, DOTS, tolerance=ROUNDED) == 1
    (node,) = [n for n in graph.nodes if n.op == "nn.rnn"]
    assert [v.dtype for v in node.operands[:3]] == ["float32", "bfloat16", "bfloat16"]
    assert {v.dtype for v in node.results} == {"float32"}



def test_nothing_to_do_is_nothing_done() -> None:
    graph = parse("def @main(%x: Tensor[(3, 5), float32]) { exp(%x) }")
    assert rewrite(to_bfloat16.run, graph) == 0
    assert np.all([v.dtype == "float32" for v in graph.outputs])
