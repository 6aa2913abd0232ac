"""Loops, memory accesses and whole kernels: compiled code against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from forge.codegen.module import emit_module
from forge.errors import CompileError, TargetError
from forge.target import Target
from forge.tir import expr as tir
from forge.tir import interpret as interp
from forge.tir import stmt
from forge.tir.expr import Buffer, Expr, Var
from tests.codegen import compiled
from tests.codegen.compiled import aligned, build, serial_host
from tests.codegen.native import LEVELS, Array, GuardedPage, assert_identical

n = tir.var("n")
i = tir.var("i")
j = tir.var("j")
X = Buffer("x", "float32", (n,), writable=False)
Y = Buffer("y", "float32", (n,))


def check(function: stmt.Function, arrays: list[Array], *scalars: int, target: str = "llvm", opt_level: int = 3) -> None:
    """Native code and interpreter leave the same in all arrays."""
    want = [a.copy() for a in arrays]
    interp.run(function, want, scalars)
    build(function, target, opt_level)(*arrays, *scalars)
    for got, expected in zip(arrays, want, strict=True):
        assert_identical(got.reshape(-1), expected.reshape(-1))


def numbers(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=count).astype(np.float32)


def zeros(count: int) -> Array:
    return np.zeros(count, np.float32)


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 17])
def test_serial_loops_run_their_extent(count: int, opt_level: int) -> None:
    function = stmt.Function("copy", (X, Y), (n,), stmt.loop(i, n, stmt.store(Y, i, tir.load(X, i) + 1.0)))
    check(function, [numbers(count + 1), zeros(count + 1)], count, opt_level=opt_level)


def test_a_loop_that_does_not_start_at_zero() -> None:
    body = stmt.loop(i, n - 5, stmt.store(Y, i, tir.load(X, n - 1 - i)), begin=3)
    check(stmt.Function("shifted", (X, Y), (n,), body), [numbers(12), zeros(12)], 12)


@pytest.mark.parametrize("chunks", [1, 2, 3, 7])
def test_parallel_loops_cover_their_range(chunks: int) -> None:
    scaled = Var("float32", 1, "scaled")
    factor = Var("float32", 1, "factor")
    body = stmt.seq(stmt.Let(factor, tir.load(X, 0)), stmt.loop(i, n, stmt.seq(
        stmt.Let(scaled, tir.load(X, i) * factor), stmt.store(Y, i, scaled)), "parallel", begin=2))
    function = stmt.Function("parallel", (X, Y), (n,), body)
    x, y, want = numbers(40), zeros(40), zeros(40)
    interp.run(function, [x, want], [23])
    build(function, host=serial_host(chunks))(x, y, 23)
    assert_identical(y, want)


def test_a_status_of_the_host_ends_the_kernel() -> None:
    import ctypes

    host = serial_host()
    failing = compiled._PARALLEL_FOR(lambda *_: 5)
    host.parallel_for = failing
    function = stmt.Function("fails", (X, Y), (n,), stmt.loop(i, n, stmt.store(Y, i, tir.load(X, i)), "parallel"))
    with pytest.raises(CompileError, match="status 5"):
        build(function, host=host)(numbers(4), zeros(4), 4)
    assert ctypes.sizeof(host) == 80


@pytest.mark.parametrize("target", LEVELS)
def test_register_tile(target: str) -> None:
    """A small matrix product with its accumulators in a local buffer of vectors."""
    rows, lanes, depth = 3, 4, 5
    a, b, c = Buffer("a", "float32", ()), Buffer("b", "float32", (), alignment=64), Buffer("c", "float32", ())
    tile = Buffer("tile", "float32", (tir.const(rows),), scope="local", lanes=lanes)
    r, k = tir.var("r"), tir.var("k")
    line = Var("float32", lanes, "line")
    product = tir.call("fma", tir.broadcast(tir.load(a, r * depth + k), lanes), line, tir.load(tile, r))
    body = stmt.seq(
        stmt.Allocate(tile),
        stmt.loop(r, rows, stmt.store(tile, r, tir.broadcast(tir.const(0.0, "float32"), lanes)), "unrolled"),
        stmt.loop(k, depth, stmt.seq(stmt.Let(line, tir.load(b, tir.ramp(k * lanes, 1, lanes))),
                                     stmt.loop(r, rows, stmt.store(tile, r, product), "unrolled"))),
        stmt.loop(r, rows, stmt.store(c, tir.ramp(r * lanes, 1, lanes), tir.load(tile, r)), "unrolled"))
    left, right, out = numbers(rows * depth), aligned((depth, lanes)), zeros(rows * lanes)
    right[...] = numbers(depth * lanes, 1).reshape(depth, lanes)
    build(stmt.Function("tile", (a, b, c), (), body), target)(left, right, out)
    np.testing.assert_allclose(out.reshape(rows, lanes), left.reshape(rows, depth) @ right, rtol=1e-5, atol=1e-6)


def test_accumulators_live_in_registers() -> None:
    """After unrolling, no access to the local buffer is left in the object's inner loop."""
    import llvmlite.binding as llvm

    tile = Buffer("tile", "float32", (tir.const(8),), scope="local", lanes=8)
    r = tir.var("r")
    update = stmt.loop(r, 8, stmt.store(tile, r, tir.load(tile, r) + tir.load(X, tir.ramp(i * 64 + r * 8, 1, 8))), "unrolled")
    zero = stmt.loop(r, 8, stmt.store(tile, r, tir.broadcast(tir.const(0.0, "float32"), 8)), "unrolled")
    out = stmt.loop(r, 8, stmt.store(Y, tir.ramp(r * 8, 1, 8), tir.load(tile, r)), "unrolled")
    function = stmt.Function("sum", (X, Y), (n,), stmt.seq(stmt.Allocate(tile), zero, stmt.loop(i, n, update), out))
    module = llvm.parse_assembly(emit_module([function], Target.parse("llvm -mcpu=x86-64-v3")))
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple("x86_64-linux-gnu").create_target_machine(cpu="x86-64-v3", opt=3)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    builder.getModulePassManager().run(module, builder)
    assert "alloca" not in str(module)


