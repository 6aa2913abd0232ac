"""to_float16."""

from __future__ import annotations

import numpy as np
import pytest

from forge.ir.graph import Graph
from forge.passes import to_float16
from tests.passes.checks import check, parse, text_of, weights

pytestmark = pytest.mark.usefixtures("narrow_layers")

HALF = 2e-3
"""Relative to the largest output: two roundings to 11 bits."""


def halves(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes if n.op not in ("constant", "cast") and n.results[0].dtype == "float16"]


def test_contractions_become_half_and_element_wise_operators_follow() -> None:
    graph = parse("""def @main(%x: Tensor[(2, 3, 8, 8), float32]) {
      %0 = nn.conv2d(%x, meta[relay.Constant][0]);
      %1 = nn.bias_add(%0, meta[relay.Constant][1]);
      %2 = nn.relu(%1);
      %3 = nn.softmax(%2);
      nn.max_pool2d(%3, pool_size=[2, 2])
    }""", [weights(4, 3, 3, 3), weights(4)])
    assert check(to_float16.run, graph, tolerance=HALF) == 3
    assert text_of(graph) == (
        '%0 = cast(%x, dtype="float16");\n'
        "%1 = nn.conv2d(%0, meta[relay.Constant][0]);\n"
        "%2 = nn.bias_add(%1, meta[relay.Constant][1]);\n"
        "%3 = nn.relu(%2);\n"
        '%4 = cast(%3, dtype="float32");\n'
        "%5 = nn.softmax(%4);\n"
        "nn.max_pool2d(%5, pool_size=[2, 2])"
    )


@pytest.mark.parametrize("body", [
    "%0 = nn.dense(%x, meta[relay.Constant][0]); %1 = add(%0, %x); nn.relu(%1)",
    "%0 = nn.relu(%x); add(%0, 1f)",
])
def test_computed_float32_operands_keep_their_reader(body: str) -> None:
    graph = parse(f"def @main(%x: Tensor[(3, 5), float32]) {{ {body} }}", [weights(5, 5)])
    check(to_float16.run, graph, tolerance=HALF)
    assert set(halves(graph)) <= {"nn.dense"}


@pytest.mark.parametrize(("node", "follows"), [
    ("multiply(%0, 0.5f)", True),
    ("multiply(%0, 1e-6f)", False),
    ("divide(%0, 1e-7f)", False),
    ("add(%0, 1e-6f)", True),
    ("add(%0, 1e6f)", False),
    ("maximum(%0, -3.4028235e+38f)", False),
    ("clip(%0, a_min=-1f, a_max=1f)", True),
    ("clip(%0, a_min=0f, a_max=1e30f)", False),
    ("nn.pad(%0, pad_width=[[0, 0], [1, 1]])", True),
    ("reshape(%0, newshape=[15])", True),
    ("exp(%0)", False),
    ("mean(%0)", False),
])
def test_what_float16_cannot_hold_stays_float32(node: str, follows: bool) -> None:
    text = f"def @main(%x: Tensor[(3, 5), float32]) {{ %0 = nn.dense(%x, meta[relay.Constant][0]); {node} }}"
    graph = parse(text, [weights(5, 5)])
    check(to_float16.run, graph, tolerance=HALF)
    assert len(halves(graph)) == (2 if follows else 1)


def test_weights_beyond_the_range_stay_float32() -> None:
    graph = parse("def @main(%x: Tensor[(3, 5), float32]) { nn.dense(%x, meta[relay.Constant][0]) }", [weights(5, 5) * 1e5])
    assert check(to_float16.run, graph) == 0


def test_several_results_integers_and_other_floats() -> None:
    graph = parse("""def @main(%x: Tensor[(3, 6), float32], %i: Tensor[(2,), int64], %d: Tensor[(3, 6), float64]) {
      %0 = nn.dense(%x, meta[relay.Constant][0]);
      %1 = split(%0, indices_or_sections=2, axis=1);
      %2 = take(%1.0, %i, axis=1);
      %3 = nn.dense(%d, meta[relay.Constant][1]);
      (%2, %1.1, %3, %0)
    }""", [weights(6, 6), weights(6, 6).astype(np.float64)])
    assert check(to_float16.run, graph, tolerance=HALF) == 3
    assert halves(graph) == ["nn.dense", "split", "take"]


def test_regions() -> None:
    graph = parse("""def @main(%c: bool, %x: Tensor[(3, 5), float32]) {
      if(%c, %x) {
        then_branch = fn (%v: Tensor[(3, 5), float32]) { nn.dense(%v, meta[relay.Constant][0]) },
        else_branch = fn (%v: Tensor[(3, 5), float32]) { negative(%v) }
      }
    }""", [weights(5, 5)])
    assert check(to_float16.run, graph, tolerance=HALF) == 1
