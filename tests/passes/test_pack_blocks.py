"""Weights of few bits stay packed up to the kernel that reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge import dims, dtypes
from forge.compose.quantized import rounded_by_block
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.edits.journal import recorded
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.ops.core.composer import Composer
from forge.ops.quantized.unpack import packed_bytes
from forge.passes import pack_blocks
from forge.target import Target
from tests.kernels.support import targets_here
from tests.passes.checks import check, random_input, rewrite

RNG = np.random.default_rng(29)
UNITS, DEPTH = 36, 64
N = dims.symbol("n")


def of_bytes(b: Builder, x: Value, dtype: str, by_row: bool) -> Value:
    """``x`` rounded to 8 bits with zero points."""
    shape = x.shape[:1] if by_row else ()
    low, _ = dtypes.integer_range(dtype)
    scale = b.constant(RNG.uniform(0.02, 0.04, shape).astype(np.float32))
    zero = b.constant((RNG.integers(100, 140, shape) + low).astype(dtype))
    whole = b.call("qnn.quantize", x, scale, zero, axis=0 if by_row else -1, out_dtype=dtype)
    return b.call("qnn.dequantize", whole, scale, zero, axis=0 if by_row else -1)


def product(
    dtype: str = "int4", *, block: int = 32, swapped: bool = False, zeros: bool = False, packed: bool = True,
    rounds: bool = False, rows: tuple[Any, ...] = (3,), data: str = "float32", bytes_: str = "", by_row: bool = False,
) -> Graph:
    """Data times a weight of few bits; block 0: a scale for each result."""
    b = Builder()
    x = b.input(TensorType((*rows, DEPTH), data), "x")
    low, high = dtypes.integer_range(dtype)
    codes = RNG.integers(low, high + 1, (UNITS, DEPTH)).astype(dtypes.numpy_dtype(dtype))
    shape = (UNITS, DEPTH // block) if block else (UNITS,)
    scale = RNG.uniform(0.01, 0.1, shape).astype(data)
    zero = RNG.integers(low, high + 1, shape).astype(dtypes.numpy_dtype(dtype)) if zeros else None
    if swapped:
        codes, scale, zero = (None if v is None else np.ascontiguousarray(v.T) for v in (codes, scale, zero))
    held = packed_bytes(codes) if packed else None
    whole = b.constant(codes) if held is None else b.call("qnn.unpack", b.constant(held), out_dtype=dtype)
    axis = int(swapped) if not block else int(not swapped)
    weight = b.call("qnn.dequantize", whole, b.constant(scale), None if zero is None else b.constant(zero), axis=axis,
                    block_size=block, out_dtype=data)
    if bytes_:
        x = of_bytes(b, x, bytes_, by_row)
    if rounds:
        x = rounded_by_block(Composer(b), x, block)
    return b.output(b.call("nn.matmul" if swapped else "nn.dense", x, weight))


GRAPHS: dict[str, dict[str, Any]] = {
    "int4": {}, "uint4": {"dtype": "uint4", "zeros": True}, "int2": {"dtype": "int2", "zeros": True},
    "int8": {"dtype": "int8", "packed": False}, "uint8": {"dtype": "uint8", "packed": False, "zeros": True},
    "a byte for each": {"packed": False}, "scales of rows": {"block": 0}, "zeros of rows": {"block": 0, "zeros": True},
    "transposed": {"swapped": True, "zeros": True}, "transposed, scales of columns": {"swapped": True, "block": 0},
    "rows of 8 bits": {"bytes_": "int8", "by_row": True}, "data of uint8": {"bytes_": "uint8", "zeros": True, "rows": (2, 3)},
    "a vector of int8": {"bytes_": "int8", "rows": ()}, "data of 8 bits": {"rounds": True, "zeros": True},
    "any number of rows": {"rows": (N,)}, "float16": {"data": "float16"},
    "any number of rows of 8 bits": {"rows": (N, 2), "rounds": True}, "a vector": {"rows": ()},
}


@pytest.mark.parametrize("options", GRAPHS.values(), ids=GRAPHS)
def test_packed(options: dict[str, Any]) -> None:
    graph = product(**options)
    half = options.get("data") == "float16"  # whose weights are rounded to it where they are unpacked before
    assert check(pack_blocks.run, graph, symbols={"n": 5}, tolerance=2e-3 if half else 1e-5) == 1
    found = graph.find("nn.contrib_dense_blocks_pack")
    bits = dtypes.bits(options.get("dtype", "int4"))
    panels = -(-UNITS // 64)
    assert found.operands[2].constant.nbytes == panels * 64 * DEPTH * bits // 8
    assert (found.operands[0].dtype == "int8") == (options.get("rounds", False) or "bytes_" in options)
    assert (len(found.operands) > 4 and found.operands[4] is not None) == (options.get("zeros", False))


FEWER: dict[str, tuple[tuple[int, int], Any, str, int, int, bool]] = {
    "3 bits in 8": ((-4, 3), None, "int8", 32, 4, False),
    "2 bits in 8": ((-2, 1), None, "int8", 32, 2, False),
    "2 bits in 4": ((-2, 1), None, "int4", 32, 2, False),
    "blocks too short for 2 bits": ((-2, 1), None, "int8", 8, 4, False),
    "5 bits": ((-16, 15), None, "int8", 32, 8, False),
    "around a zero point": ((120, 135), np.uint8(128), "uint8", 32, 4, False),
    "above a zero point": ((100, 115), np.uint8(100), "uint8", 32, 4, True),
    "far above a zero point": ((100, 115), np.uint8(0), "uint8", 32, 8, True),
    "zero points of blocks": ((-4, 3), "blocks", "int8", 32, 4, True),
}


@pytest.mark.parametrize(("values", "zero", "dtype", "block", "bits", "has_zeros"), FEWER.values(), ids=FEWER)
def test_codes_get_as_few_bits_as_they_need(
    values: tuple[int, int], zero: Any, dtype: str, block: int, bits: int, has_zeros: bool
) -> None:
    b = Builder()
    low, high = values
    codes = RNG.integers(low, high + 1, (UNITS, DEPTH)).astype(dtypes.numpy_dtype(dtype))
    codes[0, :2] = values
    shape = (UNITS, DEPTH // block)
    zeros = None if zero is None else np.full(shape, zero)
    if zero == "blocks":
        zeros = RNG.integers(low, high + 1, shape).astype(dtype)
    scale = b.constant(RNG.uniform(0.01, 0.1, shape).astype(np.float32))
    weight = b.call("qnn.dequantize", b.constant(codes), scale, None if zeros is None else b.constant(zeros), axis=1,
                    block_size=block)
    graph = b.output(b.call("nn.dense", b.input(TensorType((3, DEPTH), "float32"), "x"), weight))
    assert check(pack_blocks.run, graph) == 1
    found = graph.find("nn.contrib_dense_blocks_pack")
    assert (found.attrs.bits, len(found.operands) > 4 and found.operands[4] is not None) == (bits, has_zeros)


def by_table(block: int = 32, data: str = "float32", along: int = 1) -> Graph:
    """Data times codes of four bits that stand for the numbers of a table."""
    b = Builder()
    x = b.input(TensorType((3, DEPTH), data), "x")
    codes = b.call("qnn.unpack", b.constant(RNG.integers(0, 256, (UNITS, DEPTH // block, block // 2)).astype(np.uint8)))
    table = b.constant(RNG.standard_normal(16).astype(data))
    numbers = b.call("take", table, b.call("cast", codes, dtype="int64"), axis=0, mode="clip")
    shape = (UNITS, DEPTH // block, 1) if along else (UNITS, 1, block)
    scaled = b.call("multiply", numbers, b.constant(RNG.uniform(0.1, 1.0, shape).astype(data)))
    return b.output(b.call("nn.dense", x, b.call("reshape", scaled, newshape=(UNITS, DEPTH))))


@pytest.mark.parametrize("target", targets_here())
def test_tables(target: str) -> None:
    """Codes stay packed where registers are permuted."""
    graph = by_table()
    (x,) = (random_input(v.shape, v.dtype, {}, 0) for v in graph.inputs)
    want = run_graph(graph, [x])[0]
    compiled = compile_module(Module(graph), check_options(target), use_cache=False)
    np.testing.assert_allclose(np.asarray(compiled.runtime()(x)), want, rtol=0, atol=1e-5 * float(np.abs(want).max()))
    packed = check(pack_blocks.run, graph, Target.parse(target))
    assert packed == Target.parse(target).has("avx2")
    assert (compiled.weights.size < 2 * UNITS * DEPTH) == packed


TABLES_DECLINED: dict[str, tuple[dict[str, Any], str, str]] = {
    "float64": ({"data": "float64"}, "x86-64-v3", "data of float64"),
    "short blocks": ({"block": 4}, "x86-64-v3", "blocks of 4"),
    "other scales": ({"along": 0}, "x86-64-v3", "scales are not those of blocks along the depth"),
    "SSE": ({}, "x86-64", "no instructions that permute lanes"),
}


@pytest.mark.parametrize(("options", "cpu", "reason"), TABLES_DECLINED.values(), ids=TABLES_DECLINED)
def test_declined_tables(options: dict[str, Any], cpu: str, reason: str) -> None:
    with recorded() as journal:
        assert rewrite(pack_blocks.run, by_table(**options), Target.parse(f"llvm -mcpu={cpu}")) == 0
    assert any(reason in attempt.reason for attempt in journal.attempts)


DECLINED: dict[str, tuple[dict[str, Any], str]] = {
    "float64": ({"data": "float64"}, "the data are of float64"),
    "short blocks": ({"dtype": "int2", "block": 8}, "blocks of 8; expected a multiple of 16"),
}


@pytest.mark.parametrize(("options", "reason"), DECLINED.values(), ids=DECLINED)
def test_declined(options: dict[str, Any], reason: str) -> None:
    graph = product(**options)
    with recorded() as journal:
        assert rewrite(pack_blocks.run, graph) == 0
    assert any(reason in str(attempt) for attempt in journal.attempts)


def test_a_great_depth_is_declined() -> None:
    """Whose sums might not fit into 32 bits, nor copies of rows on a thread's stack."""
    b = Builder()
    depth = 2 * pack_blocks.MAX_DEPTH
    x, codes = b.input(TensorType((2, depth), "float32"), "x"), np.ones((3, depth), np.int8)
    b.output(b.call("nn.dense", x, b.call("qnn.dequantize", b.constant(codes), b.constant(np.float32(0.5)))))
    with recorded() as journal:
        assert rewrite(pack_blocks.run, b.graph) == 0
    assert any("the depth is" in attempt.reason for attempt in journal.attempts)


