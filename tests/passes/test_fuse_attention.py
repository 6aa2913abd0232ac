"""Attention out of products and a softmax becomes one operator, however it is written; what is not an attention stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forge import dims, dtypes
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.lowering.groups import form_groups
from forge.options import CompileOptions
from forge.passes import canonicalize, decompose, eliminate_dead_code, fuse_attention
from tests.passes.checks import AVX512, check, random_input

LOWEST = -3.4028235e38
SYMBOLS = {"n": 9, "s": 11}
Write = Callable[[Builder, "Inputs"], Value]


class Inputs:
    """Inputs of a graph by name, made when they are asked for."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def __call__(self, name: str, *shape: Any, dtype: str = "float32") -> Value:
        return self.b.input(TensorType(tuple(dims.symbol(d) if isinstance(d, str) else d for d in shape), dtype), name)


def graph_of(write: Write) -> Graph:
    b = Builder()
    result = write(b, Inputs(b))
    graph = b.output(result)
    for prepare in (decompose.run, canonicalize.run):
        prepare(graph, CompileOptions(target=AVX512))
    return graph


def scores(b: Builder, x: Inputs, rows: Any = 300, keys: Any = 260) -> Value:
    return b.call("nn.matmul", x("q", 2, 3, rows, 8), x("k", 2, 3, keys, 8), transpose_b=True)


def weighted(b: Builder, x: Inputs, s: Value, size: int = 6) -> Value:
    return b.call("nn.matmul", b.call("nn.softmax", s, axis=-1), x("v", 2, 3, s.shape[-1], size))


def number(b: Builder, x: float) -> Value:
    return b.constant(np.float32(x))


def plain(b: Builder, x: Inputs) -> Value:
    return weighted(b, x, scores(b, x))


def scaled(b: Builder, x: Inputs) -> Value:
    return weighted(b, x, b.call("divide", scores(b, x), number(b, 2.5)))


def scaled_before(b: Builder, x: Inputs) -> Value:
    """As torch exports it: both operands times the root of the scale, the key after its transposition."""
    q = b.call("multiply", x("q", 2, 3, 300, 8), number(b, 0.6))
    k = b.call("multiply", b.call("transpose", x("k", 2, 3, 260, 8), axes=(0, 1, 3, 2)), number(b, 0.6))
    return weighted(b, x, b.call("nn.matmul", q, k))


def added_mask(b: Builder, x: Inputs) -> Value:
    return weighted(b, x, b.call("add", b.call("multiply", scores(b, x), number(b, 0.3)), x("m", 2, 1, 300, 260)))


def two_added_masks(b: Builder, x: Inputs) -> Value:
    return weighted(b, x, b.call("add", x("m", 1, 1, 1, 260), b.call("add", scores(b, x), x("n", 300, 260))))


def selected(b: Builder, x: Inputs) -> Value:
    return weighted(b, x, b.call("where", x("m", 300, 260, dtype="bool"), scores(b, x), number(b, LOWEST)))


def capped(b: Builder, x: Inputs) -> Value:
    bent = b.call("tanh", b.call("divide", scores(b, x), number(b, 2.0)))
    return weighted(b, x, b.call("multiply", bent, number(b, 2.0)))


def heads_last(b: Builder, x: Inputs) -> Value:
    """[batch, heads, rows, size] -> [batch, rows, heads * size]"""
    y = b.call("transpose", plain(b, x), axes=(0, 2, 1, 3))
    return b.call("reshape", y, newshape=(2, 300, 18))


def from_rows_first(b: Builder, x: Inputs) -> Value:
    """Operands as projections leave them: [batch, rows, heads, size]."""
    q, k, v = (b.call("transpose", x(name, 2, n, 3, 8), axes=(0, 2, 1, 3)) for name, n in zip("qkv", (300, 260, 260)))
    s = b.call("multiply", b.call("nn.matmul", q, k, transpose_b=True), number(b, 0.35))
    y = b.call("nn.matmul", b.call("nn.softmax", s, axis=-1), v)
    return b.call("reshape", b.call("transpose", y, axes=(0, 2, 1, 3)), newshape=(2, 300, 24))


def symbolic(b: Builder, x: Inputs) -> Value:
    return weighted(b, x, b.call("add", scores(b, x, "n", "s"), x("m", 1, 1, "n", "s")))