ACCESSES = {
    "reversed": lambda k: tir.ramp(n - 1 - k * 4, -1, 4),
    "strided": lambda k: tir.ramp(k * 4, 3, 4),
    "scattered": lambda k: tir.binary("mul", tir.ramp(k * 4, 1, 4), tir.ramp(k * 4, 1, 4)),
}


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64", "llvm"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "bfloat16", "int4"])
@pytest.mark.parametrize("access", sorted(ACCESSES))
def test_vector_accesses(access: str, dtype: str, target: str) -> None:
    from forge import dtypes

    x, y = Buffer("x", dtype, (n,), writable=False), Buffer("y", dtype, (n,))
    index, straight = ACCESSES[access](i), tir.ramp(i * 4, 1, 4)
    values = np.random.default_rng(0).integers(0, 7, 64).astype(np.float32).astype(dtypes.numpy_dtype(dtype))
    zero = np.zeros(64, values.dtype)
    gather = stmt.loop(i, 2, stmt.store(y, straight, tir.load(x, index)))
    check(stmt.Function("gather", (x, y), (n,), gather), [values, zero.copy()], 64, target=target)
    scatter = stmt.loop(i, 2, stmt.store(y, index, tir.load(x, straight)))
    check(stmt.Function("scatter", (x, y), (n,), scatter), [values, zero.copy()], 64, target=target)


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3", "llvm"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("stride", [2, 3, 4, 5, -2, -3])
def test_strided_lanes_from_the_first_to_the_last_element(stride: int, lanes: int, dtype: str, target: str) -> None:
    """Of a buffer that ends with them; with a mask, of one that ends with the last lane but one."""
    from forge import dtypes

    count = abs(stride) * (lanes - 1) + 1
    values = np.random.default_rng(0).integers(0, 99, count).astype(dtypes.numpy_dtype(dtype))
    x, y = Buffer("x", dtype, (n,), writable=False), Buffer("y", dtype, (n,))
    straight = tir.ramp(0, 1, lanes)
    for kept in (lanes, lanes - 1):
        places = tir.ramp(0 if stride > 0 else abs(stride) * (kept - 1), stride, lanes)
        mask = None if kept == lanes else tir.compare("lt", straight, tir.broadcast(tir.const(kept), lanes))
        body = stmt.store(y, straight, tir.load(x, places, mask), mask)
        source = values[: abs(stride) * (kept - 1) + 1].copy()
        arrays = [source, np.zeros(len(source), values.dtype)]
        check(stmt.Function("pick", (x, y), (n,), body), arrays, len(source), target=target)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool", "float16", "int64"])
