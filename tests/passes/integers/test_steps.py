"""Between products of quantized numbers everything stays integers, and all targets give the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.passes import integers, to_unsigned
from forge.passes.matching import operand
from tests.kernels.support import EVERY_TARGET, targets_here

OPTIONS = check_options("llvm")


class Net:
    """A quantized network of images, as QDQ models are: every tensor is quantized and dequantized again."""

    def __init__(self, dtype: str, shape: tuple[int, ...] = (1, 3, 11, 11), seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        self.shift = 0 if dtype == "uint8" else -128
        self.b = Builder()
        self.x = self.b.input(TensorType(shape, "float32"), "x")

    def dequantize(self, x: Value, scale: Any, zero: int | None = None, axis: int = -1) -> Value:
        parameters = [self.b.constant(np.asarray(scale, np.float32))]
        if zero is not None:
            parameters.append(self.b.constant(np.asarray(zero, x.dtype)))
        return self.b.call("qnn.dequantize", x, *parameters, axis=axis)

    def quantize(self, x: Value, scale: float, zero: int = 0) -> Value:
        """Integers; ``zero`` counts from the least number."""
        parameters = np.float32(scale), np.asarray(zero + self.shift, self.dtype)
        return self.b.call("qnn.quantize", x, *map(self.b.constant, parameters), out_dtype=self.dtype)

    def fake(self, x: Value, scale: float, zero: int = 0) -> Value:
        """Quantized and dequantized."""
        return self.dequantize(self.quantize(x, scale, zero), scale, zero + self.shift)

    def conv(self, x: Value, channels: int, kernel: int = 3, scale: float = 0.02, bias: str = "int32",
             **attributes: Any) -> Value:
        """A convolution with a weight of int8 and a bias; ``scale`` is that of ``x``."""
        groups = attributes.get("groups", 1)
        spatial = x.rank - 2
        weight = self.rng.integers(-127, 128, (channels, x.shape[1] // groups, *(kernel,) * spatial)).astype(np.int8)
        scales = (self.rng.random(channels) / 500 + 0.001).astype(np.float32)
        attributes.setdefault("padding", (kernel // 2,) * spatial)
        y = self.b.call(f"nn.conv{spatial}d", x, self.dequantize(self.b.constant(weight), scales, axis=0), **attributes)
        if bias == "int32":
            whole = self.b.constant(self.rng.integers(-3000, 3000, channels).astype(np.int32))
            own = self.dequantize(whole, scales * np.float32(scale), axis=0)
        else:
            own = self.b.constant(self.rng.standard_normal(channels).astype(np.float32))
        return self.b.call("nn.bias_add", y, own)

    def done(self, x: Value) -> Graph:
        return self.b.output(x)


def plain(net: Net, **attributes: Any) -> Graph:
    """Two convolutions, with ``nn.relu`` between them."""
    h = net.fake(net.b.call("nn.relu", net.conv(net.fake(net.x, 0.02, 7), 20, strides=(2, 2))), 0.05, 0)
    return net.done(net.quantize(net.conv(h, 24, scale=0.05, **attributes), 0.3, 100))


def residual(net: Net) -> Graph:
    h = net.fake(net.conv(net.fake(net.x, 0.02, 7), 16), 0.1, 90)
    total = net.b.call("add", net.conv(h, 16, kernel=1, scale=0.1), h)
    return net.done(net.quantize(net.b.call("nn.relu", total), 0.2, 3))


def two_sums(net: Net) -> Graph:
    """The first block of a ResNet's stage: both ways are convolutions."""
    h = net.fake(net.conv(net.fake(net.x, 0.02, 7), 16), 0.1, 90)
    ways = [net.fake(net.conv(h, 24, kernel=k, scale=0.1, strides=(2, 2)), 0.4, 80) for k in (3, 1)]
    return net.done(net.quantize(net.b.call("add", *ways), 0.5, 60))


def selections(net: Net) -> Graph:
    h = net.fake(net.conv(net.fake(net.x, 0.02, 7), 16), 0.1, 90)
    h = net.fake(net.b.call("nn.max_pool2d", h, pool_size=(3, 3), strides=(2, 2), padding=(1, 1)), 0.1, 90)
    parts = [net.fake(net.b.call("strided_slice", h, begin=(k,), end=(k + 8,), axes=(1,)), 0.1, 90) for k in (0, 8)]
    h = net.fake(net.b.call("concatenate", *parts[::-1], axis=1), 0.1, 90)
    h = net.fake(net.b.call("repeat", h, repeats=2, axis=2), 0.1, 90)
    h = net.fake(net.b.call("take", h, net.b.constant(np.array([3, 0, 1])), axis=3), 0.1, 90)
    return net.done(net.quantize(net.conv(h, 16, kernel=1, scale=0.1), 0.3, 90))