def repeated(b: Builder, x: Inputs) -> Value:
    """As torch exports it: each head of keys and values repeated for three of queries, the keys turned as rank 3."""
    def shared(name: str) -> Value:
        apart = b.call("reshape", x(name, 2, 2, "s", 8), newshape=(2, 2, 1, dims.symbol("s"), 8))
        wide = b.call("broadcast_to", apart, shape=(2, 2, 3, dims.symbol("s"), 8))
        return b.call("reshape", wide, newshape=(2, 6, dims.symbol("s"), 8))

    turned = b.call("transpose", b.call("reshape", shared("k"), newshape=(12, dims.symbol("s"), 8)), axes=(0, 2, 1))
    k = b.call("multiply", b.call("reshape", turned, newshape=(2, 6, 8, dims.symbol("s"))), number(b, 0.6))
    s = b.call("add", b.call("nn.matmul", x("q", 2, 6, "n", 8), k), x("m", 2, 1, "n", "s"))
    y = b.call("nn.matmul", b.call("nn.softmax", s, axis=-1), shared("v"))
    return b.call("reshape", b.call("transpose", y, axes=(0, 2, 1, 3)), newshape=(2, dims.symbol("n"), 48))


def bfloat16(b: Builder, x: Inputs) -> Value:
    """As ``to_bfloat16`` leaves it: scores and softmax in float32."""
    q, k, v = (x(name, 2, 3, n, 8, dtype="bfloat16") for name, n in zip("qkv", (300, 260, 260)))
    q = b.call("multiply", q, b.constant(np.array(0.5, dtypes.numpy_dtype("bfloat16"))))
    s = b.call("add", b.call("nn.matmul", q, k, transpose_b=True, out_dtype="float32"), x("m", 300, 260))
    return b.call("nn.matmul", b.call("cast", b.call("nn.softmax", s, axis=-1), dtype="bfloat16"), v)


def repeated_heads(
    b: Builder, x: Inputs, rows: int, mask: tuple[int, ...], stored: bool = False, dtype: str = "float32"
) -> Value:
    """Six heads of queries share two of keys and values, which may lie with their positions first, in a narrow type."""

    def spread(name: str) -> Value:
        kept = x(name, *((260, 2, 2, 8) if stored else (2, 2, 260, 8)), dtype=dtype)
        value = b.call("transpose", kept, axes=(1, 2, 0, 3)) if stored else kept
        value = value if dtype == "float32" else b.call("cast", value, dtype="float32")
        wide = b.call("broadcast_to", b.call("expand_dims", value, axis=2), shape=(2, 2, 3, 260, 8))
        return b.call("reshape", wide, newshape=(2, 6, 260, 8))

    q = b.call("transpose", x("q", 2, rows, 6, 8), axes=(0, 2, 1, 3))
    s = b.call("multiply", b.call("nn.matmul", q, b.call("transpose", spread("k"), axes=(0, 1, 3, 2))), number(b, 0.35))
    y = b.call("nn.matmul", b.call("nn.softmax", b.call("add", s, x("m", *mask)), axis=-1), spread("v"))
    return b.call("reshape", b.call("transpose", y, axes=(0, 2, 1, 3)), newshape=(2, rows, 48))


def shared_keys(b: Builder, x: Inputs) -> Value:
    return repeated_heads(b, x, 7, (2, 1, 7, 260))


def shared_keys_stored_first(b: Builder, x: Inputs) -> Value:
    return repeated_heads(b, x, 7, (7, 260), stored=True)


def shared_keys_of_one_row(b: Builder, x: Inputs) -> Value:
    return repeated_heads(b, x, 1, (2, 1, 1, 260), stored=True)


def shared_keys_with_masks_of_heads(b: Builder, x: Inputs) -> Value:
    return repeated_heads(b, x, 1, (6, 1, 260))


def keys_of_bfloat16(b: Builder, x: Inputs) -> Value:
    return repeated_heads(b, x, 1, (2, 1, 1, 260), dtype="bfloat16")


def keys_of_bfloat16_for_many_rows(b: Builder, x: Inputs) -> Value:
    return repeated_heads(b, x, 7, (2, 1, 7, 260), stored=True, dtype="bfloat16")


def keys_of_float16(b: Builder, x: Inputs) -> Value:
    return repeated_heads(b, x, 1, (2, 1, 1, 260), stored=True, dtype="float16")


def operator(**attributes: Any) -> Write:
    """``nn.attention``, decomposed."""

    def write(b: Builder, x: Inputs) -> Value:
        operands = [x("q", 2, 6, 300, 8), x("k", 2, 3, 260, 8), x("v", 2, 3, 260, 8)]
        options = dict(attributes)
        if options.pop("masked", False):
            operands.append(x("m", 2, 1, 300, 260, dtype="bool"))
        return b.call("nn.attention", *operands, **options)

    return write


FUSED: dict[str, Write] = {
    f.__name__: f for f in (plain, scaled, scaled_before, added_mask, two_added_masks, selected, capped, heads_last,
                            from_rows_first, symbolic, repeated, bfloat16, shared_keys, shared_keys_stored_first,
                            shared_keys_of_one_row, shared_keys_with_masks_of_heads, keys_of_bfloat16,
                            keys_of_bfloat16_for_many_rows, keys_of_float16)
}