@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3", "llvm"])
@pytest.mark.parametrize("access", ["straight", *sorted(ACCESSES)])
def test_masked_lanes_touch_nothing(access: str, dtype: str, target: str) -> None:
    from forge import dtypes

    x, y = Buffer("x", dtype, (n,), writable=False), Buffer("y", dtype, (n,))
    k = tir.const(0)
    index = tir.ramp(k, 1, 4) if access == "straight" else ACCESSES[access](k)
    mask = tir.compare("lt", tir.ramp(k, 1, 4), tir.broadcast(n - 2, 4))
    if access in ("reversed", "strided"):
        mask = tir.logical_and(tir.compare("ge", index, tir.broadcast(tir.const(2), 4)),
                               tir.compare("lt", index, tir.broadcast(n, 4)))
    values = np.array([1, 0, 1, 1, 1], np.float32).astype(dtypes.numpy_dtype(dtype))
    copy = stmt.Function("copy", (x, y), (n,), stmt.store(y, index, tir.load(x, index, mask), mask))
    check(copy, [values, np.zeros_like(values)], 5, target=target)


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3", "llvm"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float16"])
@pytest.mark.parametrize("count", [1, 7, 15, 16])
def test_a_masked_tail_stays_inside_its_buffer(count: int, dtype: str, target: str) -> None:
    from forge import dtypes

    x, y = Buffer("x", dtype, (n,), writable=False), Buffer("y", dtype, (n,))
    index = tir.ramp(0, 1, 16)
    mask = tir.compare("lt", index, tir.broadcast(n, 16))
    copy = stmt.Function("copy", (x, y), (n,), stmt.store(y, index, tir.load(x, index, mask), mask))
    values = np.arange(1, count + 1).astype(dtypes.numpy_dtype(dtype))
    source, result = GuardedPage().array(values), GuardedPage().array(np.zeros_like(values))
    build(copy, target)(source, result, count)
    assert_identical(result, values)


@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
@pytest.mark.parametrize("source", ["float64", "float32", "int32"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "bfloat16", "float8_e5m2"])
def test_one_element_of_a_vector_is_stored_alone(dtype: str, source: str, lanes: int) -> None:
    from forge import dtypes

    x, y = Buffer("x", source, (n,), writable=False), Buffer("y", dtype, (n,))
    index = tir.ramp(0, 1, lanes)
    loaded = tir.load(x, index)
    zeros = tir.cast(tir.broadcast(tir.const(0), lanes), source)
    narrow = tir.compare("ne", loaded, zeros) if dtype == "bool" else tir.cast(loaded, dtype)
    kept = stmt.store(y, index, narrow, tir.compare("lt", index, tir.broadcast(tir.const(1), lanes)))
    values = np.ones(lanes).astype(dtypes.numpy_dtype(source))
    result = np.zeros(lanes).astype(dtypes.numpy_dtype(dtype))
    result.view(np.uint8)[:] = 0x11
    expected = result.copy()
    expected[0] = 1
    build(stmt.Function("narrow", (x, y), (n,), kept), "llvm")(values, result, lanes)
    np.testing.assert_array_equal(result.view(np.uint8), expected.view(np.uint8))


def test_masks_of_single_elements() -> None:
    inside = tir.compare("lt", i, n - 3)
    body = stmt.loop(i, n, stmt.store(Y, i, tir.load(X, i, inside), tir.compare("ge", i, tir.const(2))))
    check(stmt.Function("guarded", (X, Y), (n,), body), [numbers(9), np.ones(9, np.float32)], 9)


def test_branches() -> None:
    even = (i % 2).eq(0)
    inner = stmt.If(tir.load(X, i) < 0.0, stmt.store(Y, i, -tir.load(X, i)), stmt.store(Y, i, tir.load(X, i)))
    body = stmt.loop(i, n, stmt.If(even, inner, stmt.store(Y, i, tir.const(7.0, "float32"))))
    check(stmt.Function("branches", (X, Y), (n,), body), [numbers(11), zeros(11)], 11)


