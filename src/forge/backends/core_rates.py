"""The rates of one core, measured: what cost models assume stands in ``target/isa`` beside the CPU's name."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from forge import dtypes, loops
from forge.codegen.compile import compile_modules
from forge.codegen.jit import JitLibrary
from forge.codegen.module import emit_module, kernel_symbol
from forge.loops import Accumulators, RegisterTile
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import TILE_BYTES, TILE_DOTS, TILE_ROWS, Allocate, Function, Stmt, Tiles, seq, store

ACCUMULATORS = 12
"""Independent chains: more than latency times throughput, fewer than the registers."""
_STEPS = 200_000
_TILES = 4
_REPEAT, _LINE = 20, 64
_MIN_BYTES, _MAX_BYTES = 1 << 24, 1 << 28
_DIFFERENT = 1.5
"""The ratio of two rates from which on they differ."""


@dataclass(frozen=True)
class Rate:
    """One rate of a core: of instructions, or of bytes, in a cycle; None: not measured, as the CPU has none."""

    name: str
    unit: str
    assumed: float
    measured: float | None

    @property
    def is_off(self) -> bool:
        """Whether what is assumed is far from what was measured."""
        if self.measured is None:
            return False
        return max(self.measured / self.assumed, self.assumed / self.measured) >= _DIFFERENT


def measure(target: Target) -> list[Rate]:
    """The rates of a core of this machine, which must be able to run code for ``target``; takes about a second."""
    costs, second = target.costs, _cycles_per_second(target)

    def of_dots(operation: str, dtype: str) -> float | None:
        left, right = ("bfloat16", "bfloat16") if operation == "dot_bf16" else ("uint8", "int8")
        has = target.isa.dot(left, right) is not None
        return _STEPS * ACCUMULATORS / _seconds(target, _dots(target, operation, dtype)) / second if has else None

    def in_tiles(operation: str) -> float | None:
        if TILE_DOTS[operation][0] not in target.isa.tiles:
            return None
        return _STEPS * _TILES * TILE_ROWS / _seconds(target, tile_products(target, operation=operation)) / second

    def streamed(size: int) -> float:
        size = min(size, _MAX_BYTES)
        passes = max(1, _MIN_BYTES // size)
        return passes * size / _seconds(target, _reads(target, size, passes), size) / second

    vectors = _STEPS * ACCUMULATORS / _seconds(target, multiply_adds(target)) / second
    inner = target.l1_cache // 2
    widened = _MIN_BYTES / 2 / _seconds(target, _reads(target, inner, _MIN_BYTES // inner, "bfloat16"), inner) / second
    return [
        Rate("multiply-adds of float32", "vectors", costs.multiply_adds, vectors),
        Rate("dot products of bfloat16", "vectors", costs.bfloat16_dots, of_dots("dot_bf16", "float32")),
        Rate("dot products of bytes", "vectors", costs.byte_dots, of_dots("dot_u8s8", "int32")),
        Rate("products of tile registers", "rows", costs.tile_rows, in_tiles("dot_bf16")),
        Rate("those of float16", "rows", costs.tile_rows, in_tiles("dot_f16")),
        Rate("conversions of bfloat16", "vectors", costs.conversions, widened / target.lanes("float32")),
        Rate("loads", "vectors", costs.loads, streamed(inner) / (target.vector_bits / 8)),
        Rate("from the last cache", "bytes", costs.streamed_bytes, streamed(max(2 * target.l2_cache, target.l3_cache // 4))),
        Rate("from memory", "bytes", costs.memory_bytes, streamed(8 * target.l3_cache)),
    ]


def best_seconds(run: Callable[[], object], repeat: int) -> float:
    """The shortest of ``repeat`` runs, after one to warm up."""
    run()
    best = float("inf")
    for _ in range(repeat):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return best


def native(target: Target, function: Function) -> Callable[[int], int]:
    """A kernel of one buffer in this process, called with the buffer's address."""
    symbol = kernel_symbol(function.name)
    library = JitLibrary(compile_modules([(function.name, emit_module([function], target))], target), [symbol])
    kernel = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(library.addresses[symbol])

    def call(address: int, library: JitLibrary = library) -> int:  # which holds the code
        return int(kernel(address, None))

    return call


def _seconds(target: Target, function: Function, size: int = 4096) -> float:
    """The shortest of many runs on a buffer of ``size`` bytes."""
    kernel = native(target, function)
    memory = np.empty(max(size, 4096) + _LINE, np.uint8)
    memory.fill(0)  # pages that nothing has written are all one
    data = memory.ctypes.data + -memory.ctypes.data % _LINE
    return best_seconds(lambda: kernel(data), _REPEAT)