@pytest.mark.parametrize("name", [name for name in FUSED if name.startswith("shared_keys")])
def test_shared_keys_are_not_repeated(name: str) -> None:
    graph = graph_of(FUSED[name])
    fuse_attention.run(graph, CompileOptions(target=AVX512))
    eliminate_dead_code.run(graph, CompileOptions(target=AVX512))
    assert "broadcast_to" not in [node.op for node in graph.nodes]
    (attention,) = [node for node in graph.nodes if node.op == "nn.contrib_attention"]
    key, value = (operand for operand in attention.operands[1:3] if operand is not None)
    assert key.producer is None or key.producer.op == "transpose" or key.shape[-3] == 1
    assert key.shape == value.shape


@pytest.mark.parametrize("name", [name for name in FUSED if name.startswith("keys_of")])
def test_keys_of_half_precision_are_read_as_they_lie(name: str) -> None:
    graph = graph_of(FUSED[name])
    fuse_attention.run(graph, CompileOptions(target=AVX512))
    eliminate_dead_code.run(graph, CompileOptions(target=AVX512))
    (group,) = [group for group in form_groups(graph) if group.anchor.op == "nn.contrib_attention"]
    assert [node.op for node in group.inlined].count("cast") == 2


@pytest.mark.parametrize("name", FUSED)
def test_becomes_one_operator(name: str) -> None:
    graph = graph_of(FUSED[name])
    assert check(fuse_attention.run, graph, symbols=SYMBOLS, tolerance=2**-7 if name == "bfloat16" else 1e-5) == 1
    ops = [node.op for node in graph.nodes]
    assert "nn.contrib_attention" in ops
    assert "nn.softmax" not in ops
    assert "transpose" not in ops[ops.index("nn.contrib_attention"):]
    assert "broadcast_to" not in ops


@pytest.mark.parametrize("attributes", [{}, {"is_causal": True}, {"masked": True}, {"masked": True, "softcap": 3.0}], ids=str)
def test_the_operator_of_all_frontends_becomes_one(attributes: dict[str, Any]) -> None:
    graph = graph_of(operator(**attributes))
    assert check(fuse_attention.run, graph) == 1
    assert "nn.softmax" not in [node.op for node in graph.nodes]


def few_keys(b: Builder, x: Inputs) -> Value:
    return weighted(b, x, scores(b, x, 300, 255))


def wide_values(b: Builder, x: Inputs) -> Value:
    return weighted(b, x, scores(b, x), 257)


def other_axis(b: Builder, x: Inputs) -> Value:
    return b.call("nn.matmul", b.call("nn.softmax", scores(b, x), axis=-2), x("v", 2, 3, 260, 6))


def scaled_by_a_tensor(b: Builder, x: Inputs) -> Value:
    return weighted(b, x, b.call("multiply", scores(b, x), x("m", 300, 260)))


def masked_before_scaled(b: Builder, x: Inputs) -> Value:
    return weighted(b, x, b.call("multiply", b.call("add", scores(b, x), x("m", 300, 260)), number(b, 0.5)))


def mask_of_more_axes(b: Builder, x: Inputs) -> Value:
    masked = b.call("add", scores(b, x), x("m", 2, 1, 1, 300, 260))
    return b.call("nn.matmul", b.call("nn.softmax", masked, axis=-1), x("v", 2, 3, 260, 6))


def probabilities_wanted(b: Builder, x: Inputs) -> Value:
    p = b.call("nn.softmax", scores(b, x), axis=-1)
    y = b.call("nn.matmul", p, x("v", 2, 3, 260, 260))
    return b.call("add", y, p)


def no_product(b: Builder, x: Inputs) -> Value:
    return weighted(b, x, x("s", 2, 3, 300, 260))


KEPT: dict[str, Write] = {
    f.__name__: f for f in (few_keys, wide_values, other_axis, scaled_by_a_tensor, masked_before_scaled, mask_of_more_axes,
                            probabilities_wanted, no_product)
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_something_else_stays(name: str) -> None:
    graph = graph_of(KEPT[name])
    assert check(fuse_attention.run, graph) == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [*FUSED, "operator"])
@pytest.mark.parametrize("threads", [1, 2])
def test_compiled(name: str, threads: int) -> None:
    graph = graph_of(FUSED.get(name) or operator(masked=True, is_causal=True))
    inputs = [random_input(v.shape, v.dtype, SYMBOLS, k) for k, v in enumerate(graph.inputs)]
    module = Module(graph)
    fused, plain = (compile_module(module, check_options("llvm", opt_level=level)) for level in (3, 0))
    want = np.asarray(plain.runtime(num_threads=1)(*inputs))
    got = np.asarray(fused.runtime(num_threads=threads)(*inputs))
    tolerance = 2**-7 if name == "bfloat16" else 2e-5
    np.testing.assert_allclose(got.astype(want.dtype), want, rtol=tolerance, atol=tolerance)