def joined(net: Net) -> Graph:
    """As the decoder of a U-Net: a transposed convolution of what is not negative, and a concatenation of other scales."""
    h = net.fake(net.b.call("nn.relu", net.conv(net.fake(net.x, 0.02, 7), 16)), 0.1, 0)
    weight = net.b.constant(net.rng.integers(-127, 128, (16, 8, 2, 2)).astype(np.int8))
    real = net.dequantize(weight, (net.rng.random(8) / 500 + 0.001).astype(np.float32), axis=1)
    up = net.fake(net.b.call("nn.conv2d_transpose", h, real, strides=(2, 2)), 0.2, 100)
    other = net.fake(net.conv(up, 8, scale=0.2), 0.3, 80)
    whole = net.fake(net.b.call("concatenate", up, other, axis=1), 0.25, 90)
    return net.done(net.quantize(net.conv(whole, 8, scale=0.25), 0.5, 90))


def activations(net: Net) -> Graph:
    """Each is a function of eight bits."""
    h = net.fake(net.conv(net.fake(net.x, 0.02, 7), 16), 0.1, 90)
    h = net.fake(net.b.call("multiply", h, net.fake(net.b.call("sigmoid", h), 1 / 255)), 0.08, 5)
    h = net.fake(net.conv(h, 40, kernel=1, scale=0.08), 0.1, 90)
    rows = net.b.call("reshape", net.b.call("nn.gelu", h), newshape=(40, -1))
    return net.done(net.quantize(net.b.call("transpose", rows, axes=(1, 0)), 0.06, 5))


def gates(net: Net) -> Graph:
    """Squeeze and excitation: channels are multiplied with a function of their averages, and depthwise convolutions before it."""
    h = net.fake(net.conv(net.fake(net.x, 0.02, 7), 20), 0.05, 120)
    h = net.fake(net.conv(h, 20, kernel=5, scale=0.05, groups=20, strides=(2, 2)), 0.1, 90)
    h = net.fake(net.b.call("nn.silu", h), 0.05, 9)
    mean = net.fake(net.b.call("nn.global_avg_pool2d", h), 0.02, 30)
    gate = net.fake(net.b.call("sigmoid", net.fake(net.conv(mean, 20, kernel=1, scale=0.02), 0.05, 128)), 1 / 255)
    return net.done(net.quantize(net.b.call("nn.relu", net.b.call("multiply", h, gate)), 0.01, 20))


def averages(net: Net) -> Graph:
    h = net.fake(net.conv(net.fake(net.x, 0.02, 7), 16), 0.1, 90)
    h = net.fake(net.b.call("nn.avg_pool2d", h, pool_size=(2, 2), strides=(2, 2)), 0.1, 90)
    return net.done(net.quantize(net.b.call("nn.global_avg_pool2d", h), 0.02, 30))


NETS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (plain, {}),
    "bias of floats": (plain, {"bias": "float32"}),
    "strides and dilation": (plain, {"strides": (2, 1), "dilation": (1, 2), "padding": (1, 2, 0, 3)}),
    "depthwise": (plain, {"groups": 20, "channels": 20}),
    "residual": (residual, {}),
    "two sums": (two_sums, {}),
    "selections": (selections, {}),
    "averages": (averages, {}),
    "joined": (joined, {}),
    "activations": (activations, {}),
    "gates": (gates, {}),
}


def made(name: str, dtype: str) -> tuple[Graph, np.ndarray]:
    build, arguments = NETS[name]
    net = Net(dtype)
    if name == "depthwise":
        h = net.fake(net.b.call("nn.relu", net.conv(net.fake(net.x, 0.02, 7), 20)), 0.05, 0)
        graph = net.done(net.quantize(net.conv(h, 20, scale=0.05, groups=20), 0.3, 100))
    else:
        graph = build(net, **arguments)
    return graph, net.rng.standard_normal(net.x.shape).astype(np.float32) * 2


def to_int(graph: Graph) -> None:
    to_unsigned.run(graph, OPTIONS)
    integers.run(graph, OPTIONS)