@pytest.mark.parametrize("mcpu", ["x86-64", "x86-64-v3", "native"])
@pytest.mark.parametrize("name", ["data of 8 bits", "any number of rows of 8 bits", "any number of rows", "transposed"])
def test_compiled(name: str, mcpu: str) -> None:
    """The artifact holds the packed weight only."""
    graph = product(**GRAPHS[name])
    inputs = [random_input(v.shape, v.dtype, {"n": 5}, k) for k, v in enumerate(graph.inputs)]
    want = run_graph(graph, inputs, {"n": 5})[0]
    compiled = compile_module(Module(graph), check_options(target=f"llvm -mcpu={mcpu}"), use_cache=False)
    got = np.asarray(compiled.runtime()(*inputs))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * float(np.abs(want).max()))
    assert compiled.weights.size < 4 * UNITS * DEPTH


EXPERTS = 3
CHOSEN = np.array([0, 0, 2, 2, 2, -1, 0])


def experts(dtype: str = "int4", *, block: int = 32, swapped: bool = False, zeros: bool = False, rounds: bool = False) -> Graph:
    """Rows times the weights of their experts; block 0: one scale."""
    b = Builder()
    x = b.input(TensorType((len(CHOSEN), DEPTH), "float32"), "x")
    low, high = dtypes.integer_range(dtype)
    codes = RNG.integers(low, high + 1, (EXPERTS, UNITS, DEPTH)).astype(dtypes.numpy_dtype(dtype))
    scale = RNG.uniform(0.01, 0.1, (EXPERTS, UNITS, -(-DEPTH // block)) if block else ()).astype(np.float32)
    zero = RNG.integers(low, high + 1, scale.shape).astype(dtypes.numpy_dtype(dtype)) if zeros else None
    if swapped and block:
        codes, scale, zero = (None if v is None else np.ascontiguousarray(v.transpose(0, 2, 1)) for v in (codes, scale, zero))
    held = packed_bytes(codes)
    whole = b.constant(codes) if held is None else b.call("qnn.unpack", b.constant(held), out_dtype=dtype)
    weight = b.call("qnn.dequantize", whole, b.constant(scale), None if zero is None else b.constant(zero),
                    axis=1 if swapped else 2, block_size=block)
    if rounds:
        x = rounded_by_block(Composer(b), x, block)
    weight = weight if swapped and block else b.call("transpose", weight, axes=(0, 2, 1))
    return b.output(b.call("nn.indexed_matmul", x, weight, b.constant(CHOSEN)))


@pytest.mark.parametrize("options", [
    {}, {"dtype": "uint4", "zeros": True}, {"dtype": "int2", "rounds": True}, {"dtype": "int8", "rounds": True, "block": 16},
    {"swapped": True, "zeros": True}, {"block": 0, "zeros": True}, {"block": 128},
])
def test_experts(options: dict[str, Any]) -> None:
    graph = experts(**options)
    assert check(pack_blocks.run, graph, tolerance=1e-5) == 1
    found = graph.find("nn.contrib_indexed_blocks_pack")
    assert found.operands[2].constant.nbytes == EXPERTS * 64 * DEPTH * dtypes.bits(options.get("dtype", "int4")) // 8
    assert (found.operands[0].dtype == "int8") == options.get("rounds", False)


@pytest.mark.parametrize(("options", "reason"), [
    ({"dtype": "int2", "block": 8}, "blocks of 8; expected a multiple of 16"),
    ({"block": 24}, "blocks of 24; expected a multiple of 8 that divides the depth, 64"),
])
def test_experts_are_declined(options: dict[str, Any], reason: str) -> None:
    graph = experts(**options)
    with recorded() as journal:
        assert rewrite(pack_blocks.run, graph) == 0
    assert any(reason in str(attempt) for attempt in journal.attempts)
