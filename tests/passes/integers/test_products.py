"""Products of quantized numbers become sums of integers; what cannot be summed exactly stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from forge import dtypes
from forge.driver import Compilation, check_options, compile_module, run_stages
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.passes import integers, pack_weights
from forge.passes.matching import operand
from forge.target import Target
from tests.kernels.support import EVERY_TARGET, targets_here
from tests.passes.checks import check, random_input, rewrite

RNG = np.random.default_rng(5)
START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Every test draws the same numbers, whichever ran before: sums next to a tie may be rounded to either side."""
    RNG.bit_generator.state = START


def whole(dtype: str, *shape: int) -> np.ndarray:
    low, high = dtypes.integer_range(dtype)
    return RNG.integers(low, high + 1, shape).astype(dtype)


def dequantized(b: Builder, x: Value, scale: Any, zero: Any = None, axis: int = -1) -> Value:
    parameters = [None if p is None else b.constant(np.asarray(p)) for p in (scale, zero)]
    return b.call("qnn.dequantize", x, *parameters, axis=axis)


def quantized(data: str = "uint8", weight: str = "int8", *, by: str = "nn.dense", columns: bool = False, zero: int | None = 3,
              weight_zero: int | None = None, depth: int = 8, units: int = 5) -> Graph:
    """A product of quantized numbers, and a bias."""
    b = Builder()
    x = b.input(TensorType((3, depth), data), "x")
    real = dequantized(b, x, np.float32(0.02), None if zero is None else np.dtype(data).type(zero))
    swapped = by == "nn.matmul"
    scale = (RNG.random(units) / 50 + 0.001).astype(np.float32) if columns else np.float32(0.01)
    zeros = None if weight_zero is None else np.full(units if columns else (), weight_zero, weight)
    shape = (depth, units) if swapped else (units, depth)
    low = whole(weight, *shape) // 2 + (64 if weight == "uint8" else 0)
    w = dequantized(b, b.constant(low.astype(weight)), scale, zeros, 1 if swapped else 0)
    return b.output(b.call("nn.bias_add", b.call(by, real, w), b.constant(RNG.standard_normal(units).astype(np.float32))))


