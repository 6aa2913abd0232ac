"""Checks one operator three ways: inferred type, NumPy meaning and lowering must agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import forge.ops  # noqa: F401  (registers the operators)
from forge import dims, dims_text, dtypes, te
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.interp import bind_symbols, run_graph
from forge.ir.op import Accuracy, get_op
from forge.ir.types import TensorType
from forge.tir.evaluate import evaluate

TOLERANCE = {Accuracy.EXACT: 0.0, Accuracy.ROUNDING: 2e-6, Accuracy.ACCUMULATING: 2e-5}
Shape = Sequence[int | str]


def single(op: str, arrays: Sequence[np.ndarray | None], shapes: Sequence[Shape | None] | None = None, **attrs: Any) -> Graph:
    """A graph of one node; a string in ``shapes`` is a symbolic dimension."""
    builder = Builder()
    values = []
    for k, array in enumerate(arrays):
        if array is None:
            values.append(None)
            continue
        declared = array.shape if shapes is None or shapes[k] is None else shapes[k]
        shape = tuple(dims_text.parse(d) if isinstance(d, str) else d for d in declared)  # type: ignore[union-attr]
        values.append(builder.input(TensorType(shape, dtypes.canonical(array.dtype)), f"x{k}"))
    return builder.output(*builder.call_multi(op, *values, **attrs))


def check(op: str, arrays: Sequence[np.ndarray | None], shapes: Sequence[Shape | None] | None = None, **attrs: Any) -> np.ndarray:
    """The operator's only result for ``arrays``, after comparing interpreter and lowering (or decomposition)."""
    (result,) = check_all(op, arrays, shapes, **attrs)
    return result


def check_all(
    op: str, arrays: Sequence[np.ndarray | None], shapes: Sequence[Shape | None] | None = None, **attrs: Any
) -> list[np.ndarray]:
    """Like ``check``, for operators with any number of results."""
    graph = single(op, arrays, shapes, **attrs)
    present = [a for a in arrays if a is not None]
    symbols = bind(graph, present)
    expected = run_graph(graph, present)
    for value, array in zip(graph.outputs, expected):
        assert tuple(dims.evaluate(d, symbols) for d in value.shape) == array.shape, (value.type, array.shape)
    lowered = decomposed(graph, present) or run_lowering(graph, arrays, symbols)
    for got, want in zip(lowered, expected, strict=True):
        assert_close(got, want, get_op(op).accuracy)
    return expected


def bind(graph: Graph, arrays: Sequence[np.ndarray]) -> dict[str, int]:
    env: dict[str, int] = {}
    for value, array in zip(graph.inputs, arrays):
        bind_symbols(value, array, env)
    return env


def decomposed(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    node = graph.nodes[-1]
    builder = Builder(graph := graph.copy())
    node = graph.nodes[-1]
    values = node.op_def.decompose(builder, node.attrs, *node.op_def.arguments(node.operands))  # type: ignore[attr-defined]
    if values is None:
        return None
    assert [v.type for v in values] == [v.type for v in node.results]
    graph.outputs = list(values)
    return run_graph(graph, arrays)


def run_lowering(graph: Graph, arrays: Sequence[np.ndarray | None], symbols: dict[str, int]) -> list[np.ndarray]:
    node = graph.nodes[-1]
    tensors = [None if v is None else te.placeholder(v.shape, v.dtype, v.name) for v in node.operands]
    types, operands = [v.type for v in node.results], node.op_def.arguments(tensors)
    results = node.op_def.lower(node.attrs, types, *operands)  # type: ignore[attr-defined]
    known = {t: a for t, a in zip(tensors, arrays) if t is not None and a is not None}
    for tensor, value in zip(results, node.results):
        assert tensor.dtype == value.dtype
    return [evaluate(t, known, symbols) for t in results]


def assert_close(got: np.ndarray, want: np.ndarray, accuracy: Accuracy) -> None:
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if accuracy is Accuracy.EXACT or not np.issubdtype(want.dtype, np.floating):
        np.testing.assert_array_equal(got, want)
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    scale = max(1e-30, float(np.max(np.abs(want[finite]), initial=0.0)))
    assert float(np.max(np.abs(got[finite] - want[finite]), initial=0.0)) <= TOLERANCE[accuracy] * scale


def random(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Values of both signs, the same in every run."""
    rng = np.random.default_rng([seed, *shape])
    if dtypes.is_integer(dtype):
        low, high = dtypes.integer_range(dtype)
        return rng.integers(max(low, -100), min(high, 100), shape).astype(dtypes.numpy_dtype(dtype))
    return rng.standard_normal(shape).astype(dtypes.numpy_dtype(dtype))


__all__ = ["assert_close", "check", "check_all", "random", "single"]