def test_lets_bind_in_order_and_scopes_end() -> None:
    a, b = Var("float32", 1, "a"), Var("float32", 1, "b")
    body = stmt.loop(i, n, stmt.seq(
        stmt.Let(a, tir.load(X, i)), stmt.Let(b, a * 2.0), stmt.store(Y, i, b), stmt.Let(a, tir.load(Y, i) + 1.0),
        stmt.store(Y, i, a)))
    check(stmt.Function("lets", (X, Y), (n,), body), [numbers(5), zeros(5)], 5)


def test_a_store_is_seen_by_the_next_load() -> None:
    body = stmt.loop(i, n - 1, stmt.store(Y, i + 1, tir.load(Y, i) + tir.load(X, i)))
    check(stmt.Function("prefix", (X, Y), (n,), body), [numbers(20), zeros(20)], 20)


def test_one_buffer_may_be_read_and_written() -> None:
    x, y = Buffer("x", "float32", (n,)), Buffer("y", "float32", (n,))
    body = stmt.loop(i, n - 1, stmt.store(y, i, tir.load(x, i + 1)))
    kernel = build(stmt.Function("inplace", (x, y), (n,), body, ((x, y),)))
    data = np.arange(10, dtype=np.float32)
    kernel(data, data, 10)
    assert data.tolist() == [*range(1, 10), 9]


def test_index_arithmetic_divides_like_python() -> None:
    z = Buffer("z", "int64", (n,))
    value: Expr = (i - 5) // 3 * 100 + (i - 5) % 3 + i // 4 * 10000 + (i * 7) // (n + 1) * 1000000
    check(stmt.Function("indices", (z,), (n,), stmt.loop(i, n, stmt.store(z, i, value))), [np.zeros(13, np.int64)], 13)


def test_shuffles_and_lanes() -> None:
    v = tir.load(X, tir.ramp(0, 1, 4))
    w = tir.load(X, tir.ramp(4, 1, 4))
    order = [tir.const(k) for k in (0, 5, 2, 7)]
    body = stmt.seq(stmt.store(Y, tir.ramp(0, 1, 4), tir.call("shuffle", v, w, *order, lanes=4)),
                    stmt.store(Y, 4, tir.call("lane", w, tir.const(2))))
    check(stmt.Function("shuffle", (X, Y), (n,), body), [numbers(8), zeros(8)], 8)


@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_local_buffers_larger_than_the_stack(kind: str) -> None:
    """They are on the heap, in the kernel and in each task; every end gives them back."""
    size = 1 << 18
    big, other = (Buffer(name, "float32", (tir.const(size),), scope="local") for name in ("big", "other"))
    copy = stmt.seq(stmt.Allocate(big), stmt.Allocate(other), stmt.store(big, size - 1, tir.load(X, i)),
                    stmt.store(other, 0, tir.load(big, size - 1)), stmt.store(Y, i, tir.load(other, 0)))
    function = stmt.Function("large", (X, Y), (n,), stmt.loop(i, n, copy, kind))
    check(function, [numbers(8), zeros(8)], 8)
    text = emit_module([function], Target.parse("llvm"))
    body = text[text.index("aligned_alloc"):]
    assert body.count("call ptr @aligned_alloc") == 1 and body.count("call void @free") == 2


def refused(body: stmt.Stmt, message: str, scalars: tuple[Var, ...] = (n,)) -> None:
    with pytest.raises(CompileError, match=message):
        emit_module([stmt.Function("refused", (X, Y), scalars, body)], Target.parse("llvm"))


def test_mistakes_are_named() -> None:
    refused(stmt.store(Y, i, tir.const(0.0, "float32")), "'i' is not bound")
    refused(stmt.loop(i, n, stmt.store(Y, i, tir.const(0.0, "float32")), "unrolled"), "known only at run time")
    refused(stmt.store(Buffer("z", "float32", ()), 0, tir.const(0.0, "float32")), "'z' is neither a parameter nor allocated")
    sized = Buffer("sized", "float32", (n,), scope="local")
    refused(stmt.Allocate(sized), "size known only at run time")
    number = Buffer("c", "complex64", ())
    refused(stmt.Evaluate(tir.Load("complex64", 1, number, tir.const(0), None)), "complex64 have no machine type")
    refused(stmt.store(Y, 0, tir.binary("and", tir.load(X, 0), tir.load(X, 1))), "and of float32")


def test_other_systems_are_refused() -> None:
    with pytest.raises(TargetError, match="windows"):
        emit_module([], Target.parse("llvm -mtriple=x86_64-pc-windows-msvc"))
