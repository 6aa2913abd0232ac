"""What ``forge inspect`` tells of a model."""

from __future__ import annotations

import numpy as np
import pytest

import forge
from forge.driver.analysis import OperatorSummary, summarize
from forge.ir.parser import parse_module

CONV = """
def @main(%x: Tensor[(2, 3, 8, 8), float32]) {
  %0 = nn.conv2d(%x, meta[relay.Constant][0], padding=[1, 1, 1, 1]);
  %1 = nn.relu(%0);
  nn.relu(%1)
}
"""


def by_name(text: str, *constants: np.ndarray) -> dict[str, OperatorSummary]:
    return {o.name: o for o in summarize(parse_module(text, list(constants)).main).operators}


def test_arithmetic_and_parameters_of_a_convolution() -> None:
    weight = np.ones((5, 3, 3, 3), np.float32)
    module = parse_module(CONV, [weight])
    summary = summarize(module.main)
    conv, relu = summary.operators
    assert (conv.name, conv.count, conv.parameters) == ("nn.conv2d", 1, 135)
    assert conv.flops == 2 * (2 * 5 * 8 * 8) * (3 * 3 * 3)
    assert (relu.name, relu.count, relu.flops) == ("nn.relu", 2, 2 * 2 * 5 * 8 * 8)
    assert (summary.parameters, summary.parameter_bytes) == (135, 540)
    assert summary.flops == conv.flops + relu.flops


def test_symbols_stay_symbols() -> None:
    found = by_name("def @main(%x: Tensor[(n, 4), float32]) { nn.relu(%x) }")
    assert str(found["nn.relu"].flops) == "4*n"


def test_weights_that_are_shared_count_once() -> None:
    text = """def @main(%x: Tensor[(2, 4), float32]) {
      %w = meta[relay.Constant][0]; %0 = nn.dense(%x, %w); nn.dense(%0, %w) }"""
    summary = summarize(parse_module(text, [np.ones((4, 4), np.float32)]).main)
    assert summary.parameters == 16


def test_regions_count() -> None:
    found = by_name("""def @main(%c: bool, %x: Tensor[(3,), float32]) {
      if(%c, %x) {
        then_branch = fn (%v: Tensor[(3,), float32]) { nn.relu(%v) },
        else_branch = fn (%v: Tensor[(3,), float32]) { negative(%v) }
      }
    }""")
    assert set(found) == {"if", "nn.relu", "negative"}


@pytest.mark.parametrize("text", [
    "def @main(%s: Tensor[(4,), string]) { copy(%s) }",
    "def @main(%x: Tensor[(4,), float32]) { %0 = greater(%x, 0f); argwhere(%0) }",
    "def @main(%x: Tensor[(4,), float32]) { %x }",
    "def @main(%x: Tensor[(4,), float32]) { sequence_construct(%x) }",
])
def test_anything_can_be_inspected(text: str) -> None:
    summary = summarize(parse_module(text).main)
    assert str(summary.arena)


def test_the_demo(digits: forge.IRModule) -> None:
    summary = summarize(digits.main)
    assert summary.uncompilable == []
    assert summary.operators[0].name == "nn.conv2d"
    assert sum(o.count for o in summary.operators) == sum(digits.operators.values())