@EVERY_TARGET
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", NETS)
def test_the_same_integers_on_every_target(name: str, dtype: str, target: str) -> None:
    """Within one step of what the operators say, one by one."""
    graph, x = made(name, dtype)
    (want,) = run_graph(graph, [x])
    module = Module(graph)
    compiled = [np.asarray(compile_module(module, check_options(target)).runtime(num_threads=threads)(x))
                for threads in (1, 2)]
    to_int(graph)
    (exact,) = run_graph(graph, [x])
    for got in compiled:
        np.testing.assert_array_equal(got, exact)
    assert np.abs(exact.astype(int) - want).max() <= 1
    assert np.mean(exact == want) > 0.9
    assert len(np.unique(exact)) > 10


@pytest.mark.parametrize("name", ["depthwise", "residual", "averages"])
@pytest.mark.parametrize("narrow", ["bfloat16", "float16"])
def test_the_same_integers_beside_narrow_floats(name: str, narrow: str) -> None:
    graph, x = made(name, "uint8")
    module = Module(graph)
    want = compile_module(module, check_options("llvm")).runtime()(x)
    got = compile_module(module, check_options("llvm", **{narrow: True})).runtime()(x)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize("name", NETS)
def test_nothing_is_dequantized(name: str) -> None:
    graph, _ = made(name, "int8")
    to_int(graph)
    assert "qnn.dequantize" not in {node.op for node in graph.walk()}
    convolutions = [node for node in graph.walk() if node.op == "nn.conv2d"]
    assert all(operand(node).dtype == "uint8" for node in convolutions)


def test_sounds() -> None:
    """Along one axis."""
    net = Net("int8", (2, 4, 30))
    h = net.fake(net.conv(net.fake(net.x, 0.02, 7), 16, kernel=5), 0.1, 90)
    graph = net.done(net.quantize(net.conv(h, 8, kernel=3, scale=0.1), 0.3, 90))
    x = net.rng.standard_normal(net.x.shape).astype(np.float32) * 2
    module = Module(graph)
    got = [np.asarray(compile_module(module, check_options(target)).runtime()(x)) for target in targets_here()]
    to_int(graph)
    (exact,) = run_graph(graph, [x])
    for found in got:
        np.testing.assert_array_equal(found, exact)


def test_groups() -> None:
    """Wide ones become integers, narrow ones stay."""
    for channels, dtype in ((16, "int32"), (4, "float32")):
        net = Net("uint8", (1, 2 * channels, 6, 6))
        graph = net.done(net.quantize(net.conv(net.fake(net.x, 0.02, 7), 2 * channels, groups=2), 0.3, 90))
        x = net.rng.standard_normal(net.x.shape).astype(np.float32) * 2
        (want,) = run_graph(graph, [x])
        for target in targets_here():
            got = np.asarray(compile_module(Module(graph), check_options(target)).runtime()(x))
            assert np.abs(got.astype(int) - want).max() <= 1
        to_int(graph)
        (convolution,) = [node for node in graph.walk() if node.op == "nn.conv2d"]
        assert convolution.result.dtype == dtype


@EVERY_TARGET
@pytest.mark.parametrize("data", ["uint8", "int8"])
def test_a_zero_point_that_is_known_at_run_time(data: str, target: str) -> None:
    """As ConvInteger has it."""
    b = Builder()
    x, zero = b.input(TensorType((1, 5, 7, 7), data), "x"), b.input(TensorType((), data), "zero")
    rng = np.random.default_rng(3)
    weight = b.constant(rng.integers(-127, 128, (6, 5, 3, 3)).astype(np.int8))
    centred = b.call("subtract", b.call("cast", x, dtype="int32"), b.call("cast", zero, dtype="int32"))
    graph = b.output(b.call("nn.conv2d", centred, b.call("cast", weight, dtype="int32"), padding=(1, 1)))
    low = np.iinfo(data).min
    arrays = [rng.integers(low, low + 256, x.shape).astype(data), np.asarray(low + 99, data)]
    (want,) = run_graph(graph, arrays)
    np.testing.assert_array_equal(np.asarray(compile_module(Module(graph), check_options(target)).runtime()(*arrays)), want)
    to_int(graph)
    np.testing.assert_array_equal(run_graph(graph, arrays)[0], want)
    assert [operand(node).dtype for node in graph.walk() if node.op == "nn.conv2d"] == ["uint8"]