def centred(data: str = "uint8", weight: str = "int8", *, known: bool = True, rows: bool = False) -> Graph:
    """A product as MatMulInteger writes it."""
    b = Builder()
    x, w = b.input(TensorType((2, 3, 12), data), "x"), b.constant(whole(weight, 12, 7) // 2)
    shape = (3, 1) if rows else ()
    zero = b.constant(np.full(shape, 5, data)) if known else b.input(TensorType(shape, data), "zero")
    a = b.call("subtract", b.call("cast", x, dtype="int32"), b.call("cast", zero, dtype="int32"))
    return b.output(b.call("nn.matmul", a, b.call("cast", w, dtype="int32")))


QUANTIZED: dict[str, dict[str, Any]] = {
    "uint8": {}, "int8": {"data": "int8"}, "no zero point": {"zero": None},
    "int8 without zero point": {"data": "int8", "zero": None},
    "matmul": {"by": "nn.matmul"}, "columns": {"columns": True}, "columns of matmul": {"by": "nn.matmul", "columns": True},
    "weights of uint8": {"weight": "uint8", "weight_zero": 128, "columns": True},
    "a depth of seven": {"depth": 7, "data": "int8"},
    "a depth of five, of matmul": {"depth": 5, "by": "nn.matmul", "weight": "uint8", "weight_zero": 0},
    "weights from 0 on": {"weight": "uint8", "weight_zero": 0},
    "columns of weights from 0 on": {"data": "int8", "weight": "uint8", "weight_zero": 3, "columns": True, "by": "nn.matmul"},
}
INTEGERS: dict[str, dict[str, Any]] = {
    "uint8": {}, "int8": {"data": "int8"}, "known at run time": {"known": False}, "of rows": {"known": False, "rows": True},
    "int8 of rows": {"data": "int8", "known": False, "rows": True},
}


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_products_are_sums_of_integers(name: str) -> None:
    graph = quantized(**QUANTIZED[name])
    assert check(integers.run, graph) == 1
    (product,) = [node for node in graph.nodes if node.op in ("nn.dense", "nn.matmul")]
    assert [v.dtype for v in product.operands if v is not None] == ["uint8", "int8"]
    assert product.result.dtype == "int32"


@EVERY_TARGET
@pytest.mark.parametrize("name", INTEGERS)
def test_products_of_integers_are_exact(name: str, target: str) -> None:
    graph = centred(**INTEGERS[name])
    inputs = [random_input(v.shape, v.dtype, {}, k) for k, v in enumerate(graph.inputs)]
    (expected,) = run_graph(graph, inputs)
    assert rewrite(integers.run, graph) == 1
    np.testing.assert_array_equal(run_graph(graph, inputs)[0], expected)
    assert "nn.dense" in [node.op for node in graph.nodes]
    got = compile_module(Module(graph), check_options(target)).runtime()(*inputs)
    np.testing.assert_array_equal(np.asarray(got), expected)


@EVERY_TARGET
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("signs", [("uint8", "uint8"), ("int8", "int8"), ("int8", "uint8"), ("uint8", "int8")], ids="-".join)
@pytest.mark.parametrize("by", ["nn.dense", "nn.matmul", "nn.batch_matmul", "nn.conv2d"])
def test_bytes_of_all_signs_are_multiplied_as_they_are(by: str, signs: tuple[str, str], known: bool, target: str) -> None:
    """A product that a graph asks of bytes themselves, not of casts, becomes one of uint8 and int8."""
    b, image = Builder(), by == "nn.conv2d"
    x = b.input(TensorType((2, 8, 6, 7) if image else (3, 5, 12) if by == "nn.batch_matmul" else (5, 12), signs[0]), "x")
    shape = (16, 8, 3, 3) if image else (3, 12, 16) if by == "nn.batch_matmul" else (16, 12) if by == "nn.dense" else (12, 16)
    known = known and by != "nn.batch_matmul"
    w = b.constant(whole(signs[1], *shape)) if known else b.input(TensorType(shape, signs[1]), "w")
    graph = b.output(b.call(by, x, w, out_dtype="int32", **({"padding": (1, 1)} if image else {})))
    inputs = [whole(v.dtype, *(int(d) for d in v.shape)) for v in graph.inputs]
    (expected,) = run_graph(graph, inputs)
    np.testing.assert_array_equal(np.asarray(compile_module(Module(graph), check_options(target)).runtime()(*inputs)), expected)
    replaced = signs != ("uint8", "int8") and (known or not image)
    assert rewrite(integers.run, graph) == replaced
    np.testing.assert_array_equal(run_graph(graph, inputs)[0], expected)
    products = [n for n in graph.walk() if n.op in (by, "nn.dense", "nn.matmul")]
    assert not replaced or all((operand(n).dtype, operand(n, 1).dtype) == ("uint8", "int8") for n in products)


def convolution(known: bool, groups: int) -> Graph:
    """As ConvInteger writes it, of a weight of uint8 with a zero point for each channel, some at its ends."""
    b = Builder()
    x = b.input(TensorType((2, 8, 6, 7), "uint8"), "x")
    zero = b.constant(np.uint8(200)) if known else b.input(TensorType((), "uint8"), "zero")
    shape = (8, 8 // groups, 3, 3)
    zeros = np.array([0, 255, 128, 100, 3, 128, 250, 90], np.int32).reshape(-1, 1, 1, 1)
    wide = [b.call("cast", v, dtype="int32") for v in (x, zero, b.constant(whole("uint8", *shape)))]
    weight = b.call("subtract", wide[2], b.constant(zeros))
    return b.output(b.call("nn.conv2d", b.call("subtract", wide[0], wide[1]), weight, padding=(1, 1), groups=groups,
                           channels=8 if known else None))


@EVERY_TARGET
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("groups", [1, 8])
def test_convolutions_by_weights_of_nine_bits_are_exact(groups: int, known: bool, target: str) -> None:
    """Their zero points are what the sums of the data are multiplied with."""
    graph = convolution(known, groups)
    inputs = [whole(v.dtype, *(int(d) for d in v.shape)) for v in graph.inputs]
    (expected,) = run_graph(graph, inputs)
    got = compile_module(Module(graph), check_options(target)).runtime()(*inputs)
    np.testing.assert_array_equal(np.asarray(got), expected)
    rewrite(integers.run, graph)
    np.testing.assert_array_equal(run_graph(graph, inputs)[0], expected)
    (weight, *_) = [operand(n, 1) for n in graph.walk() if n.op == "nn.conv2d"]
    assert weight.dtype == ("int8" if groups == 1 else "float32")


@EVERY_TARGET
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("spatial", "attributes"), [
    ((6, 7), {"padding": (1, 1)}), ((9, 14), {"padding": (2, 1, 0, 3), "strides": (2, 1)}), ((7, 12), {"dilation": (2, 3)}),
    ((40,), {"padding": (1, 2), "strides": (2,)}),
])
def test_depthwise_convolutions_sum_bytes(spatial: tuple[int, ...], attributes: dict[str, Any], known: bool, target: str) -> None:
    """The same integers on every target and number of threads; padding is what stands for zero."""
    b = Builder()
    x = b.input(TensorType((2, 20, *spatial), "int8"), "x")
    zero = b.constant(np.int8(-77)) if known else b.input(TensorType((), "int8"), "zero")
    weight = b.constant(whole("int8", 20, 1, *(3,) * len(spatial)))
    wide = [b.call("cast", v, dtype="int32") for v in (x, zero, weight)]
    data = b.call("subtract", wide[0], wide[1])
    graph = b.output(b.call(f"nn.conv{len(spatial)}d", data, wide[2], groups=20, **attributes))
    inputs = [whole(v.dtype, *(int(d) for d in v.shape)) for v in graph.inputs]
    (expected,) = run_graph(graph, inputs)
    for threads in (1, 2):
        got = compile_module(Module(graph), check_options(target)).runtime(num_threads=threads)(*inputs)
        np.testing.assert_array_equal(np.asarray(got), expected)
    rewrite(integers.run, graph)
    np.testing.assert_array_equal(run_graph(graph, inputs)[0], expected)
    (made,) = [n for n in graph.walk() if n.op.startswith("nn.conv")]
    assert [v.dtype for v in made.operands if v is not None] == ["uint8", "int8"]


def grouped() -> Graph:
    b = Builder()
    x = dequantized(b, b.input(TensorType((1, 32, 5, 5), "uint8"), "x"), np.float32(0.02), np.uint8(3))
    weight = dequantized(b, b.constant(whole("uint8", 32, 16, 1, 1)), np.float32(0.01), np.uint8(0))
    return b.output(b.call("nn.conv2d", x, weight, groups=2))


def test_zero_points_that_are_cast_are_known() -> None:
    """As importers leave those of many channels."""
    b = Builder()
    x = b.input(TensorType((1, 8, 5, 5), "uint8"), "x")
    codes, zeros = (b.constant(whole("int8", *shape) // 2) for shape in ((6, 8, 1, 1), (6, 1, 1, 1)))
    data, weight, zero = (b.call("cast", v, dtype="int32") for v in (x, codes, zeros))
    graph = b.output(b.call("nn.conv2d", data, b.call("subtract", weight, zero)))
    assert check(integers.run, graph) == 1
    assert [operand(node).dtype for node in graph.nodes if node.op == "nn.conv2d"] == ["uint8"]


def test_grouped_convolutions_by_weights_of_nine_bits_stay() -> None:
    ir = forge.IRModule(Module(grouped()))
    assert "the weight without its zero point does not fit into int8" in ir.explain(ir.main.find("nn.conv2d"))


@pytest.mark.parametrize(("arguments", "reason"), [({"depth": 32897}, "the depth is 32897")], ids=str)
def test_what_stays(arguments: dict[str, Any], reason: str) -> None:
    graph = quantized(**arguments)
    ir = forge.IRModule(Module(graph))
    assert reason in ir.explain(next(n for n in ir.main.nodes if n.op == "nn.dense"))
    assert rewrite(integers.run, graph) == 0


def test_scales_along_the_depth_stay() -> None:
    b = Builder()
    x = b.input(TensorType((3, 8), "uint8"), "x")
    w = dequantized(b, b.constant(whole("int8", 8, 8)), (RNG.random(8) + 1).astype(np.float32), axis=1)
    assert rewrite(integers.run, b.output(b.call("nn.dense", dequantized(b, x, np.float32(1)), w))) == 0


@pytest.mark.parametrize("shape", [(8,), (3, 8)])
def test_zero_points_along_the_depth_stay(shape: tuple[int, ...]) -> None:
    b = Builder()
    x = b.call("cast", b.input(TensorType((3, 8), "uint8"), "x"), dtype="int32")
    w = b.call("cast", b.constant(whole("int8", 8, 8)), dtype="int32")
    zeros = b.constant(RNG.integers(0, 9, shape).astype(np.int32))
    assert rewrite(integers.run, b.output(b.call("nn.matmul", b.call("subtract", x, zeros), w))) == 0


ACTIVATIONS: dict[str, dict[str, Any]] = {
    "uint8": {}, "int8": {"a": ("int8", -5), "b": ("int8", 3)}, "symmetric": {"a": ("int8", 0), "b": ("int8", 0)},
    "mixed": {"a": ("int8", None), "b": ("uint8", 200)}, "no zero points": {"a": ("uint8", None), "b": ("int8", None)},
    "an odd depth": {"depth": 7}, "transposed": {"transpose_b": True},
    "both transposed": {"transpose_a": True, "transpose_b": True},
    "of rank 3": {"by": "nn.batch_matmul", "transpose_b": True, "depth": 10}, "dense": {"by": "nn.dense", "transpose_b": True},
    "one row": {"rows": 1}, "as MatMulInteger writes it": {"real": False},
    "its zero points at run time": {"real": False, "known": False},
}


def of_activations(*, a: tuple[str, int | None] = ("uint8", 3), b: tuple[str, int | None] = ("uint8", 130), by: str = "nn.matmul",
                   rows: int = 5, depth: int = 8, columns: int = 9, transpose_a: bool = False, transpose_b: bool = False,
                   real: bool = True, known: bool = True) -> Graph:
    """A product of two inputs, and what quantizes it."""
    builder = Builder()
    lead = {"nn.matmul": (2, 1), "nn.batch_matmul": (2,)}.get(by, ())
    shapes = (depth, rows) if transpose_a else (rows, depth), (columns, depth) if transpose_b else (depth, columns)
    factors = []
    for name, (dtype, zero), shape, more in (("a", a, shapes[0], lead), ("b", b, shapes[1], lead)):
        x = builder.input(TensorType((*more, *shape), dtype), name)
        if real:
            factors.append(dequantized(builder, x, np.float32(0.02), None if zero is None else np.dtype(dtype).type(zero)))
            continue
        point = builder.constant(np.asarray(zero, dtype)) if known else builder.input(TensorType((), dtype), f"{name}_zero")
        factors.append(builder.call("subtract", *(builder.call("cast", v, dtype="int32") for v in (x, point))))
    flags = {} if by == "nn.dense" else {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return builder.output(builder.call(by, *factors, **flags))


@EVERY_TARGET
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_products_of_activations(name: str, target: str) -> None:
    """They are summed as integers, exactly, on every target."""
    graph = of_activations(**ACTIVATIONS[name])
    inputs = [whole(v.dtype, *v.shape) for v in graph.inputs]
    (want,) = run_graph(graph, inputs)
    assert check(integers.run, graph) == 1
    got = np.asarray(compile_module(Module(of_activations(**ACTIVATIONS[name])), check_options(target)).runtime()(*inputs))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 * np.abs(want).max() if want.dtype == np.float32 else 0)


@pytest.mark.parametrize(("options", "reason"), [
    ({"depth": 70000}, "the depth is 70000; expected a number of at most"),
    ({"depth": "k"}, "the depth is k; expected a number of at most"),
])
def test_products_of_activations_that_stay(options: dict[str, Any], reason: str) -> None:
    text = f"""def @main(%a: Tensor[(2, {options['depth']}), uint8], %b: Tensor[({options['depth']}, 3), uint8]) {{
        nn.matmul(qnn.dequantize(%a, 0.1f), qnn.dequantize(%b, 0.1f))
    }}"""
    ir = forge.IRModule(text)
    assert reason in ir.explain(ir.main.find("nn.matmul"))


@EVERY_TARGET
@pytest.mark.parametrize("name", QUANTIZED)
def test_compiled(name: str, target: str) -> None:
    """On every target, whatever the thread count."""
    module = Module(quantized(**QUANTIZED[name]))
    x = whole(module.main.inputs[0].dtype, 3, module.main.inputs[0].shape[1])
    (want,) = run_graph(module.main, [x])
    for threads in (1, 2):
        got = compile_module(module, check_options(target)).runtime(num_threads=threads)(x)
        np.testing.assert_allclose(np.asarray(got), want, rtol=0, atol=1e-6 * np.abs(want).max())


def test_integers_are_equal_on_all_targets() -> None:
    """Also where a convolution takes Winograd's algorithm, and a dense layer pairs for fours."""
    b = Builder()
    x = b.input(TensorType((2, 32, 15, 16), "uint8"), "x")
    kernels = [dequantized(b, b.constant(whole("int8", 32, 32, size, size)), np.float32(0.01)) for size in (3, 1)]
    real = dequantized(b, x, np.float32(0.02), np.uint8(3))
    for kernel, padding in zip(kernels, (1, 0)):
        real = b.call("nn.relu", b.call("nn.conv2d", real, kernel, padding=(padding, padding)))
        step, zero = b.constant(np.asarray(np.float32(0.5))), b.constant(np.asarray(np.uint8(0)))
        real = b.call("qnn.dequantize", b.call("qnn.quantize", real, step, zero, out_dtype="uint8"), step, zero)
    weight = dequantized(b, b.constant(whole("int8", 20, 32)), np.float32(0.01))
    last = b.call("nn.dense", b.call("transpose", real, axes=(0, 2, 3, 1)), weight)
    module = Module(b.output(b.call("qnn.quantize", last, b.constant(np.asarray(np.float32(2))), None, out_dtype="int8")))
    data = whole("uint8", 2, 32, 15, 16)
    targets = [*targets_here(), *(["llvm -mcpu=skylake-avx512"] if Target.parse("llvm").has("avx512vnni") else [])]
    runtimes = [compile_module(module, check_options(t)).runtime(num_threads=n) for t in targets for n in (1, 2)]
    first, *others = (np.asarray(runtime(data)) for runtime in runtimes)
    assert len(np.unique(first)) > 50
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize(("cpu", "shape"), [
    ("x86-64-v3", (1, 6, 8, 2)), ("skylake-avx512", (1, 6, 16, 2)), ("alderlake", (1, 3, 8, 4)), ("cascadelake", (1, 3, 16, 4)),
])
def test_weights_are_packed_as_the_target_multiplies_bytes(cpu: str, shape: tuple[int, ...]) -> None:
    graph = centred()
    rewrite(integers.run, graph)
    pack_weights.run(graph, check_options(f"llvm -mcpu={cpu}"))
    (node,) = [n for n in graph.nodes if n.op == "nn.contrib_dense_pack"]
    weight = node.operands[1]
    assert weight is not None
    assert (weight.dtype, weight.shape) == ("int8", shape)


@pytest.mark.parametrize(("channels", "padding"), [(20, 0), (32, 1)])
def test_a_transposed_convolution_writes_bytes(channels: int, padding: int) -> None:
    """Its sums are quantized where they go to their places."""
    b = Builder()
    real = dequantized(b, b.input(TensorType((2, 8, 7, 6), "uint8"), "x"), np.float32(0.02), np.uint8(0))
    size = 2 + padding
    w = dequantized(b, b.constant(whole("int8", 8, channels, size, size)), np.float32(0.01))
    sums = b.call("nn.conv2d_transpose", real, w, strides=(2, 2), padding=(padding, padding), output_padding=(padding, padding))
    biased = b.call("nn.relu", b.call("nn.bias_add", sums, b.constant(RNG.standard_normal(channels).astype(np.float32))))
    step, zero = b.constant(np.asarray(np.float32(0.05))), b.constant(np.asarray(np.uint8(3)))
    coded = b.call("qnn.quantize", biased, step, zero, out_dtype="uint8")
    module = Module(b.output(b.call("nn.max_pool2d", coded, pool_size=(2, 2))))
    compilation = Compilation(module, check_options())
    run_stages(compilation, stop_after="fusion")
    (group,) = [g for g in compilation.functions[0].grouped.groups if g.anchor.op == "nn.contrib_subpixel_conv2d_NCHWc"]
    assert group.sink.result.dtype == "uint8"
    data = whole("uint8", 2, 8, 7, 6)
    (want,) = run_graph(module.main, [data])
    results = [np.asarray(compile_module(module, check_options(t)).runtime()(data)) for t in targets_here()]
    for got in results:
        np.testing.assert_array_equal(got, results[0])
        assert np.abs(got.astype(int) - want).max() <= 1


@pytest.mark.parametrize("channels", [20, 32])
@pytest.mark.parametrize("zeros", ["none", "several"])
@pytest.mark.parametrize("act", ["nn.relu", "clip at 1.5", "clip at 100"])
def test_depthwise_convolutions_of_data_with_scales_for_each_channel(channels: int, zeros: str, act: str) -> None:
    """As NNCF quantizes them: what it reads and what it gives."""
    def parameters() -> list[np.ndarray]:
        points = RNG.integers(0, 200, channels) if zeros == "several" else np.zeros(channels)
        return [(RNG.random(channels) / 50 + 0.004).astype(np.float32), points.astype(np.uint8)]

    b = Builder()
    real = dequantized(b, b.input(TensorType((2, channels, 7, 6), "uint8"), "x"), *parameters(), axis=1)
    weight = dequantized(b, b.constant(whole("int8", channels, 1, 3, 3)), RNG.random(channels).astype(np.float32) / 100, axis=0)
    sums = b.call("nn.conv2d", real, weight, padding=(1, 1), groups=channels)
    biased = b.call("nn.bias_add", sums, b.constant(RNG.standard_normal(channels).astype(np.float32)))
    bounded = b.call(act, biased) if act == "nn.relu" else b.call("clip", biased, a_min=0.0, a_max=float(act.split()[-1]))
    scale, points = (b.constant(p) for p in parameters())
    graph = b.output(b.call("qnn.quantize", bounded, scale, points, axis=1, out_dtype="uint8"))
    data = whole("uint8", 2, channels, 7, 6)
    (want,) = run_graph(graph, [data])
    results = [np.asarray(compile_module(Module(graph), check_options(t)).runtime()(data)) for t in targets_here()]
    for got in results:
        np.testing.assert_array_equal(got, results[0])
        assert np.abs(got.astype(int) - want).max() <= 1
    exact = compile_module(Module(graph), check_options(exact=True)).runtime()(data)
    np.testing.assert_array_equal(np.asarray(exact), want)
    rewrite(integers.run, graph)
    assert not graph.select("qnn.quantize") and not graph.select("qnn.dequantize")
