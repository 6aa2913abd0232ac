"""widen_conv1d."""

from __future__ import annotations

from forge import dims
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.types import TensorType
from forge.passes import widen_conv1d
from tests.passes.checks import check, weights


def operators(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes if n.op != "constant"]


def test_neighbours_stay_images() -> None:
    b = Builder()
    x = b.input(TensorType((2, 3, 11), "float32"), "x")
    first = b.call("nn.conv1d", x, b.constant(weights(8, 3, 3)), padding=(1, 0), strides=(2,))
    inner = b.call("nn.gelu", b.call("nn.bias_add", first, b.constant(weights(8)), axis=1))
    second = b.call("nn.conv1d", inner, b.constant(weights(8, 2, 2)), padding=(1,), dilation=(2,), groups=4)
    graph = b.output(b.call("multiply", second, b.constant(2.0, "float32")))
    assert check(widen_conv1d.run, graph) == 5
    assert operators(graph) == ["expand_dims", "nn.conv2d", "nn.bias_add", "nn.gelu", "nn.conv2d", "multiply", "squeeze"]


def test_vectors_along_the_last_axis_follow() -> None:
    b = Builder()
    x = b.input(TensorType((1, 3, 5), "float32"), "x")
    y = b.call("nn.conv1d", x, b.constant(weights(5, 3, 1)))
    graph = b.output(b.call("add", y, b.constant(weights(5))))
    assert check(widen_conv1d.run, graph) == 2
    assert operators(graph) == ["expand_dims", "nn.conv2d", "expand_dims", "add", "squeeze"]


def test_symbolic_lengths() -> None:
    b = Builder()
    x = b.input(TensorType((1, 3, dims.symbol("length")), "float32"), "x")
    graph = b.output(b.call("nn.conv1d", x, b.constant(weights(8, 3, 3))))
    assert check(widen_conv1d.run, graph, symbols={"length": 5}) == 1


def test_transposed_ones() -> None:
    b = Builder()
    x = b.input(TensorType((1, 6, dims.symbol("length")), "float32"), "x")
    first = b.call("nn.conv1d_transpose", x, b.constant(weights(6, 4, 5)), strides=(3,), padding=(2, 1), output_padding=(1,),
                   dilation=(2,), groups=2)
    graph = b.output(b.call("nn.conv1d", b.call("nn.leaky_relu", first), b.constant(weights(3, 8, 3))))
    assert check(widen_conv1d.run, graph, symbols={"length": 5}) == 3
    assert operators(graph) == ["expand_dims", "nn.conv2d_transpose", "nn.leaky_relu", "nn.conv2d", "squeeze"]
