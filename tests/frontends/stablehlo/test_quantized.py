"""Quantized types: integers that stand for numbers, and what is computed with them, as the specification says."""

from __future__ import annotations

import numpy as np
import pytest

import forge
from forge.driver import Compilation, check_options, run_stages
from forge.errors import ForgeError
from forge.frontends.stablehlo.loader import import_module
from forge.frontends.stablehlo.sources import read

RNG = np.random.default_rng(3)


def run(text: str, *inputs: np.ndarray) -> list[np.ndarray]:
    """The results of a function, the same as the reference and compiled."""
    module = forge.from_stablehlo(text)
    found = [module.get_inference_function(*how)(*inputs) for how in ((), ("reference",))]
    compiled, expected = (list(f) if isinstance(f, list | tuple) else [f] for f in found)
    for one, other in zip(compiled, expected, strict=True):
        np.testing.assert_allclose(one.astype(float), other.astype(float), atol=1 if one.dtype.kind in "iu" else 1e-6)
    return expected


def function(body: str, arguments: list[str], result: str) -> str:
    given = ", ".join(f"%{name}: {kind}" for name, kind in zip("abc", arguments))
    return f"func.func @main({given}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"


def quantized(numbers: np.ndarray, scale: object, zero: object, low: int, high: int) -> np.ndarray:
    """As the specification says, in float32."""
    moved = numbers.astype(np.float32) / np.float32(scale) + np.float32(zero)
    return np.nan_to_num(np.rint(np.clip(moved, low, high)), nan=0.0)


STORAGES = {"i8": ("int8", -128, 127), "u8": ("uint8", 0, 255), "i4": ("int4", -8, 7), "ui4": ("uint4", 0, 15),
            "i16": ("int16", -32768, 32767), "i8<-127:127>": ("int8", -127, 127), "u8<3:200>": ("uint8", 3, 200)}


