"""Products in tile registers, which the machine may have or a library stands in for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forge import dtypes
from forge.backends import core_rates
from forge.driver import check_options
from forge.driver.compiler import compile_module
from forge.ir.graph import Module
from forge.ir.interp import run_graph
from forge.kernels.layouts import CpuLayouts
from forge.target import Target
from forge.tir import interpret
from tests.kernels.case import Case, Spec
from tests.kernels.emulated_tiles import EMULATED
from tests.kernels.in_tiles import CONVOLUTIONS, SIZES, convolution, expect, of_unknown_size, packed, results, targets
from tests.kernels.support import run
from tests.passes.checks import parse

pytestmark = pytest.mark.usefixtures("narrow_layers", "products")
RNG = np.random.default_rng(3)
TARGETS = targets("bfloat16")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "depth", "units"), SIZES)
def test_dense_of_bytes(rows: int, depth: int, units: int, target: str, products: Callable[[], int]) -> None:
    x = RNG.integers(0, 256, (rows, depth), np.uint8)
    weight = RNG.integers(-128, 128, (units, depth), np.int8)
    panel = CpuLayouts(Target.parse(target)).dense_panel("uint8", units, rows, depth)
    w = packed(weight, 4, panel)
    case = Case("dense_pack", [Spec(x.shape, "uint8"), Spec(w.shape, "int8")], Spec((rows, units), "int32"), {"units": units})
    np.testing.assert_array_equal(run(case, [x, w], target), x.astype(np.int32) @ weight.T.astype(np.int32))
    expect(products, target, rows > 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "depth", "units"), SIZES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_dense_of_bfloat16(dtype: str, rows: int, depth: int, units: int, target: str, products: Callable[[], int]) -> None:
    kind = dtypes.numpy_dtype("bfloat16")
    x = RNG.standard_normal((rows, depth)).astype(kind)
    weight = RNG.standard_normal((units, depth)).astype(kind)
    panel = CpuLayouts(Target.parse(target)).dense_panel("bfloat16", units, rows, depth)
    w = packed(weight, 2, panel)
    case = Case("dense_pack", [Spec(x.shape, dtype), Spec(w.shape, "bfloat16")], Spec((rows, units)), {"units": units})
    found = run(case, [x.astype(dtypes.numpy_dtype(dtype)), w], target)
    want = x.astype(np.float64) @ weight.T.astype(np.float64)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5 * np.sqrt(depth))
    expect(products, target, rows > 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [1, 16, 50])
def test_a_graph_in_bfloat16(rows: int, target: str, products: Callable[[], int]) -> None:
    text = f"def @main(%x: Tensor[({rows}, 64), float32]) {{ nn.relu(nn.dense(%x, meta[relay.Constant][0])) }}"
    weight, x = RNG.standard_normal((50, 64)).astype(np.float32), RNG.standard_normal((rows, 64)).astype(np.float32)
    found, want = results(parse(text, [weight]), target, x, bfloat16=True)
    np.testing.assert_allclose(found, want, rtol=2e-2, atol=2e-2 * np.abs(want).max())
    expect(products, target, rows > 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bfloat16", "uint8"])
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 70, 256, 300])
def test_rows_that_fill_the_cache(rows: int, unknown: bool, dtype: str, target: str, products: Callable[[], int]) -> None:
    """The second-level cache holds no block of rows: they are multiplied part by part, by several column tiles."""
    depth, units, kind = 2048, 300, dtypes.numpy_dtype(dtype)
    text = f"""def @main(%x: Tensor[({"m" if unknown else rows}, {depth}), {dtype}]) {{
      nn.dense(%x, meta[relay.Constant][0], out_dtype="{"int32" if dtype == "uint8" else "float32"}")
    }}"""
    if dtype == "uint8":
        x, weight = RNG.integers(0, 256, (rows, depth), np.uint8), RNG.integers(-128, 128, (units, depth), np.int8)
    else:
        x, weight = (RNG.standard_normal(shape).astype(kind) for shape in ((rows, depth), (units, depth)))
    found, _ = results(parse(text, [weight]), f"{target} -l2-cache=262144", x)
    exact = x.astype(np.float64) @ weight.T.astype(np.float64)
    tolerance = 0 if dtype == "uint8" else 1e-5
    np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance * np.sqrt(depth))
    expect(products, target, rows > 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transposed", [(False, False), (True, True)])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(9, 40, 21), (32, 128, 64), (70, 1300, 50), (17, 8, 16)])
def test_matmul_of_bytes(
    rows: int, depth: int, columns: int, transposed: tuple[bool, bool], target: str, products: Callable[[], int]
) -> None:
    a, b = RNG.integers(0, 256, (2, rows, depth), np.uint8), RNG.integers(-128, 128, (2, depth, columns), np.int8)
    attrs = {"transpose_a": transposed[0], "transpose_b": transposed[1]}
    given = [np.ascontiguousarray(x.swapaxes(1, 2)) if turned else x for x, turned in zip((a, b), transposed)]
    case = Case("matmul", [Spec(given[0].shape, "uint8"), Spec(given[1].shape, "int8")], Spec((2, rows, columns), "int32"), attrs)
    np.testing.assert_array_equal(run(case, given, target), a.astype(np.int32) @ b.astype(np.int32))
    expect(products, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transposed", [(False, False), (True, True)])
@pytest.mark.parametrize(("rows", "depth", "columns"), [
    (9, 40, 21), (32, 128, 64), (70, 1300, 50), (17, 2, 16), (19, 197, 64), (40, 1301, 21)])
def test_matmul_of_bfloat16(
    rows: int, depth: int, columns: int, transposed: tuple[bool, bool], target: str, products: Callable[[], int]
) -> None:
    kind = dtypes.numpy_dtype("bfloat16")
    a, b = RNG.standard_normal((2, rows, depth)).astype(kind), RNG.standard_normal((2, depth, columns)).astype(kind)
    attrs = {"transpose_a": transposed[0], "transpose_b": transposed[1]}
    given = [np.ascontiguousarray(x.swapaxes(1, 2)) if turned else x for x, turned in zip((a, b), transposed)]
    case = Case("matmul", [Spec(x.shape, "bfloat16") for x in given], Spec((2, rows, columns)), attrs)
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(run(case, given, target), want, rtol=1e-5, atol=1e-5 * np.sqrt(depth))
    expect(products, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 40, 21), (20, 41, 50), (33, 1027, 16), (5, 1, 7)])
def test_matmul_of_unknown_sizes(
    rows: int, depth: int, columns: int, transposed: bool, target: str, products: Callable[[], int]
) -> None:
    right = "n, k" if transposed else "k, n"
    text = f"""def @main(%a: Tensor[(2, m, k), float32], %b: Tensor[(2, {right}), float32]) {{
      nn.matmul(%a, %b, transpose_b={transposed})
    }}"""
    a, b = (RNG.standard_normal(s).astype(np.float32) for s in ((2, rows, depth), (2, depth, columns)))
    given = np.ascontiguousarray(b.swapaxes(1, 2)) if transposed else b
    compiled = compile_module(Module(parse(text, [])), check_options(target, bfloat16=True), use_cache=False)
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(np.asarray(compiled.runtime()(a, given)), want, rtol=2e-2, atol=2e-2 * np.abs(want).max())
    expect(products, target, rows > 1 and depth > 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "keys", "depth", "size"), [
    (19, 23, 32, 24), (40, 70, 64, 64), (5, 1500, 20, 40), (64, 64, 64, 64)])
def test_attention(rows: int, keys: int, depth: int, size: int, target: str, products: Callable[[], int]) -> None:
    text = f"""def @main(%q: Tensor[(2, {rows}, {depth}), float32], %k: Tensor[(2, {keys}, {depth}), float32],
        %v: Tensor[(2, {keys}, {size}), float32]) {{
      %0 = nn.matmul(%q, %k, transpose_b=True);
      %1 = multiply(%0, 0.25f);
      %2 = nn.softmax(%1);
      nn.matmul(%2, %v)
    }}"""
    inputs = [RNG.standard_normal((2, *shape)).astype(np.float32) for shape in ((rows, depth), (keys, depth), (keys, size))]
    found, want = results(parse(text, []), target, *inputs, bfloat16=True)
    np.testing.assert_allclose(found, want, rtol=2e-2, atol=2e-2 * np.abs(want).max())
    expect(products, target)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bfloat16", "uint8"])
@pytest.mark.parametrize("unknown", ["", "nhw", "h", "w"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str, unknown: str, dtype: str, target: str, products: Callable[[], int]) -> None:
    shape, taps, attributes = convolution(name)
    bytes_ = dtype == "uint8"
    attributes += ', out_dtype="int32"' if bytes_ else ""
    text = f"def @main(%x: Tensor[{of_unknown_size(shape, unknown)}, {'uint8' if bytes_ else 'float32'}]) "
    text += f"{{ nn.conv2d(%x, meta[relay.Constant][0], {attributes}) }}"
    if bytes_:
        x, weight = RNG.integers(0, 256, shape, np.uint8), RNG.integers(-128, 128, taps, np.int8)
    else:
        x, weight = (RNG.standard_normal(s).astype(np.float32) for s in (shape, taps))
    found, want = results(parse(text, [weight]), target, x, bfloat16=not bytes_)
    tolerance = 0.0 if bytes_ else 2e-2
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * np.abs(want).max())
    expect(products, target, not bytes_ or name != "dilated columns")


PARTS_OF_CONVOLUTIONS = ("5x5 without padding", "5x5 of stride 2", "dilated rows", "1x1")


def convolved_in_parts(
    name: str, target: str, change: Callable[[np.ndarray], object], unknown: str = "", **options: Any
) -> np.ndarray:
    """Differences between the compiled convolution and exact sums, relative to sums of magnitudes."""
    image, kernel, attributes = convolution(name)
    rng = np.random.default_rng(len(name))
    x, weight = (rng.standard_normal(shape) for shape in (image, kernel))
    change(x)
    x, weight = x.astype(np.float32), weight.astype(np.float32)

    def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        text = f"def @main(%x: Tensor[{image}, float64]) {{ nn.conv2d(%x, meta[relay.Constant][0], {attributes}) }}"
        return run_graph(parse(text, [b.astype(np.float64)]), [a.astype(np.float64)])[0]

    size = of_unknown_size(image, unknown)
    text = f"def @main(%x: Tensor[{size}, float32]) {{ nn.conv2d(%x, meta[relay.Constant][0], {attributes}) }}"
    graph = parse(text, [weight])
    compiled = compile_module(Module(graph), check_options(target, **options), use_cache=False)
    with np.errstate(invalid="ignore"):
        found, wanted = np.asarray(compiled.runtime()(x)), exact(x, weight)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_array_equal(found[np.isinf(wanted)], wanted[np.isinf(wanted)])
        return (found - wanted)[np.isfinite(wanted)] / (exact(np.abs(x), np.abs(weight)) + 1e-30)[np.isfinite(wanted)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("unknown", ["", "nhw"])
@pytest.mark.parametrize("name", PARTS_OF_CONVOLUTIONS)
def test_convolution_by_parts(name: str, unknown: str, target: str, products: Callable[[], int]) -> None:
    by_parts = convolved_in_parts(name, target, lambda x: None, unknown)
    count = products()
    exact = convolved_in_parts(name, target, lambda x: None, unknown, float32_products="exact")
    assert products() == count and (count > 0 or EMULATED not in target)
    assert np.sqrt(np.mean(by_parts**2)) < 0.8 * np.sqrt(np.mean(exact**2))
    three = np.sqrt(np.mean(convolved_in_parts(name, target, lambda x: None, unknown, float32_products="3") ** 2))
    assert 1e-7 < three < 6e-6


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("unknown", ["", "hw"])
@pytest.mark.parametrize("name", ["5x5 of stride 2", "1x1"])
def test_convolution_of_unusual_numbers(name: str, unknown: str, target: str) -> None:
    """Infinities, NaN and magnitudes that parts do not hold are as multiply-adds give them."""
    def change(x: np.ndarray) -> None:
        x[0, 3, 2, 2], x[0, 1, 4, 3], x[-1, 2, 5, 5] = np.inf, np.nan, -np.inf
        x[:, :, 7] *= 1e-37
        x[:, :, 0, 0] *= 1e36

    errors = convolved_in_parts(name, target, change, unknown)
    assert np.abs(errors).max() < 2.0**-20


@pytest.mark.parametrize("target", TARGETS)
def test_the_rate_of_products_can_be_measured(target: str, products: Callable[[], int]) -> None:
    parsed = Target.parse(target)
    memory = np.full(256, np.nan, np.float32)
    assert core_rates.native(parsed, core_rates.tile_products(parsed, 3))(memory.ctypes.data) == 0
    assert products() == (3 * 4 if EMULATED in target else 0)
    assert not memory.any()


def special(*shape: int) -> np.ndarray:
    """Numbers of all magnitudes, subnormal ones, infinities and NaN, as bfloat16."""
    values = (RNG.standard_normal(shape) * 2.0 ** RNG.integers(-140, 120, shape)).astype(np.float32)
    places = RNG.integers(0, 40, shape)
    for number, value in enumerate((np.inf, -np.inf, np.nan, 0.0, -0.0)):
        values[places == number] = value
    return values.astype(dtypes.numpy_dtype("bfloat16"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bfloat16", "uint8"])
def test_the_interpreter_and_the_machine_agree_to_the_bit(dtype: str, target: str) -> None:
    rows, depth, units = 19, 64, 20
    if dtype == "uint8":
        x, weight = RNG.integers(0, 256, (rows, depth), np.uint8), RNG.integers(-128, 128, (units, depth), np.int8)
    else:
        x, weight = special(rows, depth), special(units, depth)
        x[:9], weight[:9] = RNG.standard_normal((9, depth)), RNG.standard_normal((9, depth))
    group, out = (4, "int32") if dtype == "uint8" else (2, "float32")
    w = packed(weight, group, CpuLayouts(Target.parse(target)).dense_panel(dtype, units, rows, depth))
    case = Case("dense_pack", [Spec(x.shape, dtype), Spec(w.shape, dtypes.canonical(weight.dtype))], Spec((rows, units), out),
                {"units": units})
    meaning = np.zeros((rows, units), dtypes.numpy_dtype(out))
    interpret.run(case.function(target), [x, w, meaning])
    found = run(case, [x, w], target)
    np.testing.assert_array_equal(found, meaning)  # NaN has no sign that counts
    np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(meaning[meaning == 0]))


def parts_of(weight: np.ndarray, panel: int, count: int) -> np.ndarray:
    """Bfloat16 that add up to a weight [N, K], each in panels."""
    kind, rest, found = dtypes.numpy_dtype("bfloat16"), weight, []
    for _ in range(count):
        found.append(rest.astype(kind))
        rest = rest - found[-1].astype(np.float32)
    assert count < 3 or not rest.any()
    return np.stack([packed(part, 2, panel) for part in found])


def products_by_parts(x: np.ndarray, weight: np.ndarray, target: str, parts: int = 3) -> np.ndarray:
    w = parts_of(weight, 32, parts)
    operands = [Spec(x.shape), Spec(w.shape, "bfloat16")]
    case = Case("dense_parts_pack", operands, Spec((len(x), len(weight))), {"units": len(weight)})
    return run(case, [x, w], target)


def multiply_adds(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What fused multiply-adds give, one after the other; a sum that float64 rounds first may differ in its last bit."""
    sums = np.zeros((len(x), len(weight)), np.float32)
    for k in range(x.shape[1]):
        sums = (x[:, k, None].astype(np.float64) * weight[:, k].astype(np.float64) + sums).astype(np.float32)
    return sums


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "depth", "units"), [(20, 64, 32), (33, 256, 40), (70, 1024, 64), (150, 2560, 600)])
def test_errors_of_parts_are_below_those_of_multiply_adds(rows: int, depth: int, units: int, target: str) -> None:
    rng = np.random.default_rng(depth)
    x, weight = rng.standard_normal((rows, depth)).astype(np.float32), rng.standard_normal((units, depth)).astype(np.float32)
    exact = x.astype(np.float64) @ weight.T.astype(np.float64)
    found, sums = products_by_parts(x, weight, target), multiply_adds(x, weight)
    assert np.sqrt(np.mean((found - exact) ** 2)) < 0.7 * np.sqrt(np.mean((sums - exact) ** 2))


