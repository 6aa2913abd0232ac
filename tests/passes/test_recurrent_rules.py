"""recurrent_layer: steps of LSTMs and GRUs in the forms that programs write, and near misses that must stay."""

from __future__ import annotations

import pytest

from forge.passes import fuse_patterns
from tests.passes.checks import check, parse, weights

ROW, STATE = "Tensor[(2, 3), float32]", "Tensor[(2, 4), float32]"
SEQUENCE = "Tensor[(5, 2, 3), float32]"


def dense(constant: int, data: str, units: int = 4) -> str:
    return f"nn.dense(%{data}, meta[relay.Constant][{constant}], units={units})"


LSTM = f"""%0 = {dense(0, "r", 16)}; %1 = {dense(1, "h", 16)}; %2 = add(%1, meta[relay.Constant][2]); %3 = add(%0, %2);
  %4 = strided_slice(%3, begin=[0], end=[4], axes=[1]); %5 = strided_slice(%3, begin=[0, 4], end=[2, 8]);
  %6 = strided_slice(%3, begin=[8], end=[12], axes=[-1]); %7 = strided_slice(%3, begin=[-4], end=[16], axes=[1]);
  %8 = sigmoid(%4); %9 = sigmoid(%5); %10 = tanh(%6); %11 = sigmoid(%7); %12 = multiply(%9, %c); %13 = multiply(%10, %8);
  %14 = add(%12, %13); %15 = tanh(%14); %16 = multiply(%15, %11);"""
GRU = f"""%0 = {dense(3, "r", 8)}; %1 = {dense(4, "h", 8)}; %2 = add(%0, %1); %3 = sigmoid(%2);
  %4 = strided_slice(%3, begin=[0], end=[4], axes=[1]); %5 = strided_slice(%3, begin=[4], end=[8], axes=[1]);
  %6 = {dense(5, "h")}; %7 = add(%6, meta[relay.Constant][7]); %8 = multiply(%5, %7); %9 = {dense(6, "r")};
  %10 = add(%9, %8); %11 = add(%10, meta[relay.Constant][8]); %12 = tanh(%11); %13 = subtract(1f, %4); %14 = multiply(%13, %12);
  %15 = multiply(%4, %h); %16 = add(%14, %15);"""
CONSTANTS = [weights(*shape, seed=k) for k, shape in enumerate(
    [(16, 3), (16, 4), (16,), (8, 3), (8, 4), (4, 4), (4, 3), (4,), (1, 4)])]


def scan(body: str, states: str, results: str, given: str = "", outside: str = "%scan.0") -> str:
    formal = ", ".join(f"%{name}: {STATE}" for name in states)
    values = ", ".join(f"%{name}" for name in states)
    return f"""def @main({formal}, %x: {SEQUENCE}) {{
      %scan = scan({values}, %x, num_states={len(states)}{given}) {{ body = fn ({formal}, %r: {ROW}) {{ {body} {results} }} }};
      {outside}
    }}"""


ALL = "(%scan.0, %scan.1, %scan.2)"
REVERSED = ", input_directions=[1], output_directions=[1]"


@pytest.mark.parametrize(("text", "op"), [
    (scan(LSTM, "ch", "(%14, %16, %16)", outside=ALL), "nn.lstm"),
    (scan(LSTM, "hc", "(%16, %14, %16)", outside=ALL), "nn.lstm"),
    (scan(LSTM, "hc", "(%16, %14, %16)", REVERSED, ALL), "nn.lstm"),
    (scan(LSTM, "hc", "(%16, %14, %14)", outside="(%scan.0, %scan.1)"), "nn.lstm"),
    (scan(GRU, "h", "(%16, %16)", outside="(%scan.0, %scan.1)"), "nn.gru"),
    (scan(GRU, "h", "(%16, %16)", REVERSED, "(%scan.0, %scan.1)"), "nn.gru"),
    (scan(GRU, "h", "(%16, %16)", outside="%scan.1"), "nn.gru"),
])
def test_recognized(text: str, op: str) -> None:
    graph = parse(text, CONSTANTS)
    assert check(fuse_patterns.run, graph) >= 1
    assert len(graph.select(op)) == 1
    assert not graph.select("scan")


@pytest.mark.parametrize("text", [
    scan(LSTM, "hc", "(%16, %14, %14)", outside=ALL),
    scan(LSTM, "hc", "(%16, %14, %16)", ", input_directions=[1]", ALL),
    scan(LSTM.replace("%10 = tanh", "%10 = sigmoid"), "hc", "(%16, %14, %16)", outside=ALL),
    scan(LSTM.replace("tanh(%14)", "tanh(%12)"), "hc", "(%16, %14, %16)", outside=ALL),
    scan(LSTM.replace("multiply(%9, %c)", "multiply(%9, %h)"), "hc", "(%16, %14, %16)", outside=ALL),
    scan(GRU.replace("subtract(1f, %4)", "subtract(1f, %5)"), "h", "(%16, %16)", outside="(%scan.0, %scan.1)"),
    scan(GRU.replace("subtract(1f, %4)", "subtract(2f, %4)"), "h", "(%16, %16)", outside="(%scan.0, %scan.1)"),
    scan(GRU.replace("%9 = " + dense(6, "r"), "%9 = " + dense(5, "h")), "h", "(%16, %16)", outside="(%scan.0, %scan.1)"),
])
def test_near_misses_stay(text: str) -> None:
    graph = parse(text, CONSTANTS)
    check(fuse_patterns.run, graph)
    assert graph.select("scan")
