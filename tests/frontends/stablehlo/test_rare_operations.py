"""Operations that few programs have: ragged products, scans, choices of windows by any body, sizes that are set, small floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import forge
from forge import dtypes
from forge.errors import ForgeError
from tests.frontends.stablehlo.test_quantized import function, run

RNG = np.random.default_rng(5)


def ragged(numbers: str, types: tuple[str, str, str], result: str) -> str:
    return function(f'''%r = "chlo.ragged_dot"(%a, %b, %c) {{ragged_dot_dimension_numbers = #chlo.ragged_dot<{numbers}>}} :
      ({", ".join(types)}) -> {result}''', list(types), result)


def in_rows(lhs: np.ndarray, rhs: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Rows of lhs by the matrix of their group; those after all groups give 0."""
    found, at = np.zeros((len(lhs), rhs.shape[-1]), np.float32), 0
    for matrix, size in zip(rhs, sizes):
        found[at : at + size] = lhs[at : at + size] @ matrix
        at += size
    return found


SIZES = np.array([2, 0, 3])


def test_ragged_rows() -> None:
    text = ragged(
        "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], "
        "rhs_group_dimensions = [0]",
        ("tensor<6x4xf32>", "tensor<3x4x5xf32>", "tensor<3xi64>"), "tensor<6x5xf32>")
    lhs, rhs = RNG.normal(size=(6, 4)).astype(np.float32), RNG.normal(size=(3, 4, 5)).astype(np.float32)
    np.testing.assert_allclose(run(text, lhs, rhs, SIZES)[0], in_rows(lhs, rhs, SIZES), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("each", [True, False])
def test_ragged_rows_of_batches(each: bool) -> None:
    text = ragged(
        "lhs_batching_dimensions = [1], rhs_batching_dimensions = [3], lhs_contracting_dimensions = [2], "
        "rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0], rhs_group_dimensions = [1]",
        ("tensor<6x2x4xf32>", "tensor<4x3x5x2xf32>", f"tensor<{'2x' if each else ''}3xi32>"), "tensor<2x6x5xf32>")
    lhs, rhs = RNG.normal(size=(6, 2, 4)).astype(np.float32), RNG.normal(size=(4, 3, 5, 2)).astype(np.float32)
    sizes = np.array([[2, 0, 3], [1, 4, 1]] if each else SIZES, np.int32)
    expected = [in_rows(lhs[:, k], np.moveaxis(rhs[..., k], 1, 0), sizes[k] if each else sizes) for k in range(2)]
    np.testing.assert_allclose(run(text, lhs, rhs, sizes)[0], np.stack(expected), rtol=1e-5, atol=1e-5)


def test_ragged_sums_and_batches() -> None:
    text = ragged(
        "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], "
        "rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [2], rhs_group_dimensions = []",
        ("tensor<2x4x6xf32>", "tensor<2x6x5xf32>", "tensor<3xi64>"), "tensor<3x2x4x5xf32>")
    lhs, rhs = RNG.normal(size=(2, 4, 6)).astype(np.float32), RNG.normal(size=(2, 6, 5)).astype(np.float32)
    expected = [lhs[..., a:b] @ rhs[:, a:b] for a, b in ((0, 2), (2, 2), (2, 5))]
    np.testing.assert_allclose(run(text, lhs, rhs, SIZES)[0], np.stack(expected), rtol=1e-5, atol=1e-5)
    text = text.replace("lhs_ragged_dimensions = [2]", "lhs_ragged_dimensions = [0]")
    text = text.replace("tensor<3x2x4x5xf32>", "tensor<2x4x5xf32>")
    np.testing.assert_allclose(run(text, lhs, rhs, SIZES)[0], lhs @ rhs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backwards", [False, True])
def test_scan(backwards: bool) -> None:
    text = function(f"""%r:3 = chlo.scan(%a) inits(%b) dimension=1 attributes {{is_reverse = {str(backwards).lower()}}} {{
      ^bb0(%x: tensor<2xf32>, %s: tensor<2xf32>):
        %t = stablehlo.add %x, %s : tensor<2xf32>
        %u = stablehlo.multiply %t, %x : tensor<2xf32>
        stablehlo.return %t, %u, %t : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
      }} : (tensor<2x4xf32>, tensor<2xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>)""",
      ["tensor<2x4xf32>", "tensor<2xf32>"], "tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>")
    results = "tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>"
    text = text.replace(f"-> {results} {{", f"-> ({results}) {{").replace("return %r :", "return %r#0, %r#1, %r#2 :")
    x, start = RNG.normal(size=(2, 4)).astype(np.float32), np.array([1, 2], np.float32)
    step = -1 if backwards else 1
    sums = (np.cumsum(x[:, ::step], 1) + start[:, None])[:, ::step]
    for found, expected in zip(run(text, x, start), (sums, sums * x, sums[:, 0 if backwards else -1]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def choices(select: str, scatter: str, start: float = 0) -> str:
    body = "^bb0(%x: tensor<f32>, %y: tensor<f32>):"
    return function(f'''%s = stablehlo.constant dense<{start}> : tensor<f32>
      %r = "stablehlo.select_and_scatter"(%a, %b, %s) <{{window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 2, 1>,
        padding = dense<[[1, 1], [1, 0]]> : tensor<2x2xi64>}}> ({{
      {body}
        {select}
        stablehlo.return %p : tensor<i1>
      }}, {{
      {body}
        {scatter}
        stablehlo.return %t : tensor<f32>
      }}) : (tensor<5x4xf32>, tensor<3x4xf32>, tensor<f32>) -> tensor<5x4xf32>''', ["tensor<5x4xf32>", "tensor<3x4xf32>"],
      "tensor<5x4xf32>")


Prefers, Combine = Callable[[float, float], bool], Callable[[float, float], float]


def chosen(x: np.ndarray, updates: np.ndarray, prefers: Prefers, combine: Combine, start: float) -> np.ndarray:
    found = np.full_like(x, start)
    for i, j in np.ndindex(*updates.shape):
        places = [(a, b) for a in range(2 * i - 1, 2 * i + 2) for b in range(j - 1, j + 1) if 0 <= a < 5 and 0 <= b < 4]
        best = places[0]
        for place in places[1:]:
            best = best if prefers(x[best], x[place]) else place
        found[best] = combine(found[best], updates[i, j])
    return found


GREATER = "%p = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>"
NEARER = """%u = stablehlo.abs %x : tensor<f32>
        %v = stablehlo.abs %y : tensor<f32>
        %p = stablehlo.compare LT, %u, %v : (tensor<f32>, tensor<f32>) -> tensor<i1>"""
NEVER = "%p = stablehlo.constant dense<false> : tensor<i1>"
ADD, TIMES = (f"%t = stablehlo.{name} %x, %y : tensor<f32>" for name in ("add", "multiply"))
OWN = """%h = stablehlo.add %x, %y : tensor<f32>
        %t = stablehlo.multiply %h, %y : tensor<f32>"""


@pytest.mark.parametrize(("select", "prefers"), [
    (GREATER, lambda a, b: a >= b), (NEARER, lambda a, b: abs(a) < abs(b)), (NEVER, lambda a, b: False)])
@pytest.mark.parametrize(("scatter", "combine", "start"), [
    (ADD, lambda a, b: a + b, 0), (TIMES, lambda a, b: a * b, 1), (OWN, lambda a, b: (a + b) * b, 0.5)])
def test_choices_of_windows(select: str, prefers: Prefers, scatter: str, combine: Combine, start: float) -> None:
    x, updates = RNG.integers(-4, 5, (5, 4)).astype(np.float32), RNG.normal(size=(3, 4)).astype(np.float32)
    expected = chosen(x, updates, prefers, combine, start)
    np.testing.assert_allclose(run(choices(select, scatter, start), x, updates)[0], expected, rtol=1e-5, atol=1e-6)


BOUNDED = "tensor<?xf32, #stablehlo.bounds<4>>"


def test_sizes_that_are_set() -> None:
    text = function(f"""%q = stablehlo.set_dimension_size %a, %b, dim = 0 : (tensor<4xf32>, tensor<i32>) -> {BOUNDED}
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [0] : ({BOUNDED}, tensor<f32>) -> tensor<f32>
      %n = stablehlo.get_dimension_size %q, dim = 0 : ({BOUNDED}) -> tensor<i32>
      %m = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
      %r = stablehlo.add %s, %m : tensor<f32>""", ["tensor<4xf32>", "tensor<i32>"], "tensor<f32>")
    x = np.array([1, 2, 4, 8], np.float32)
    assert [float(run(text, x, np.int32(n))[0]) for n in (0, 1, 3, 4)] == [0, 2, 10, 19]


def test_bounds_of_inputs_are_checked() -> None:
    call = forge.from_stablehlo(function(f"%r = stablehlo.abs %a : {BOUNDED}", [BOUNDED], BOUNDED)).get_inference_function()
    np.testing.assert_array_equal(call(np.array([-1, 2, -3, 4], np.float32)), [1, 2, 3, 4])
    with pytest.raises(ForgeError, match=r"dimension 0 of .* is larger than its bound, 4"):
        call(np.zeros(5, np.float32))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_high_halves_of_products(dtype: str) -> None:
    kind = "tensor<40x" + ("ui64>" if dtype == "uint64" else "i64>")
    info = np.iinfo(dtype)
    a, b = (RNG.integers(info.min, info.max, 40, dtype, endpoint=True) for _ in range(2))
    a[:4], b[:4] = [info.min, info.min, info.max, 1], [info.min, info.max, info.max, info.max]
    expected = [int(x) * int(y) >> 64 for x, y in zip(a, b)]
    text = function(f"%r = chlo.mulhi %a, %b : {kind}, {kind} -> {kind}", [kind, kind], kind)
    assert forge.from_stablehlo(text).get_inference_function()(a, b).tolist() == expected


@pytest.mark.parametrize("target", ["TopK", "mhlo.topk"])
@pytest.mark.parametrize("largest", [True, False])
def test_extremes_by_their_number(target: str, largest: bool) -> None:
    word = "true" if largest else "false"
    text = function(f"""%q:2 = stablehlo.custom_call @{target}(%a) {{mhlo.attributes = {{k = 2 : i64, largest = {word}}}}} :
      (tensor<2x5xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
      %r = stablehlo.abs %q#0 : tensor<2x2xf32>""", ["tensor<2x5xf32>"], "tensor<2x2xf32>")
    x = RNG.uniform(0, 1, (2, 5)).astype(np.float32)
    np.testing.assert_array_equal(run(text, x)[0], np.sort(x, 1)[:, ::-1 if largest else 1][:, :2])


COMPOSITE = """func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.composite "odml.acme" %a {composite_attributes = {factor = 3.0 : f32}, decomposition = @acme} :
    (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @acme(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %a : tensor<3xf32>
  return %0 : tensor<3xf32>
}"""


def test_composites() -> None:
    """A composite is its decomposition, unless its name has a converter."""
    from forge.frontends.stablehlo import register, unregister

    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(run(COMPOSITE, x)[0], -x)
    register("odml.acme", lambda g, x, *, factor: g.call("multiply", x, g.scalar(factor, x)), domain="composite")
    try:
        np.testing.assert_array_equal(run(COMPOSITE, x)[0], 3 * x)
    finally:
        unregister("odml.acme", domain="composite")


SMALL = {"f8E4M3FN": "float8_e4m3fn", "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2": "float8_e5m2", "f8E5M2FNUZ": "float8_e5m2fnuz",
         "f8E8M0FNU": "float8_e8m0fnu", "f4E2M1FN": "float4_e2m1fn"}


@pytest.mark.parametrize("kind", SMALL)
def test_small_floats(kind: str) -> None:
    text = function(f"""%k = stablehlo.constant dense<[0.5, 1.0, 2.0, 4.0]> : tensor<4x{kind}>
      %q = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4x{kind}>
      %s = stablehlo.multiply %q, %k : tensor<4x{kind}>
      %r = stablehlo.convert %s : (tensor<4x{kind}>) -> tensor<4xf32>""", ["tensor<4xf32>"], "tensor<4xf32>")
    narrow = dtypes.numpy_dtype(SMALL[kind])
    x = np.array([1, 2.2, 0.5, 1.5], np.float32)
    expected = (x.astype(narrow) * np.array([0.5, 1, 2, 4], narrow)).astype(np.float32)
    np.testing.assert_array_equal(run(text, x)[0], expected)


@pytest.mark.parametrize("kind", ["f8E3M4", "f8E4M3", "f8E4M3B11FNUZ", "f6E2M3FN", "f6E3M2FN"])
@pytest.mark.parametrize("body", [
    "%r = stablehlo.constant dense<1.0> : T", "%q = stablehlo.convert %a : (tensor<2xf32>) -> T\n%r = stablehlo.negate %q : T"])
def test_other_small_floats_are_refused_by_name(kind: str, body: str) -> None:
    text = function(body.replace("T", f"tensor<2x{kind}>"), ["tensor<2xf32>"], f"tensor<2x{kind}>")
    with pytest.raises(ForgeError, match=f"float{kind[1]}_{kind[2:].lower()}"):
        forge.from_stablehlo(text)