@pytest.mark.parametrize("target", TARGETS)
def test_errors_of_three_products(target: str, products: Callable[[], int]) -> None:
    x, weight = RNG.standard_normal((33, 256)).astype(np.float32), RNG.standard_normal((40, 256)).astype(np.float32)
    exact, sizes = (np.float64(a) @ np.float64(b).T for a, b in ((x, weight), (np.abs(x), np.abs(weight))))
    errors = np.abs(products_by_parts(x, weight, target, 2) - exact)
    assert (errors <= 2.0**-15 * sizes).all()
    assert 2.0**-26 * np.sqrt(256) < np.sqrt(np.mean(errors**2)) / np.sqrt(256) < 6e-6
    expect(products, target)


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("parts", [2, 3])
def test_parts_without_tile_registers(parts: int, target: str) -> None:
    x, weight = RNG.standard_normal((5, 64)).astype(np.float32), RNG.standard_normal((40, 64)).astype(np.float32)
    found = products_by_parts(x, weight, target, parts)
    np.testing.assert_allclose(found, x @ weight.T, rtol=1e-5, atol=1e-5 if parts == 3 else 2e-4)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("depth", [64, 4096])
def test_rows_without_parts(depth: int, target: str) -> None:
    """Infinities, NaN, and magnitudes that parts do not hold are as multiply-adds give them."""
    rng = np.random.default_rng(depth)
    x, weight = rng.standard_normal((40, depth)).astype(np.float32), rng.standard_normal((33, depth)).astype(np.float32)
    x[0, 3], x[1, 5], x[2, 7], x[3] = np.inf, -np.inf, np.nan, 0.0
    x[4] *= np.float32(1e-38)
    x[5] *= np.float32(1e36)
    x[6, ::2] *= np.float32(1e-30)
    found = products_by_parts(x, weight, target)
    exact = x.astype(np.float64) @ weight.T.astype(np.float64)
    size = np.abs(x[3:].astype(np.float64)) @ np.abs(weight.T.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    np.testing.assert_array_equal(found[np.isinf(exact)], exact[np.isinf(exact)])
    exact[4:6] = multiply_adds(x[4:6], weight)
    np.testing.assert_array_equal(found[4:6], exact[4:6])
    assert (np.abs(found[3:] - exact[3:]) <= 2.0**-22 * size + 1e-43).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [16, 50])
