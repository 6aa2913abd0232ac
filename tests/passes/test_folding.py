"""fold_batch_norm, fold_scale, fold_constants, decompose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.types import TensorType
from forge.passes import decompose, fold_batch_norm, fold_constants, fold_scale
from tests.passes.checks import check, parse, text_of, weights

NORM = [weights(4), weights(4, seed=1), weights(4, seed=2), weights(4, seed=3) ** 2]
NORM_TEXT = "meta[relay.Constant][1], meta[relay.Constant][2], meta[relay.Constant][3], meta[relay.Constant][4]"


def test_batch_norm_goes_into_a_convolution() -> None:
    graph = parse(f"""def @main(%x: Tensor[(n, 3, 8, 8), float32]) {{
      %0 = nn.conv2d(%x, meta[relay.Constant][0], padding=[1, 1]);
      %1 = nn.batch_norm(%0, {NORM_TEXT});
      nn.relu(%1)
    }}""", [weights(4, 3, 3, 3), *NORM])
    assert check(fold_batch_norm.run, graph, symbols={"n": 2}) == 1
    assert text_of(graph) == (
        "%0 = nn.conv2d(%x, meta[relay.Constant][0], padding=[1, 1]);\n"
        "%1 = nn.bias_add(%0, meta[relay.Constant][1]);\n"
        "nn.relu(%1)"
    )


def with_weighted(op: str, data: tuple[int, ...], weight: tuple[int, ...], **attributes: Any) -> Builder:
    builder = Builder()
    x = builder.input(TensorType(data, "float32"), "x")
    builder.call(op, x, builder.constant(weights(*weight)), **attributes)
    return builder


@pytest.mark.parametrize(
    ("op", "data", "weight", "attributes", "axis"),
    [
        ("nn.conv1d", (1, 2, 6), (4, 2, 3), {}, 1),
        ("nn.conv2d", (1, 5, 5, 4), (3, 3, 2, 4), {"data_layout": "NHWC", "kernel_layout": "HWIO", "groups": 2}, 3),
        ("nn.conv2d_transpose", (1, 6, 3, 3), (6, 2, 2, 2), {"groups": 2, "strides": (2, 2)}, 1),
        ("nn.conv3d_transpose", (1, 3, 2, 2, 2), (3, 4, 2, 2, 2), {}, 1),
        ("nn.dense", (3, 5), (4, 5), {}, 1),
        ("nn.dense", (2, 3, 5), (4, 5), {}, -1),
    ],
)
def test_batch_norm_goes_into_any_weights(
    op: str, data: tuple[int, ...], weight: tuple[int, ...], attributes: dict[str, Any], axis: int
) -> None:
    builder = with_weighted(op, data, weight, **attributes)
    y = builder.graph.nodes[-1].result
    biased = builder.call("nn.bias_add", y, builder.constant(weights(4, seed=9)), axis=axis)
    graph = builder.output(builder.call("nn.batch_norm", biased, *map(builder.constant, NORM), axis=axis))
    assert check(fold_batch_norm.run, graph) == 1
    assert [n.op for n in graph.nodes if n.op != "constant"] == [op, "nn.bias_add"]


def test_batch_norm_elsewhere_becomes_scale_and_shift() -> None:
    graph = parse(f"""def @main(%x: Tensor[(1, 4, 2, 2), float32]) {{
      nn.batch_norm(%x, {NORM_TEXT})
    }}""", [weights(1), *NORM])
    assert check(fold_batch_norm.run, graph) == 1
    assert text_of(graph) == "%0 = multiply(%x, meta[relay.Constant][0]);\nadd(%0, meta[relay.Constant][1])"


def test_a_shared_convolution_keeps_its_weights() -> None:
    builder = with_weighted("nn.conv2d", (1, 3, 4, 4), (4, 3, 1, 1))
    y = builder.graph.nodes[-1].result
    graph = builder.output(builder.call("nn.batch_norm", y, *map(builder.constant, NORM)), builder.call("nn.relu", y))
    assert check(fold_batch_norm.run, graph) == 1
    assert [n.op for n in graph.nodes if n.op != "constant"] == ["nn.conv2d", "multiply", "add", "nn.relu"]


def test_batch_norm_along_another_axis_stays_out_of_the_weights() -> None:
    builder = with_weighted("nn.conv2d", (1, 3, 4, 4), (4, 3, 1, 1))
    graph = builder.output(builder.call("nn.batch_norm", builder.graph.nodes[-1].result, *map(builder.constant, NORM), axis=2))
    assert check(fold_batch_norm.run, graph) == 1
    assert [n.op for n in graph.nodes if n.op != "constant"] == ["nn.conv2d", "multiply", "add"]


@pytest.mark.parametrize("op", ["multiply", "divide", "add", "subtract"])
@pytest.mark.parametrize("shape", [(), (4, 1, 1), (1, 4, 1, 1)])
def test_constant_arithmetic_goes_into_weights(op: str, shape: tuple[int, ...]) -> None:
    builder = with_weighted("nn.conv2d", (2, 3, 4, 4), (4, 3, 3, 3))
    biased = builder.call("add", builder.graph.nodes[-1].result, builder.constant(weights(4, 1, 1)))
    graph = builder.output(builder.call(op, biased, builder.constant(weights(*shape) + 3)))
    assert check(fold_scale.run, graph) == 1
    assert [n.op for n in graph.nodes if n.op != "constant"] == ["nn.conv2d", "nn.bias_add"]


def test_a_normalization_in_primitives_goes_into_weights() -> None:
    builder = with_weighted("nn.conv2d", (2, 3, 4, 4), (4, 3, 3, 3))
    centred = builder.call("subtract", builder.graph.nodes[-1].result, builder.constant(weights(4, 1, 1)))
    scaled = builder.call("multiply", centred, builder.constant(weights(4, 1, 1, seed=1)))
    graph = builder.output(builder.call("add", scaled, builder.constant(weights(4, 1, 1, seed=2))))
    assert check(fold_scale.run, graph) == 2
    assert [n.op for n in graph.nodes if n.op != "constant"] == ["nn.conv2d", "nn.bias_add"]


def test_factors_across_channels_stay() -> None:
    builder = with_weighted("nn.conv2d", (2, 3, 4, 4), (4, 3, 1, 1))
    graph = builder.output(builder.call("multiply", builder.graph.nodes[-1].result, builder.constant(weights(4))))
    assert check(fold_scale.run, graph) == 0


def test_a_first_bias_and_division_by_zero_stay() -> None:
    builder = with_weighted("nn.dense", (2, 3), (4, 3))
    y = builder.graph.nodes[-1].result
    graph = builder.output(builder.call("add", y, builder.constant(weights(4))))
    assert check(fold_scale.run, graph) == 0
    builder = with_weighted("nn.dense", (2, 3), (4, 3))
    graph = builder.output(builder.call("divide", builder.graph.nodes[-1].result, builder.constant(np.float32(0))))
    assert check(fold_scale.run, graph) == 0


def test_constants_are_evaluated() -> None:
    graph = parse("""def @main(%x: Tensor[(3), float32]) {
      %0 = multiply(2f, 3f);
      %1 = negative(%0);
      add(%x, %1)
    }""")
    assert check(fold_constants.run, graph) == 2
    assert text_of(graph) == "add(%x, -6f)"


def test_shapes_of_static_tensors_are_constants() -> None:
    graph = parse("""def @main(%x: Tensor[(2, n), float32], %y: Tensor[(2, 3), float32]) {
      %0 = shape_of(%x);
      %1 = shape_of(%y);
      add(%0, %1)
    }""")
    assert check(fold_constants.run, graph, symbols={"n": 4}) == 1
    assert [n.op for n in graph.nodes] == ["shape_of", "constant", "add"]


def test_large_results_are_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    def graph() -> Graph:
        return parse("def @main(%x: Tensor[(64), float32]) { %0 = broadcast_to(1f, shape=[64]); add(%x, %0) }")

    assert check(fold_constants.run, graph()) == 1
    monkeypatch.setattr(fold_constants, "MAX_BYTES", 128)
    assert check(fold_constants.run, graph()) == 0


def test_composite_operators_are_decomposed() -> None:
    graph = parse("""def @main(%x: Tensor[(n, 4, 2, 2), float32], %g: Tensor[(4), float32], %b: Tensor[(4), float32]) {
      nn.group_norm(%x, %g, %b, num_groups=2)
    }""")
    assert check(decompose.run, graph, symbols={"n": 2}) == 1
    assert not graph.select("nn.group_norm")
    assert graph.select("mean")


def test_weights_of_few_bits_are_unpacked_in_compiled_code_only() -> None:
    def graph() -> Graph:
        return parse("""def @main(%x: Tensor[(2, 8), float32]) {
          %0 = transpose(meta[relay.Constant][0], axes=[1, 0]);
          %1 = qnn.dequantize(%0, meta[relay.Constant][1], axis=1, block_size=4);
          nn.dense(%x, %1)
        }""", [np.arange(32, dtype=np.int8).reshape(8, 4), weights(4, 2)])

    loaded = graph()
    assert check(fold_constants.run_at_load, loaded) == 1
    assert text_of(loaded).startswith("%0 = qnn.dequantize(meta[relay.Constant][0]")
    compiled = graph()
    assert check(fold_constants.run, compiled) == 2
    assert "qnn.dequantize" not in text_of(compiled)