def test_bounds() -> None:
    """``clip`` becomes bounds of integers."""
    net = Net("uint8")
    h = net.b.call("clip", net.conv(net.fake(net.x, 0.02, 7), 16), a_min=0.0, a_max=6.0)
    graph = net.done(net.quantize(h, 6 / 255, 0))
    x = net.rng.standard_normal(net.x.shape).astype(np.float32) * 2
    (want,) = run_graph(graph, [x])
    to_int(graph)
    (got,) = run_graph(graph, [x])
    assert np.abs(got.astype(int) - want).max() <= 1
    assert "qnn.quantize" in {node.op for node in graph.walk()}  # that of the input
    (cast,) = [node for node in graph.walk() if node.op == "clip"]
    assert (cast.attrs.a_min, cast.attrs.a_max) == (0, 255)


def test_numbers_that_are_quantized_again_at_the_same_scale_stay() -> None:
    net = Net("uint8")
    first = net.quantize(net.x, 0.02, 7)
    graph = net.done(net.quantize(net.dequantize(first, 0.02, 7), 0.02, 7))
    to_int(graph)
    assert [node.op for node in graph.nodes if node.op.startswith("qnn")] == ["qnn.quantize"]


def test_other_scales_stay() -> None:
    """A vector of scales along the channels of an activation."""
    net = Net("uint8", (1, 4, 3, 3))
    whole = net.quantize(net.x, 0.02, 7)
    real = net.dequantize(whole, np.full(4, 0.02), None, axis=1)
    graph = net.done(net.b.call("nn.max_pool2d", real, pool_size=(2, 2)))
    to_int(graph)
    assert [node.op for node in graph.nodes if node.op.startswith(("qnn", "nn"))] == [
        "qnn.quantize", "qnn.dequantize", "nn.max_pool2d"]


@pytest.mark.parametrize("bounds", [(1.0, 6.0), (0.0, -1.0), (-9.0, -2.0), (float("-inf"), 3.0), (0.5, float("nan"))], ids=str)
def test_bounds_of_any_kind(bounds: tuple[float, float]) -> None:
    net = Net("uint8")
    h = net.b.call("nn.relu", net.b.call("clip", net.conv(net.fake(net.x, 0.02, 7), 16), a_min=bounds[0], a_max=bounds[1]))
    graph = net.done(net.quantize(h, 6 / 255, 40))
    x = net.rng.standard_normal(net.x.shape).astype(np.float32) * 2
    (want,) = run_graph(graph, [x])
    to_int(graph)
    assert np.abs(run_graph(graph, [x])[0].astype(int) - want).max() <= 1


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan"), 1e-40])
def test_scales_of_any_kind(scale: float) -> None:
    net = Net("uint8")
    graph = net.done(net.quantize(net.conv(net.fake(net.x, 0.02, 7), 16), scale, 40))
    with np.errstate(all="ignore"):
        (want,) = run_graph(graph, [np.ones(net.x.shape, np.float32)])
        to_int(graph)
        np.testing.assert_array_equal(run_graph(graph, [np.ones(net.x.shape, np.float32)])[0], want)


def test_rounding_of_another_kind_stays() -> None:
    """Numbers that a user clips to halves are not integers before they are cast."""
    b = Builder()
    x = b.input(TensorType((40,), "float32"), "x")
    bounded = b.call("clip", b.call("add", b.call("round", x), b.constant(np.float32(0.5))), a_min=0.0, a_max=200.25)
    whole = b.call("cast", bounded, dtype="uint8")
    other = b.input(TensorType((40,), "uint8"), "other")
    real = [b.call("qnn.dequantize", v, b.constant(np.float32(0.3))) for v in (whole, other)]
    graph = b.output(b.call("qnn.quantize", b.call("add", *real), b.constant(np.float32(0.4)), out_dtype="uint8"))
    arrays = [np.linspace(-9, 300, 40).astype(np.float32), np.arange(40).astype(np.uint8)]
    (want,) = run_graph(graph, arrays)
    to_int(graph)
    assert np.abs(run_graph(graph, arrays)[0].astype(int) - want).max() <= 1


def test_zero_points_that_no_byte_holds_stay() -> None:
    b = Builder()
    x = b.call("cast", b.input(TensorType((1, 2, 5, 5), "uint8"), "x"), dtype="int32")
    weight = b.call("cast", b.constant(np.ones((3, 2, 3, 3), np.int8)), dtype="int32")
    centred = b.call("subtract", x, b.constant(np.int32(1000)))
    graph = b.output(b.call("nn.conv2d", centred, weight, padding=(1, 1)))
    to_int(graph)
    assert [operand(node).dtype for node in graph.walk() if node.op == "nn.conv2d"] == ["int32"]


