"""Arithmetic, comparisons and conversions: compiled code against the interpreter, bit for bit, corner cases first."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from forge import dtypes, loops
from forge.codegen.module import emit_module, llvm_features
from forge.target import Target
from forge.tir import expr as tir
from forge.tir import interpret as interp
from forge.tir import stmt
from forge.tir.expr import Buffer, Expr
from tests.codegen.compiled import build
from tests.codegen.native import LEVELS, Array, assert_identical, interpret_map, map_function, run_map

INTEGERS = ("int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
OLDEST_AND_NEWEST = ("llvm -mcpu=x86-64", "llvm")

INTEGER_OPS = ("add", "sub", "mul", "truncdiv", "truncmod", "floordiv", "floormod", "min", "max", "and", "or", "xor", "shl",
               "shr")


def integer_pairs(dtype: str) -> tuple[Array, Array]:
    low, high = dtypes.integer_range(dtype)
    width = dtypes.bits(dtype)
    edges = {low, low + 1, low // 2, -2, -1, 0, 1, 2, 3, 7, width - 1, width, width + 1, high // 2, high - 1, high}
    values = np.array(sorted(v for v in edges if low <= v <= high), object)
    a, b = (grid.reshape(-1) for grid in np.meshgrid(values, values))
    pad = -a.size % 8
    return tuple(np.concatenate([x, x[:pad]]).astype(dtypes.numpy_dtype(dtype)) for x in (a, b))  # type: ignore[return-value]


@pytest.mark.parametrize("target", OLDEST_AND_NEWEST)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_operations_at_the_edges(dtype: str, target: str) -> None:
    a, b = integer_pairs(dtype)
    for op in INTEGER_OPS:
        function = map_function((dtype, dtype), dtype, lambda x, y, op=op: tir.binary(op, x, y))
        assert_identical(run_map(function, (a, b), target, 1), interpret_map(function, (a, b)))


@pytest.mark.parametrize("divisor", [-7, -4, -1, 0, 1, 3, 8])
@pytest.mark.parametrize("op", ["truncdiv", "truncmod", "floordiv", "floormod"])
def test_division_by_a_constant(op: str, divisor: int) -> None:
    a, _ = integer_pairs("int32")
    function = map_function(("int32",), "int32", lambda x: tir.binary(op, x, divisor), lanes=4)
    assert_identical(run_map(function, (a,)), interpret_map(function, (a,)))


SIZES: dict[str, Callable[[Expr, Expr], Expr]] = {
    "rounded up": loops.ceildiv,
    "rounded up twice": lambda n, m: loops.ceildiv(n, loops.ceildiv(n, m)),
    "end of a row": lambda n, m: (n + m - 1) // m,
    "span": lambda n, m: n // ((m - 1) * 2 + 3),
    "one less": lambda n, m: (tir.binary("max", n, 1) - 1) // m,
}
"""Divisions of sizes, which never are below zero."""


@pytest.mark.parametrize("name", SIZES)
def test_division_of_sizes_is_that_of_unsigned_numbers(name: str) -> None:
    function = of_sizes(SIZES[name])
    assert not {"srem", "sdiv"} & set(emit_module([function], Target.parse("llvm")).split())
    check_sizes(function)


@pytest.mark.parametrize("value", [
    lambda n, m: (n - 2) // m, lambda n, m: tir.binary("floormod", n - m, m), lambda n, m: (n + m - 2) // m,
    lambda n, m: (n + (m - 1)) // tir.binary("max", m, 1), lambda n, m: n * -2 // m, lambda n, m: tir.binary("min", n, -1) // m,
])
def test_division_of_what_may_be_below_zero(value: Callable[[Expr, Expr], Expr]) -> None:
    check_sizes(of_sizes(value))


def of_sizes(value: Callable[[Expr, Expr], Expr]) -> stmt.Function:
    """``out[0] = value(n, m)``."""
    n, m, out = tir.var("n"), tir.var("m"), Buffer("out", "int64", (tir.const(1),))
    return stmt.Function("sizes", (out,), (n, m), stmt.store(out, 0, value(n, m)))


def check_sizes(function: stmt.Function) -> None:
    compiled = build(function)
    for n, m in itertools.product((0, 1, 2, 5, 6, 7, 35), repeat=2):
        got, want = np.zeros(1, np.int64), np.zeros(1, np.int64)
        compiled(got, n, m)
        interp.run(function, [want], [n, m])
        assert got == want, (n, m)


@pytest.mark.parametrize("amount", [0, 1, 15, 16, 40, -1])
@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_shift_by_a_constant(dtype: str, amount: int) -> None:
    a, _ = integer_pairs(dtype)
    for op in ("shl", "shr"):
        function = map_function((dtype,), dtype, lambda x, op=op: tir.binary(op, x, tir.const(amount, dtype, x.lanes)))
        assert_identical(run_map(function, (a,)), interpret_map(function, (a,)))


def float_edges(dtype: str) -> Array:
    kind = dtypes.numpy_dtype(dtype)
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 127.4, -128.6, 255.5, 32767.5, 65535.9, -65536.0, 2147483520.0,
              2147483648.0, -2147483648.0, -2147483904.0, 4294967040.0, 4294967296.0, 9.2e18, 9.3e18, -9.3e18, 1.84e19, 1.9e19,
              1e30, -1e30, np.inf, -np.inf, np.nan, -np.nan]
    with np.errstate(over="ignore"):
        return np.array(values).astype(kind)


@pytest.mark.parametrize("target", OLDEST_AND_NEWEST)
@pytest.mark.parametrize("source", FLOATS)
def test_floats_saturate_into_integers(source: str, target: str) -> None:
    x = float_edges(source)
    for result in ("bool", *INTEGERS):
        function = map_function((source,), result, lambda v, result=result: tir.cast(v, result))
        assert_identical(run_map(function, (x,), target, 1), interpret_map(function, (x,)))


@pytest.mark.parametrize("source", ["bool", *INTEGERS])
def test_integers_convert(source: str) -> None:
    x = np.array([True, False] * 8) if source == "bool" else integer_pairs(source)[0]
    for result in ("bool", *INTEGERS, *FLOATS):
        function = map_function((source,), result, lambda v, result=result: tir.cast(v, result), lanes=4)
        assert_identical(run_map(function, (x,), "llvm", 1), interpret_map(function, (x,)))


@pytest.mark.parametrize("target", OLDEST_AND_NEWEST)
@pytest.mark.parametrize("dtype", FLOATS)
def test_minimum_and_maximum_keep_nan(dtype: str, target: str) -> None:
    edges = float_edges(dtype)
    a, b = np.repeat(edges, len(edges)), np.tile(edges, len(edges))
    for op in ("min", "max"):
        reference = {"min": np.minimum, "max": np.maximum}[op]
        function = map_function((dtype, dtype), dtype, lambda x, y, op=op: tir.binary(op, x, y))
        got = run_map(function, (a, b), target)
        want = reference(a.astype(np.float64), b.astype(np.float64))
        np.testing.assert_array_equal(got.astype(np.float64), want)
        clipped = run_map(map_function((dtype,), dtype, lambda x, op=op: tir.binary(op, 1.0, x)), (edges,), target)
        np.testing.assert_array_equal(clipped.astype(np.float64), reference(edges.astype(np.float64), 1.0))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
def test_comparisons(dtype: str) -> None:
    if dtype == "bool":
        a, b = np.array([0, 0, 1, 1] * 2, bool), np.array([0, 1, 0, 1] * 2, bool)
    elif dtypes.is_integer(dtype):
        a, b = integer_pairs(dtype)
    else:
        edges = float_edges(dtype)
        a, b = np.repeat(edges, len(edges)), np.tile(edges, len(edges))
    for op in tir.COMPARE_OPS:
        function = map_function((dtype, dtype), "bool", lambda x, y, op=op: tir.compare(op, x, y))
        assert_identical(run_map(function, (a, b), "llvm", 1), interpret_map(function, (a, b)))


@pytest.mark.parametrize("op", ["and", "or", "xor", "add", "mul", "max", "min"])
def test_boolean_operations(op: str) -> None:
    a, b = np.array([0, 0, 1, 1] * 2, bool), np.array([0, 1, 0, 1] * 2, bool)
    function = map_function(("bool", "bool"), "bool", lambda x, y: tir.binary(op, x, y))
    assert_identical(run_map(function, (a, b)), interpret_map(function, (a, b)))


def test_any_byte_but_zero_is_true() -> None:
    x = np.array([0, 1, 2, 255, 0, 128, 0, 1], np.uint8).view(bool)
    function = map_function(("bool",), "int32", lambda v: tir.cast(v, "int32"))
    assert run_map(function, (x,)).tolist() == [0, 1, 1, 1, 0, 1, 0, 1]


CLIPPED = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, -0.5, 1.5, 254.5, 255.0, 255.5, 256.0, -128.5, -129.0, 3e9, -3e9])


@pytest.mark.parametrize("target", OLDEST_AND_NEWEST)
@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize(("dtype", "low", "high", "clamps"), [
    ("uint8", 0, 255, 2), ("uint8", 3, 200, 3), ("int8", -128, 127, 3), ("int32", 0, 7, 2),
    ("int8", -5, 300, 5), ("uint8", 0.5, 9, 4),
])
def test_numbers_that_are_clipped_become_integers(
        source: str, dtype: str, low: float, high: float, clamps: int, target: str) -> None:
    """Bounds that the integer holds take the place of its own: two comparisons, and one for NaN where it would not become 0.

    Instructions that make bytes from 0 on have one of the bounds.
    """
    saturates = (source, dtype, low) == ("float32", "uint8", 0) and Target.parse(target).has("avx")
    x = CLIPPED.astype(source)
    for order in (clip, lambda v, low, high: tir.binary("max", tir.binary("min", v, high), low)):
        function = map_function((source,), dtype, lambda v, order=order: tir.cast(order(v, low, high), dtype))
        assert_identical(run_map(function, (x,), target), interpret_map(function, (x,)))
        assert emit_module([function], Target.parse(target)).count("fcmp") == clamps - saturates


@pytest.mark.parametrize("target", OLDEST_AND_NEWEST)
@pytest.mark.parametrize(("low", "whole", "converts"), [(0, True, False), (0, False, True), (3, True, True)])
def test_whole_numbers_that_are_clipped_stay_floats(low: float, whole: bool, converts: bool, target: str) -> None:
    """From a float to an integer and back, without a conversion where it would change nothing."""
    def body(v: tir.Expr) -> tir.Expr:
        return tir.cast(tir.cast(clip(tir.call("round", v) + 2.0 if whole else v, low, 255), "uint8"), "float32")

    function = map_function(("float32",), "float32", body)
    x = CLIPPED.astype("float32")
    assert_identical(run_map(function, (x,), target), interpret_map(function, (x,)))
    text = emit_module([function], Target.parse(target))
    assert any(name in text for name in ("fptosi", "cvttps2dq", "cvtt.ps2dq")) == converts


def clip(x: tir.Expr, low: float, high: float) -> tir.Expr:
    return tir.binary("min", tir.binary("max", x, low), high)


@pytest.mark.parametrize("name", ["popcount", "clz", "abs"])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64"])
def test_bit_intrinsics(name: str, dtype: str) -> None:
    a, _ = integer_pairs(dtype)
    function = map_function((dtype,), dtype, lambda x: tir.call(name, x))
    if name == "abs":
        want = np.where(a.astype(object) < 0, -a.astype(object), a.astype(object))
        wrapped = [dtypes.wrap_int(int(v), dtype) for v in want]
        assert run_map(function, (a,)).tolist() == wrapped
    elif name == "popcount":
        width = dtypes.bits(dtype)
        assert run_map(function, (a,)).tolist() == [(int(v) % (1 << width)).bit_count() for v in a]
    else:
        assert_identical(run_map(function, (a,)), interpret_map(function, (a,)))


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 16, 32])
@pytest.mark.parametrize(("name", "largest"), [("dot_u8s8", 255), ("dot_u7s8", 127)])
def test_dot_product_of_bytes_is_exact(name: str, largest: int, lanes: int, target: str) -> None:
    kernel = build(bytes_dot(lanes, name), target)
    rng = np.random.default_rng(lanes)
    left = np.where(rng.random(4 * lanes) < 0.5, largest, rng.integers(0, largest + 1, 4 * lanes)).astype(np.uint8)
    right = np.where(rng.random(4 * lanes) < 0.5, -128, rng.integers(-128, 128, 4 * lanes)).astype(np.int8)
    total = rng.integers(-1000, 1000, lanes).astype(np.int32)
    want = total + (left.astype(np.int32) * right.astype(np.int32)).reshape(lanes, 4).sum(1)
    kernel(total, left, right)
    assert total.tolist() == want.tolist()


@pytest.mark.parametrize(("cpu", "instruction"), [
    ("alderlake", "{vex} vpdpbusd (%rdx), %ymm1, %ymm0"), ("cascadelake", "vpdpbusd (%rdx), %zmm1, %zmm0"),
])
def test_dot_products_of_bytes_are_one_instruction(cpu: str, instruction: str) -> None:
    """AVX-VNNI has an encoding of its own, that processors without AVX-512 know."""
    import llvmlite.binding as llvm

    target = Target.parse(f"llvm -mcpu={cpu}")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("x86_64-linux-gnu").create_target_machine(
        cpu=target.cpu, features=llvm_features(target), opt=3)
    assembly = machine.emit_assembly(llvm.parse_assembly(emit_module([bytes_dot(target.lanes("int32"))], target)))
    assert instruction in [line.replace("\t", " ").strip() for line in assembly.splitlines()]


def bytes_dot(lanes: int, name: str = "dot_u8s8") -> stmt.Function:
    """Adds sums of four products to each lane of its first argument."""
    c, a, b = Buffer("c", "int32", ()), Buffer("a", "uint8", ()), Buffer("b", "int8", ())
    indices = tir.ramp(0, 1, lanes), tir.ramp(0, 1, 4 * lanes)
    value = tir.call(name, tir.load(c, indices[0]), tir.load(a, indices[1]), tir.load(b, indices[1]))
    return stmt.Function("dot", (c, a, b), (), stmt.store(c, indices[0], value))


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 16, 32])
def test_dot_product_of_pairs_is_exact(lanes: int, target: str) -> None:
    c, a, b = Buffer("c", "int32", ()), Buffer("a", "int16", ()), Buffer("b", "int8", ())
    place, pairs = tir.ramp(0, 1, lanes), tir.ramp(0, 1, 2 * lanes)
    value = tir.call("dot_s16", tir.load(c, place), tir.load(a, pairs), tir.cast(tir.load(b, pairs), "int16"))
    function = stmt.Function("dot", (c, a, b), (), stmt.store(c, place, value))
    rng = np.random.default_rng(lanes)
    left = np.where(rng.random(2 * lanes) < 0.5, 32767, rng.integers(-32767, 32768, 2 * lanes)).astype(np.int16)
    right = np.where(rng.random(2 * lanes) < 0.5, -128, rng.integers(-128, 128, 2 * lanes)).astype(np.int8)
    total = rng.integers(-1000, 1000, lanes).astype(np.int32)
    want = total + (left.astype(np.int32) * right.astype(np.int32)).reshape(lanes, 2).sum(1)
    native, slow = total.copy(), total.copy()
    build(function, target)(native, left, right)
    interp.run(function, [slow, left, right])
    assert native.tolist() == slow.tolist() == want.tolist()


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("lanes", [1, 3, 4, 8, 16])
def test_dot_product_of_pairs_of_bfloat16(lanes: int, target: str) -> None:
    c, a, b = Buffer("c", "float32", ()), Buffer("a", "bfloat16", ()), Buffer("b", "bfloat16", ())
    place = tir.ramp(0, 1, lanes)
    left, right = (tir.call("reinterpret", tir.load(x, tir.ramp(0, 1, 2 * lanes)), dtype="uint32", lanes=lanes) for x in (a, b))
    function = stmt.Function("dot", (c, a, b), (), stmt.store(c, place, tir.call("dot_bf16", tir.load(c, place), left, right)))
    rng = np.random.default_rng(lanes)
    start = rng.standard_normal(lanes).astype(np.float32)
    factors = [rng.standard_normal(2 * lanes).astype(dtypes.numpy_dtype("bfloat16")) for _ in "ab"]
    products = factors[0].astype(np.float64) * factors[1].astype(np.float64)
    want = start + products.reshape(lanes, 2).sum(1)
    bound = 3 * 2.0**-24 * (np.abs(start) + np.abs(products).reshape(lanes, 2).sum(1))
    native, slow = start.copy(), start.copy()
    build(function, target)(native, *factors)
    interp.run(function, [slow, *factors])
    for total in (native, slow):
        assert np.all(np.abs(total - want) <= bound)


@pytest.mark.parametrize("target", LEVELS)
def test_bits_of_narrow_floats_pass_unchanged(target: str) -> None:
    x, y = Buffer("x", "bfloat16", ()), Buffer("y", "uint16", ())
    place = tir.ramp(0, 1, 16)
    kernel = build(stmt.Function("bits", (x, y), (), stmt.store(y, place, tir.call("reinterpret", tir.load(x, place),
                   dtype="uint16"))), target)
    codes = np.array([0, 1, 0x7F, 0x80, 0x3F80, 0x7F7F, 0x7F80, 0x7F81, 0x7FFF, 0x8000, 0xFF80, 0xFF81, 2, 3, 4, 5], np.uint16)
    out = np.zeros(16, np.uint16)
    kernel(codes.view(dtypes.numpy_dtype("bfloat16")), out)
    assert out.tolist() == codes.tolist()


@pytest.mark.parametrize("target", LEVELS)
def test_unrounded_numbers_are_rounded_where_they_are_stored(target: str) -> None:
    x, y = Buffer("x", "float32", ()), Buffer("y", "bfloat16", ())
    place = tir.ramp(0, 1, 16)
    narrow = tir.call("unrounded", tir.load(x, place), dtype="bfloat16")
    kernel = build(stmt.Function("unrounded", (x, y), (), stmt.store(y, place, narrow * 3.0)), target)
    values = np.random.default_rng(0).standard_normal(16).astype(np.float32)
    values[:6] = np.inf, -np.inf, 0.0, -0.0, 3e38, (1 + 2.0**-8) / 3
    out = np.zeros(16, dtypes.numpy_dtype("bfloat16"))
    kernel(values, out)
    with np.errstate(over="ignore"):
        want = (values * np.float32(3)).astype(out.dtype)
    assert out.view(np.uint16).tolist() == want.view(np.uint16).tolist()
    values[0] = np.nan
    kernel(values, out)
    assert np.isnan(out[0].astype(np.float32))


@pytest.mark.parametrize("lanes", [2, 3, 8, 13, 16])
@pytest.mark.parametrize("name", ["reduce_add", "reduce_mul", "reduce_max", "reduce_min"])
def test_horizontal_reductions(name: str, lanes: int) -> None:
    x, y = Buffer("x", "float32", ()), Buffer("y", "float32", ())
    body = stmt.store(y, 0, tir.call(name, tir.load(x, tir.ramp(0, 1, lanes))))
    function = stmt.Function("reduce", (x, y), (), body)
    values = np.random.default_rng(0).normal(size=lanes).astype(np.float32)
    got, want = np.zeros(1, np.float32), np.zeros(1, np.float32)
    build(function)(values, got)
    interp.run(function, [values, want])
    assert_identical(got, want)