def _cycles_per_second(target: Target) -> float:
    """By a chain of shifts, differences and sums, each of which takes one cycle and waits for the one before."""
    buffer = Buffer("y", "uint64", (E.const(1, "int64"),))
    chain = Buffer("chain", "uint64", (E.const(1),), "local")

    def step(_: Expr) -> Stmt:
        x = E.load(chain, 0)
        return store(chain, 0, (E.binary("xor", x, E.binary("shr", x, E.const(1, "uint64")))) + x)

    grow = loops.serial("step", _STEPS, step)
    body = seq(Allocate(chain), store(chain, 0, E.load(buffer, 0) | E.const(1, "uint64")), grow,
               store(buffer, 0, E.load(chain, 0)))
    return 3 * _STEPS / _seconds(target, Function("clock", (buffer,), (), body))


def multiply_adds(target: Target, steps: int = _STEPS) -> Function:
    """``ACCUMULATORS`` independent multiply-adds of float32 vectors a step, on registers only."""
    return _on_registers(target, "float32", lambda x, sums: loops.multiply_add(sums, x, x), steps)


def tile_products(target: Target, steps: int = _STEPS, operation: str = "dot_bf16") -> Function:
    """Products of narrow floats in all of ``_TILES`` independent registers of sums a step."""
    buffer = Buffer("y", "float32", (E.const(TILE_ROWS * TILE_BYTES // 4, "int64"),))
    shapes = tuple(E.const(size) for _ in range(2 * _TILES) for size in (TILE_ROWS, TILE_BYTES))
    products = [Tiles(operation, (i, _TILES + i // 2, _TILES + 2 + i % 2)) for i in range(_TILES)]
    body = seq(Tiles("configure", values=shapes), [Tiles("zero", (number,)) for number in range(2 * _TILES)],
               loops.serial("step", steps, lambda _: seq(products)),
               Tiles("store", (0,), (E.const(0), E.const(TILE_BYTES // 4)), buffer), Tiles("release"))
    return Function("tiles", (buffer,), (), body)


def _dots(target: Target, operation: str, dtype: str) -> Function:
    """Sums in each lane of products of two neighbours, or of four."""
    lanes = target.lanes(dtype)

    def step(x: Expr, sums: Expr) -> Expr:
        if operation == "dot_bf16":
            pairs = E.call("reinterpret", x, dtype="uint32", lanes=lanes)
            return E.call(operation, sums, pairs, pairs)
        left, right = (E.call("reinterpret", x, dtype=kind, lanes=4 * lanes) for kind in ("uint8", "int8"))
        return E.call(operation, sums, left, right)

    return _on_registers(target, dtype, step)


def _on_registers(target: Target, dtype: str, step: Callable[[Expr, Expr], Expr], steps: int = _STEPS) -> Function:
    """Steps of independent chains, which read no memory."""
    lanes = target.lanes(dtype)
    result = Buffer("y", dtype, (E.const(ACCUMULATORS * lanes),))
    acc = Accumulators(RegisterTile(ACCUMULATORS, 1, lanes, dtype))
    let, x = loops.bind("x", E.load(result, E.ramp(0, 1, lanes)))
    grow = loops.serial("step", steps, lambda _: acc.each(lambda row, _: acc.set(row, 0, step(x, acc.get(row, 0)))))
    write = acc.each(lambda row, _: store(result, E.ramp(row * lanes, 1, lanes), acc.get(row, 0)))
    return Function("steps", (result,), (), seq(let, acc.start(), grow, write))


def _reads(target: Target, size: int, passes: int, dtype: str = "float32") -> Function:
    """The sum of a buffer of about ``size`` bytes, a vector of float32 after the other, ``passes`` times."""
    lanes = target.lanes("float32")
    width = ACCUMULATORS * lanes
    steps = max(1, size // (dtypes.itemsize(dtype) * width))
    data = Buffer("x", dtype, (E.const(steps * width),))
    acc = Accumulators(RegisterTile(1, ACCUMULATORS, lanes, "float32"))

    def step(at: Expr) -> Stmt:
        return seq(acc.set(0, k, acc.get(0, k) + E.cast(E.load(data, E.ramp(at * width + k * lanes, 1, lanes)), "float32"))
                   for k in range(ACCUMULATORS))

    again = loops.serial("pass", passes, lambda _: loops.serial("at", steps, step))
    total = seq(acc.set(0, 0, acc.joined()), store(data, E.ramp(0, 1, lanes), E.cast(acc.get(0, 0), dtype)))
    return Function("reads", (data,), (), seq(acc.start(), again, total))
