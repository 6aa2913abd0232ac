"""unroll_scans: loops over layers and frames become their rounds, others stay."""

from __future__ import annotations

import pytest

from forge.passes import unroll_scans
from tests.passes.checks import check, parse, weights

STATE = "Tensor[(2, 64), float32]"


def layers(given: str = "") -> str:
    return f"""def @main(%h: {STATE}) {{
      %scan = scan(%h, meta[relay.Constant][0], num_states=1{given}) {{ body = fn (%s: {STATE}, %w: Tensor[(64, 64), float32]) {{
        %0 = nn.matmul(%s, %w); %1 = tanh(%0); %2 = negative(%1); (%1, %2)
      }} }};
      (%scan.0, %scan.1)
    }}"""


def frames(count: int) -> str:
    image = "Tensor[(1, 2, 5, 5), float32]"
    return f"""def @main(%h: {image}, %x: Tensor[({count}, 1, 2, 5, 5), float32]) {{
      %scan = scan(%h, %x, num_states=1) {{ body = fn (%s: {image}, %r: {image}) {{
        %0 = add(%s, %r); %1 = nn.conv2d(%0, meta[relay.Constant][0], padding=[1, 1]); (%1, %0)
      }} }};
      (%scan.0, %scan.1)
    }}"""


@pytest.mark.parametrize("given", ["", ", output_directions=[1]", ", input_directions=[1], output_directions=[1]"])
def test_layers_read_their_own_weights(given: str) -> None:
    graph = parse(layers(given), [weights(3, 64, 64) / 8])
    assert check(unroll_scans.run, graph) == 1
    assert [node.operands[1].constant.shape for node in graph.select("nn.matmul")] == [(64, 64)] * 3
    assert not graph.select("scan")


def test_frames_of_convolutions() -> None:
    graph = parse(frames(4), [weights(2, 2, 3, 3)])
    assert check(unroll_scans.run, graph) == 1
    assert len(graph.select("nn.conv2d")) == 4


@pytest.mark.parametrize(("text", "shape"), [
    (frames(unroll_scans.MAX_FRAMES + 1), (2, 2, 3, 3)),
    (layers(), (unroll_scans.MAX_LAYERS + 1, 64, 64)),
    (layers().replace("(64, 64)", "(2, 64)").replace("nn.matmul", "add"), (3, 2, 64)),
])
def test_many_rounds_and_small_rows_stay_a_loop(text: str, shape: tuple[int, ...]) -> None:
    graph = parse(text, [weights(*shape)])
    assert check(unroll_scans.run, graph) == 0
    assert graph.select("scan")


def test_rows_of_constants_that_the_body_reads() -> None:
    graph = parse(f"""def @main(%h: {STATE}) {{
      %scan = scan(%h, meta[relay.Constant][1], num_states=1) {{ body = fn (%s: {STATE}, %round: int64) {{
        %0 = reshape(%round, newshape=[1]); %1 = concatenate(%0, meta[relay.Constant][2]);
        %2 = dynamic_slice(meta[relay.Constant][0], %1, slice_sizes=[1, 64, 64]); %3 = reshape(%2, newshape=[64, 64]);
        nn.matmul(%s, %3)
      }} }};
      %scan
    }}""", [weights(3, 64, 64) / 8, weights(3).astype("int64"), weights(2).astype("int64")])
    assert check(unroll_scans.run, graph) == 1


def test_sizes_that_are_known_at_run_time_stay_the_same() -> None:
    text = frames(3).replace("Tensor[(1, 2, 5, 5)", "Tensor[(n, 2, 5, 5)").replace("(3, 1, 2, 5, 5)", "(3, n, 2, 5, 5)")
    graph = parse(text, [weights(2, 2, 3, 3)])
    assert check(unroll_scans.run, graph, symbols={"n": 2}) == 1
    assert {str(node.result.shape[0]) for node in graph.select("nn.conv2d")} == {"n"}