@pytest.mark.parametrize("zero", [4, 5])
@pytest.mark.parametrize("storage", STORAGES)
def test_storage_types(storage: str, zero: int) -> None:
    """Ties are rounded after zero points are added: an odd one makes them the other way round."""
    _, low, high = STORAGES[storage]
    kind = f"tensor<9x!quant.uniform<{storage.replace('ui4', 'u4')}:f32, 0.5:{zero}>>"
    text = function(f"""%q = stablehlo.uniform_quantize %a : (tensor<9xf32>) -> {kind}
      %r = stablehlo.uniform_dequantize %q : ({kind}) -> tensor<9xf32>""", ["tensor<9xf32>"], "tensor<9xf32>")
    x = np.array([0, 0.25, 0.75, -0.25, 1.1, 1e6, -1e6, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(run(text, x)[0], (quantized(x, 0.5, zero, low, high) - zero) * np.float32(0.5))


def test_nan_is_the_integer_0() -> None:
    kind = "tensor<2x!quant.uniform<i8:f32, 0.5:10>>"
    text = function(f"%r = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> {kind}", ["tensor<2xf32>"], kind)
    assert run(text, np.array([np.nan, 1], np.float32))[0].tolist() == [0, 12]
    text = function(f"%r = stablehlo.sqrt %a : {kind}", [kind], kind)
    assert run(text, np.array([0, 42], np.int8))[0].tolist() == [0, 18]


def test_scales_along_an_axis() -> None:
    one, other = "!quant.uniform<i8:f32:1, {0.5:3, 0.25}>", "!quant.uniform<i8:f32:1, {2.0:-1, 1.0:7}>"
    text = function(f"""%q = stablehlo.uniform_quantize %a : (tensor<3x2xf32>) -> tensor<3x2x{one}>
      %r = stablehlo.uniform_quantize %q : (tensor<3x2x{one}>) -> tensor<3x2x{other}>""", ["tensor<3x2xf32>"],
      f"tensor<3x2x{other}>")
    x = RNG.uniform(-9, 9, (3, 2)).astype(np.float32)
    first = (quantized(x, [0.5, 0.25], [3, 0], -128, 127) - [3, 0]) * [0.5, 0.25]
    np.testing.assert_array_equal(run(text, x)[0], quantized(first, [2, 1], [-1, 7], -128, 127))


A, B, C = "!quant.uniform<i8:f32, 0.5:10>", "!quant.uniform<i8:f32, 0.25:-4>", "!quant.uniform<i8:f32, 1.5:3>"
INTEGERS = [RNG.integers(-128, 128, (3, 4)).astype(np.int8) for _ in range(2)]
NUMBERS = [(INTEGERS[0] - 10.0) * 0.5, (INTEGERS[1] + 4.0) * 0.25]
ELEMENTWISE = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "divide": np.divide,
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_operations_of_two(name: str) -> None:
    kinds = [f"tensor<3x4x{kind}>" for kind in (A, B, C)]
    text = function(f"%r = stablehlo.{name} %a, %b : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}", kinds[:2], kinds[2])
    with np.errstate(all="ignore"):
        expected = quantized(ELEMENTWISE[name](*(x.astype(np.float32) for x in NUMBERS)), 1.5, 3, -128, 127)
    np.testing.assert_array_equal(run(text, *INTEGERS)[0], expected)


def test_comparison_and_choice() -> None:
    kinds = [f"tensor<3x4x{kind}>" for kind in (A, B, C)]
    text = function(f"""%p = stablehlo.compare GT, %a, %b : ({kinds[0]}, {kinds[1]}) -> tensor<3x4xi1>
      %r = stablehlo.select %p, %a, %b : (tensor<3x4xi1>, {kinds[0]}, {kinds[1]}) -> {kinds[2]}""", kinds[:2], kinds[2])
    np.testing.assert_array_equal(run(text, *INTEGERS)[0], quantized(np.maximum(*NUMBERS), 1.5, 3, -128, 127))


def test_elements_that_are_moved_stay() -> None:
    one, other = f"tensor<3x4x{A}>", f"tensor<4x6x{A}>"
    text = function(f"""%z = stablehlo.constant dense<7> : tensor<{A}>
      %t = stablehlo.transpose %a, dims = [1, 0] : ({one}) -> tensor<4x3x{A}>
      %r = stablehlo.pad %t, %z, low = [0, 1], high = [0, 2], interior = [0, 0] : (tensor<4x3x{A}>, tensor<{A}>) -> {other}""",
      [one], other)
    expected = np.pad(INTEGERS[0].T, ((0, 0), (1, 2)), constant_values=7)
    np.testing.assert_array_equal(run(text, INTEGERS[0])[0], expected)


def test_bodies() -> None:
    """A body with a name works on numbers; any other converts by itself."""
    one, row, element = f"tensor<3x4x{A}>", f"tensor<3x{A}>", f"tensor<{A}>"
    text = function(f"""%z = stablehlo.constant dense<-128> : {element}
      %r = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [1] : ({one}, {element}) -> {row}""",
      [one], row)
    np.testing.assert_array_equal(run(text, INTEGERS[0])[0], INTEGERS[0].max(1))
    text = function(f"""%z = stablehlo.constant dense<-128> : {element}
      %r = "stablehlo.reduce"(%a, %z) <{{dimensions = array<i64: 1>}}> ({{
      ^bb0(%x: {element}, %y: {element}):
        %g = stablehlo.compare GE, %x, %y : ({element}, {element}) -> tensor<i1>
        %s = stablehlo.select %g, %x, %y : tensor<i1>, {element}
        stablehlo.return %s : {element}
      }}) : ({one}, {element}) -> {row}""", [one], row)
    np.testing.assert_array_equal(run(text, INTEGERS[0])[0], INTEGERS[0].max(1))
    text = function(f"""%r = "stablehlo.sort"(%a) <{{dimension = 1 : i64, is_stable = true}}> ({{
      ^bb0(%x: {element}, %y: {element}):
        %g = stablehlo.compare LT, %x, %y : ({element}, {element}) -> tensor<i1>
        stablehlo.return %g : tensor<i1>
      }}) : ({one}) -> {one}""", [one], one)
    np.testing.assert_array_equal(run(text, INTEGERS[0])[0], np.sort(INTEGERS[0], 1))


def product(weights: str, result: str) -> str:
    return function(f"""%w = stablehlo.constant dense<{WEIGHTS.tolist()}> : tensor<4x3x{weights}>
      %r = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] :
        (tensor<3x4x{A}>, tensor<4x3x{weights}>) -> tensor<3x3x{result}>""", [f"tensor<3x4x{A}>"], f"tensor<3x3x{result}>")


WEIGHTS = RNG.integers(-128, 128, (4, 3)).astype(np.int8)
COARSE, EXACT = "!quant.uniform<i8:f32, 24.0:4>", "!quant.uniform<i32:f32, 0.125>"
AXIS = "!quant.uniform<i8:f32:1, {0.25, 0.5, 1.0}>"


@pytest.mark.parametrize(("weights", "scale", "zero"), [(B, 0.25, -4), (AXIS, [0.25, 0.5, 1], 0)])
def test_products(weights: str, scale: object, zero: int) -> None:
    exact = NUMBERS[0] @ ((WEIGHTS - float(zero)) * scale)
    np.testing.assert_array_equal(run(product(weights, EXACT), INTEGERS[0])[0], exact / 0.125)
    np.testing.assert_array_equal(run(product(weights, COARSE), INTEGERS[0])[0], quantized(exact, 24, 4, -128, 127))


def test_products_of_numbers_by_quantized_weights() -> None:
    text = function(f"""%w = stablehlo.constant dense<{WEIGHTS.tolist()}> : tensor<4x3x{AXIS}>
      %r = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] :
        (tensor<3x4xf32>, tensor<4x3x{AXIS}>) -> tensor<3x3xf32>""", ["tensor<3x4xf32>"], "tensor<3x3xf32>")
    x = RNG.uniform(-1, 1, (3, 4)).astype(np.float32)
    np.testing.assert_allclose(run(text, x)[0], x @ (WEIGHTS * [0.25, 0.5, 1]), rtol=1e-5, atol=1e-4)


IMAGE, OUT = f"tensor<1x6x6x8x{A}>", "tensor<1x4x4x16x!quant.uniform<i8:f32, 512.0:4>>"
KERNEL = RNG.integers(-128, 128, (3, 3, 8, 16)).astype(np.int8)


def convolution(weights: str) -> str:
    kernel = f"tensor<3x3x8x16x{weights}>"
    return function(f"""%w = stablehlo.constant dense<{KERNEL.tolist()}> : {kernel}
      %r = stablehlo.convolution(%a, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({IMAGE}, {kernel}) -> {OUT}""", [IMAGE], OUT)


@pytest.mark.parametrize(("weights", "scales"), [
    ("!quant.uniform<i8:f32, 0.25>", 0.25),
    (f"!quant.uniform<i8:f32:3, {{{', '.join(['0.25', '0.5', '0.75', '1.0'] * 4)}}}>", np.tile([0.25, 0.5, 0.75, 1], 4)),
])
def test_convolutions(weights: str, scales: object) -> None:
    text = convolution(weights)
    x = RNG.integers(-128, 128, (1, 6, 6, 8)).astype(np.int8)
    windows = np.lib.stride_tricks.sliding_window_view((x - 10.0) * 0.5, (3, 3), axis=(1, 2))
    expected = np.einsum("bhwcij,ijco->bhwo", windows, KERNEL * (np.ones(16) * scales))
    np.testing.assert_array_equal(run(text, x)[0], quantized(expected, 512, 4, -128, 127))


@pytest.mark.parametrize("text", [
    product(B.replace(":-4", ""), COARSE), product(AXIS, COARSE), convolution("!quant.uniform<i8:f32, 0.25>")])
def test_products_are_those_of_integers(text: str) -> None:
    compilation = Compilation(import_module(read(text)), check_options())
    run_stages(compilation, stop_after="fusion")
    nodes = [node for group in compilation.functions[0].grouped.groups for node in group.nodes]
    products = [node for node in nodes if "dense" in node.op or "matmul" in node.op or "conv" in node.op]
    assert [v.dtype for v in products[0].operands[:2]] == ["uint8", "int8"]


@pytest.mark.parametrize("kind", ["i8<-1000:127>:f32, 0.5", "i8<5:-5>:f32, 0.5", "i8:f32, 0.5:300", "u8<3:200>:f32, 0.5:1"])
def test_integers_that_do_not_fit_are_refused(kind: str) -> None:
    kind = f"tensor<2x!quant.uniform<{kind}>>"
    with pytest.raises(ForgeError, match="got integers from"):
        forge.from_stablehlo(function(f"%r = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> {kind}", ["tensor<2xf32>"], kind))


@pytest.mark.parametrize("kind", ["f32:f32, 0.5", "i8:f32, 0.0", "i8:f32:7, {0.5, 0.5}", "i8:f32:0, {0.5}", "i8:i32, 0.5"])
def test_types_that_mean_nothing_are_refused(kind: str) -> None:
    kind, result = f"tensor<2x!quant.uniform<{kind}>>", "tensor<2xf32>"
    with pytest.raises(ForgeError, match="expected"):
        forge.from_stablehlo(function(f"%r = stablehlo.uniform_dequantize %a : ({kind}) -> {result}", [kind], result))