def test_a_graph_in_float32(rows: int, target: str, products: Callable[[], int]) -> None:
    """Dense layers are multiplied by parts unless the option says otherwise; numbers that parts do not hold stay as they are."""
    text = f"def @main(%x: Tensor[({rows}, 64), float32]) {{ nn.relu(nn.dense(%x, meta[relay.Constant][0])) }}"
    weight, x = RNG.standard_normal((50, 64)).astype(np.float32), RNG.standard_normal((rows, 64)).astype(np.float32)
    graph, counts = parse(text, [weight]), [0]
    for option, tolerance in (("6", 1e-6), (3, 1e-4), ("exact", 1e-6)):
        found, want = results(graph, target, x, float32_products=option)
        np.testing.assert_allclose(found, want, rtol=tolerance, atol=10 * tolerance)
        counts.append(products())
    six, three, none = np.diff(counts)
    assert six == 2 * three and none == 0 and (six > 0 or EMULATED not in target)
    for small, others, in_parts in ((1e-39, 1.0, True), (1e-39, 1e-30, False), (1e20, 1.0, False)):
        before, changed = products(), weight.copy()
        changed[3] *= others
        changed[3, 5] = small
        found, want = results(parse(text, [changed]), target, x)
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-5)
        assert EMULATED not in target or (products() > before) == in_parts


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "typical", "in_parts"), [
    ("(m, 64)", {}, False), ("(m, 64)", {"m": 100}, True), ("(m, 50, 64)", {}, True)])
def test_rows_that_are_not_known(
    rows: str, typical: dict[str, int], in_parts: bool, target: str, products: Callable[[], int]
) -> None:
    """They are multiplied by parts where there are many for certain, or it was said that there are."""
    text = f"def @main(%x: Tensor[{rows}, float32]) {{ nn.relu(nn.dense(%x, meta[relay.Constant][0])) }}"
    weight, x = RNG.standard_normal((50, 64)).astype(np.float32), RNG.standard_normal((2, 50, 64)).astype(np.float32)
    x = x if "50" in rows else x[0]
    found, want = results(parse(text, [weight]), target, x, typical=tuple(typical.items()))
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-5)
    expect(products, target, in_parts)