def test_an_output_that_is_its_input() -> None:
    b = Builder()
    x = b.input(TensorType((4,), "uint8"), "x")
    scale = b.constant(np.float32(0.5))
    graph = b.output(b.call("qnn.quantize", b.call("qnn.dequantize", x, scale), scale, out_dtype="uint8"))
    arrays = [np.arange(4).astype(np.uint8)]
    for target in targets_here():
        got = compile_module(Module(graph), check_options(target)).runtime()(*arrays)
        np.testing.assert_array_equal(np.asarray(got), arrays[0])


def test_scales_of_either_sign_stay_before_maxima() -> None:
    """A scale that is known at run time only may be negative, and the largest integer then the smallest number."""
    b = Builder()
    x, scale = b.input(TensorType((1, 1, 4, 4), "uint8"), "x"), b.input(TensorType((), "float32"), "scale")
    real = b.call("qnn.dequantize", x, scale)
    graph = b.output(b.call("nn.max_pool2d", real, pool_size=(2, 2)), b.call("reshape", real, newshape=(16,)))
    arrays = [np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4), np.float32(-0.5).reshape(())]
    want = run_graph(graph, arrays)
    to_int(graph)
    for got, expected in zip(run_graph(graph, arrays), want):
        np.testing.assert_array_equal(got, expected)


def of_all_pairs() -> tuple[Graph, list[np.ndarray]]:
    """A sum whose ties are decided by where it is rounded: three halves of all numbers of 8 bits."""
    b = Builder()
    x, y = (b.input(TensorType(shape, "uint8"), name) for name, shape in (("x", (256, 1)), ("y", (1, 256))))
    parts = [b.call("qnn.dequantize", v, b.constant(np.float32(0.3))) for v in (x, y)]
    graph = b.output(b.call("qnn.quantize", b.call("add", *parts), b.constant(np.float32(0.2)), out_dtype="uint16"))
    every = np.arange(256, dtype=np.uint8)
    return graph, [every.reshape(-1, 1), every.reshape(1, -1)]


def of_products() -> tuple[Graph, list[np.ndarray]]:
    """Sums that float32 computes exactly, and a bias that is not a multiple of their unit."""
    net = Net("uint8", (1, 12, 7, 7))
    weight = net.dequantize(net.b.constant(net.rng.integers(-127, 128, (8, 12, 3, 3)).astype(np.int8)), 2.0**-9)
    y = net.b.call("nn.conv2d", net.fake(net.x, 2.0**-5, 100), weight, padding=(1, 1))
    biased = net.b.call("nn.bias_add", y, net.b.constant(net.rng.standard_normal(8).astype(np.float32)))
    return net.done(net.quantize(net.b.call("nn.relu", biased), 0.02)), [net.rng.standard_normal(net.x.shape).astype(np.float32)]


@EVERY_TARGET
@pytest.mark.parametrize("made", [of_all_pairs, of_products])
def test_exact_rounds_where_the_model_does(made: Any, target: str) -> None:
    """To the integers that the operators give one by one, on every target; the default moves some."""
    graph, inputs = made()
    (want,) = run_graph(graph, inputs)
    module = Module(graph)
    got = compile_module(module, check_options(target, exact=True)).runtime()(*inputs)
    np.testing.assert_array_equal(np.asarray(got), want)
    moved = np.asarray(compile_module(module, OPTIONS).runtime()(*inputs)).astype(int)
    assert np.abs(moved - want).max() == 1


def test_what_moves_roundings_is_told() -> None:
    graph, _ = of_products()
    ir = forge.IRModule(Module(graph))
    last = ir.main.outputs[0].producer
    assert last is not None
    assert "quantize_a_sum: replaced it by" in ir.explain(last) and "its rounding moved" in ir.explain(last)
    with forge.PassContext(config={"exact": True}):
        assert "its rounding moved" not in ir.explain(last)


def test_rows_of_a_table_are_taken_as_integers() -> None:
    b = Builder()
    index = b.input(TensorType((2, 3), "int64"), "index")
    table = b.constant(np.arange(40, dtype=np.uint8).reshape(10, 4))
    real = b.call("qnn.dequantize", table, b.constant(np.float32(0.5)), b.constant(np.uint8(7)))
    graph = b.output(b.call("add", b.call("take", real, index, axis=0), b.constant(np.float32(1))))
    rows = np.array([[1, 9, -1], [0, 4, 30]])
    (want,) = run_graph(graph, [rows])
    to_int(graph)
    assert graph.find("take").operands[0].dtype == "uint8"
    np.testing.assert_array_equal(run_graph(graph, [rows])[0], want)
