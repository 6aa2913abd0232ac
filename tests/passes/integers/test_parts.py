"""Quantized numbers of 16 bits times weights of 8 are summed as integers, which all targets give alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import forge
from forge import dtypes
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.edits.journal import recorded
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.passes import integers, pack_weights
from forge.passes.matching import operand
from tests.kernels.support import EVERY_TARGET
from tests.passes.checks import rewrite


@dataclass(frozen=True)
class Layer:
    """A product with a bias, of numbers of ``dtype`` around ``zero`` (None: one at run time), quantized to ``result``.

    ``convolution``: its kernel's shape and attributes; ``weight``: the least and the greatest.
    """

    dtype: str = "uint16"
    zero: int | None = 32768
    result: str = "uint16"
    shape: tuple[int, ...] = (5, 40)
    units: int = 20
    convolution: dict[str, Any] | None = None
    by: str = "nn.dense"
    weight: tuple[int, int] = (-128, 127)
    relu: bool = False
    parts: int = 1

    def graph(self) -> Graph:
        """Its scale makes the results fill about half of the range, rounded between steps as often as on them."""
        rng, b = np.random.default_rng(11), Builder()
        x = b.input(TensorType(self.shape, self.dtype), "x")
        zero = b.input(TensorType((), self.dtype), "zero") if self.zero is None else b.constant(np.asarray(self.zero, self.dtype))
        real = b.call("qnn.dequantize", x, b.constant(np.float32(2e-4)), zero)
        kernel = (self.convolution or {}).get("kernel", (self.units, self.shape[-1]))
        whole = rng.integers(self.weight[0], self.weight[1] + 1, kernel).astype(np.int8)
        swapped = self.by == "nn.matmul"
        scale = b.constant(rng.uniform(0.5, 1.0, kernel[0]).astype(np.float32) / 100)
        weight = b.call("qnn.dequantize", b.constant(whole.T if swapped else whole), scale, axis=int(swapped))
        attributes = {k: v for k, v in (self.convolution or {}).items() if k != "kernel"}
        y = b.call(self.by, real, weight, **attributes)
        bias = rng.standard_normal(kernel[0]).astype(np.float32)
        y = b.call("nn.bias_add", y, b.constant(bias)) if self.convolution else b.call("add", y, b.constant(bias))
        low, high = dtypes.integer_range(self.result)
        step = 12 * np.sqrt(np.prod(kernel[1:])) * 0.5 / (high - low)
        middle = b.constant(np.asarray(low + (high - low) // 3, self.result))
        y = b.call("nn.relu", y) if self.relu else y
        return b.output(b.call("qnn.quantize", y, b.constant(np.float32(step)), middle, out_dtype=self.result))

    def inputs(self, graph: Graph) -> list[np.ndarray]:
        rng = np.random.default_rng(12)
        low, high = dtypes.integer_range(self.dtype)
        x, *zero = graph.inputs
        return [rng.integers(low, high + 1, self.shape).astype(x.dtype), *(np.asarray(low + 30000, v.dtype) for v in zero)]


def conv(*kernel: int, **attributes: Any) -> dict[str, Any]:
    return {"by": f"nn.conv{len(kernel) - 2}d", "convolution": {"kernel": kernel, **attributes}}


LAYERS: dict[str, Layer] = {
    "uint16": Layer(),
    "int16": Layer("int16", 0, "int16"),
    "int16 with a zero point": Layer("int16", -1234, "int16"),
    "from 0 on": Layer(zero=0, relu=True),
    "to the greatest": Layer(zero=65535),
    "a zero point at run time": Layer(zero=None),
    "to 8 bits": Layer(result="uint8"),
    "a vector": Layer(shape=(40,)),
    "three axes and an odd depth": Layer("int16", 0, shape=(2, 3, 31)),
    "matmul": Layer(by="nn.matmul"),
    "a depth in two parts": Layer(shape=(3, 700), parts=2),
    "a depth in three odd parts": Layer("int16", 77, shape=(2, 2, 1001), by="nn.matmul", parts=3),
    "convolution": Layer(shape=(1, 20, 9, 8), **conv(24, 20, 3, 3, padding=(1, 1))),
    "few channels": Layer("int16", 5, shape=(2, 3, 9, 8), **conv(8, 3, 3, 3, padding=(1, 0), strides=(2, 1))),
    "1x1": Layer(zero=1, shape=(1, 32, 5, 6), **conv(17, 32, 1, 1)),
    "padding known at run time": Layer(zero=None, shape=(1, 16, 6, 6), **conv(16, 16, 3, 3, padding=(1, 1))),
    "channels in parts": Layer(shape=(1, 72, 5, 5), parts=2, **conv(16, 72, 3, 3, padding=(1, 1), dilation=(2, 1))),
    "groups": Layer(shape=(1, 32, 5, 5), **conv(32, 16, 3, 3, groups=2)),
    "a depth in many parts": Layer("int16", 77, shape=(2, 7000), parts=15),
    "sounds": Layer("int16", 9, shape=(2, 20, 15), **conv(16, 20, 5, padding=(2,))),
}


@EVERY_TARGET
@pytest.mark.parametrize("name", LAYERS)
def test_the_same_integers_on_every_target(name: str, target: str) -> None:
    """Within one step of what the operators say, and nearly always the same."""
    layer = LAYERS[name]
    graph = layer.graph()
    arrays = layer.inputs(graph)
    (want,) = run_graph(graph, arrays)
    compiled = [np.asarray(compile_module(Module(graph), check_options(target)).runtime(num_threads=threads)(*arrays))
                for threads in (1, 2)]
    rewrite(integers.run, graph)
    products = [node for node in graph.walk() if node.op in ("nn.dense", "nn.conv1d", "nn.conv2d")]
    types = [(operand(p).dtype, operand(p, 1).dtype, p.result.dtype) for p in products]
    assert types == [("int16", "int8", "int32")] * layer.parts
    (exact,) = run_graph(graph, arrays)
    for got in compiled:
        np.testing.assert_array_equal(got, exact)
    assert np.abs(exact.astype(int) - want).max() <= 1
    assert np.mean(exact == want) > 0.95
    assert len(np.unique(exact)) > min(exact.size // 4, 100)


@EVERY_TARGET
@pytest.mark.parametrize(("depth", "parts"), [(128, 1), (132, 2), (768, 6)])
def test_the_greatest_sums_fit(depth: int, parts: int, target: str) -> None:
    """As they are with a scale of 1: whole numbers that float32 holds."""
    b = Builder()
    one = b.constant(np.float32(1))
    x = b.call("qnn.dequantize", b.input(TensorType((2, depth), "uint16"), "x"), one, b.constant(np.uint16(0)))
    w = b.call("qnn.dequantize", b.constant(np.full((3, depth), -128, np.int8)), one)
    graph = b.output(b.call("nn.dense", x, w))
    data = np.array([[65535], [1]], np.uint16) * np.ones((1, depth), np.uint16)
    want = data.astype(np.int64) @ np.full((depth, 3), -128)
    got = np.asarray(compile_module(Module(graph), check_options(target)).runtime()(data))
    np.testing.assert_array_equal(got, want.astype(np.float32))
    rewrite(integers.run, graph)
    assert sum(node.op == "nn.dense" for node in graph.walk()) == parts


TRANSPOSED = "nn.conv2d_transpose"
DECLINED: dict[str, tuple[Layer, str]] = {
    "depthwise": (Layer(shape=(1, 8, 5, 5), **conv(8, 1, 3, 3, groups=8)), "float32 does not hold the sums"),
    "Winograd's algorithm": (Layer(shape=(1, 16, 22, 22), **conv(16, 16, 3, 3)), "float32 takes fewer products"),
    "a great depth": (Layer(shape=(2, 9000)), "sums of 9000 products of 16 bits do not fit into 16 of 32 bits"),
    "groups in parts": (Layer(shape=(1, 160, 4, 4), **conv(32, 80, 3, 3, groups=2)), "do not fit into 1 of 32 bits"),
    "transposed": (Layer(shape=(1, 8, 5, 5), by=TRANSPOSED, convolution={"kernel": (8, 8, 3, 3)}), "is not 0, of uint8"),
}


@pytest.mark.parametrize(("layer", "reason"), DECLINED.values(), ids=DECLINED)
def test_declined(layer: Layer, reason: str) -> None:
    graph = layer.graph()
    with recorded() as journal:
        rewrite(integers.run, graph)
    assert reason in "; ".join(a.reason for a in journal.attempts)
    assert graph.find(layer.by).result.dtype == "float32"


@pytest.mark.parametrize("options", [{"winograd": False}, {"exact": True}, {"opt_level": 2}], ids=str)
def test_what_winograd_would_take(options: dict[str, Any]) -> None:
    """Becomes integers where that does not run."""
    graph = DECLINED["Winograd's algorithm"][0].graph()
    assert integers.run(graph, check_options("llvm", **options))
    assert graph.find("nn.conv2d").result.dtype == "int32"


def test_weights_of_nine_bits_stay() -> None:
    b = Builder()
    x = b.call("qnn.dequantize", b.input(TensorType((3, 8), "int16"), "x"), b.constant(np.float32(0.5)))
    codes = np.arange(40, dtype=np.uint8).reshape(5, 8) * 6
    w: Value = b.call("qnn.dequantize", b.constant(codes), b.constant(np.float32(1)), b.constant(np.uint8(100)))
    ir = forge.IRModule(Module(b.output(b.call("nn.dense", x, w))))
    assert "the weight without its zero point does not fit into int8" in ir.explain(ir.main.find("nn.dense"))


@pytest.mark.parametrize("cpu", ["x86-64-v3", "cascadelake"])
def test_weights_are_packed_in_pairs(cpu: str) -> None:
    """Also where fours of bytes are multiplied at once."""
    graph = Layer("int16", 0).graph()
    rewrite(integers.run, graph)
    pack_weights.run(graph, check_options(f"llvm -mcpu={cpu}"))
    weight = operand(graph.find("nn.contrib_dense_pack"), 1)
    assert (weight.dtype, weight.shape[-1]) == ("int8", 2)
