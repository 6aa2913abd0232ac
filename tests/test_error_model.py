"""The error model of random graphs finds planted errors, at stored and at hidden values, and forgives what rewrites do."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from tests.error_model import Judge, Noise, interpret
from tests.ops.test_cases import CASES
from tests.random_networks import any_network

FAULTS = ("epilogue", "axes", "mask", "percent", "element")
SIZE = 6


def tokens() -> np.ndarray:
    return np.random.default_rng(3).uniform(-1, 1, (SIZE, SIZE)).astype(np.float32)


def attention(fault: str = "", hidden: bool = False) -> Graph:
    """A layer and masked attention over its rows; wrong in one place."""
    rng = np.random.default_rng(1)
    b = Builder()
    x = b.input(TensorType((SIZE, SIZE), "float32"), "x")
    weight, bias = (b.constant(rng.uniform(-1, 1, shape).astype(np.float32)) for shape in ((SIZE, SIZE), (SIZE,)))
    product = b.call("nn.matmul", x, weight)
    layer = _spoilt(b, fault, b.call("tanh", b.call("subtract" if fault == "epilogue" else "add", product, bias)))
    scores = b.call("nn.matmul", layer, b.call("transpose", layer, axes=(0, 1) if fault == "axes" else (1, 0)))
    mask = b.constant(np.tri(SIZE, dtype=bool))
    masked = scores if fault == "mask" else b.call("where", mask, scores, b.constant(np.float32(-1e9)))
    result = b.call("nn.matmul", b.call("nn.softmax", masked), layer)
    total = b.call("sum", b.call("exp", result), axis=(0,))
    return b.output(*([total] if hidden else [product, layer, scores, result, total]))


def _spoilt(b: Builder, fault: str, value: Value) -> Value:
    if fault == "percent":
        return b.call("multiply", value, b.constant(np.float32(1.01)))
    if fault == "element":
        error = np.zeros((SIZE, SIZE), np.float32)
        error[0, 1] = 1e-4
        return b.call("add", value, b.constant(error))
    return value


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_error_is_found(fault: str, hidden: bool) -> None:
    inputs = [tokens()]
    verdict = Judge(attention(hidden=hidden), inputs).judge(run_graph(attention(fault, hidden), inputs))
    assert verdict.problems


@pytest.mark.parametrize("hidden", [False, True])
def test_right_results_are_right(hidden: bool) -> None:
    graph, inputs = attention(hidden=hidden), [tokens()]
    verdict = Judge(graph, inputs).judge(run_graph(graph, inputs))
    assert (verdict.problems, verdict.excluded) == ([], 0)


def test_a_wrong_exact_result_is_found() -> None:
    b = Builder()
    x = b.input(TensorType((4, 4), "float32"), "x")
    graph = b.output(b.call("transpose", x), b.call("argmax", x, axis=1), b.call("less", x, b.constant(np.float32(0.5))))
    inputs = [np.random.default_rng(0).uniform(size=(4, 4)).astype(np.float32)]
    right = run_graph(graph, inputs)
    judge = Judge(graph, inputs)
    for k, result in enumerate(right):
        wrong = np.array(result)
        wrong.flat[2] = ~wrong.flat[2] if wrong.dtype == bool else np.nextafter(wrong.flat[2], 9) if k == 0 else 3 - wrong.flat[2]
        assert len(judge.judge([*right[:k], wrong, *right[k + 1 :]]).problems) == 1


def test_rewrites_are_forgiven() -> None:
    """Sums in another order, after moves; a scale folded into the sum."""
    def build(rewritten: bool) -> Graph:
        b = Builder()
        x, y, z = (b.input(TensorType((3, 5), "float32"), name) for name in "xyz")
        scale = b.constant(np.float32(1 / 3))
        if rewritten:
            total = b.call("add", x, b.call("add", y, z))
            scaled = b.call("add", *(b.call("multiply", v, scale) for v in (total, z)))
        else:
            total = b.call("add", b.call("add", x, y), z)
            scaled = b.call("multiply", b.call("add", total, z), scale)
        return b.output(total, b.call("transpose", total), b.call("reverse", scaled, axis=1))

    rng = np.random.default_rng(0)
    x = rng.uniform(-4, 4, (3, 5)).astype(np.float32)
    inputs = [x, -x + np.float32(1e-3), rng.uniform(-1e-3, 1e-3, (3, 5)).astype(np.float32)]
    assert Judge(build(False), inputs).judge(run_graph(build(True), inputs)).problems == []


def test_decisions_by_rounding_are_excluded_and_counted() -> None:
    b = Builder()
    x = b.input(TensorType((8,), "float32"), "x")
    third = b.call("multiply", x, b.constant(np.float32(1 / 3)))
    graph = b.output(b.call("cast", b.call("floor", third), dtype="int32"))
    inputs = [np.array([3, 1, 2, 4, 5, 7, 8, 10], np.float32)]
    results = [np.array(r) for r in run_graph(graph, inputs)]
    results[0][0] ^= 1
    verdict = Judge(graph, inputs).judge(results)
    assert (verdict.problems, verdict.excluded, verdict.informative) == ([], 1, False)
    results[0][1] ^= 1
    assert len(Judge(graph, inputs).judge(results).problems) == 1


def test_sums_of_small_integers_make_no_error() -> None:
    b = Builder()
    x = b.input(TensorType((8,), "float32"), "x")
    graph = b.output(b.call("floor", b.call("multiply", b.call("add", x, x), b.constant(np.float32(0.5)))))
    inputs = [np.arange(8, dtype=np.float32)]
    assert Judge(graph, inputs).judge(run_graph(graph, inputs)).excluded == 0


def test_errors_in_regions_are_carried_out() -> None:
    def body(wrong: bool) -> Graph:
        r = Builder()
        _index, going, x = (r.input(t, "") for t in (COUNT, FLAG, VECTOR))
        return r.output(going, r.call("sin", r.call("multiply", x, r.constant(np.float32(1.701 if wrong else 1.7)))), x)

    def build(wrong: bool) -> Graph:
        b = Builder()
        x = b.input(VECTOR, "x")
        return b.output(*b.node("loop", [b.constant(np.int64(5)), None, x], {"num_carried": 1}, [body(wrong)]).results)

    inputs = [np.linspace(0.1, 1, 4, dtype=np.float32)]
    judge = Judge(build(False), inputs)
    noisy = interpret(build(False), inputs, Noise(np.random.default_rng(99)))
    assert judge.judge([noisy[v] for v in noisy if not v.uses and v.type != COUNT][-2:]).elements == 24
    assert judge.judge(run_graph(build(False), inputs)).problems == []
    assert len(judge.judge(run_graph(build(True), inputs)).problems) == 2


COUNT, FLAG, VECTOR = TensorType((), "int64"), TensorType((), "bool"), TensorType((4,), "float32")


def test_most_errors_of_a_per_cent_in_random_graphs_are_found() -> None:
    """Of one element of one output, whatever is computed from it inside."""
    found = Counter[bool]()
    for seed in range(40):
        graph, inputs = any_network(seed, CASES)
        results = run_graph(graph, inputs)
        floats = [k for k, r in enumerate(results) if r.dtype == np.float32 and np.any(np.abs(r) > np.mean(np.abs(r)) / 2)]
        if not floats:
            continue
        k = floats[seed % len(floats)]
        wrong = np.array(results[k])
        place = int(np.argmax(np.abs(wrong)))
        wrong.flat[place] *= 1.01
        verdict = Judge(graph, inputs).judge([*results[:k], wrong, *results[k + 1 :]])
        found[bool(verdict.problems)] += 1
    assert found[True] >= 0.95 * found.total()
    assert found.total() >= 15
