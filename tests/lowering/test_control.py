"""Control flow in machine code against the interpreter."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType, Type
from forge.module import IRModule
from forge_runtime import ExecutionError, ForgeRuntimeError, Runtime

F32 = "float32"
N = dims.symbol("n")
M = dims.symbol("m")
VECTOR = TensorType((N,), F32)
PLAIN = TensorType((3,), F32)
FLAG = TensorType((), "bool")
COUNT = TensorType((), "int64")
Build = Callable[..., Sequence[Value]]


def region(types: Sequence[Type], build: Build) -> Graph:
    builder = Builder()
    return builder.output(*build(builder, *[builder.input(t, f"i{k}") for k, t in enumerate(types)]))


def main(types: Sequence[Type], build: Build) -> Graph:
    builder = Builder()
    return builder.output(*build(builder, *[builder.input(t, f"x{k}") for k, t in enumerate(types)]))


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def check(graph: Graph, *feeds: Sequence[Any], **options: Any) -> None:
    """Compiled at two levels and interpreted, the graph gives the same shapes and values for every feed."""
    for level in (0, 3):
        runtime = compile_module(Module(graph.copy()), check_options(opt_level=level, **options), use_cache=False).runtime()
        for feed in feeds:
            inputs = [np.asarray(a) for a in feed]
            got = runtime(**{v.name: a for v, a in zip(graph.inputs, inputs, strict=True)})
            results = got if isinstance(got, (list, tuple)) else [got]
            for result, expected in zip(results, run_graph(graph, inputs), strict=True):
                assert result.shape == np.shape(expected)
                np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_if_with_other_sizes_in_each_branch() -> None:
    twice = region([VECTOR], lambda b, x: [b.call("concatenate", x, b.call("exp", x), axis=0), b.call("sum", x)])
    first = region([VECTOR], lambda b, x: [b.call("strided_slice", x, begin=(0,), end=(1,)), b.call("max", x)])

    def build(b: Builder, flag: Value, x: Value) -> list[Value]:
        long, scalar = b.node("if", [flag, x], {}, [twice, first]).results
        return [b.call("negative", long), b.call("add", scalar, b.constant(1, F32)), long]

    check(main([FLAG, VECTOR], build), *[(flag, floats(n)) for flag in (True, False) for n in (1, 5, 70)])


def test_branches_that_pass_on_what_they_get_or_a_constant() -> None:
    same = region([PLAIN], lambda b, x: [x, x, b.constant([1, 2, 3], F32)])
    other = region([PLAIN], lambda b, x: [b.constant([4, 5, 6], F32), b.call("abs", x), x])
    graph = main([FLAG, PLAIN], lambda b, flag, x: b.node("if", [flag, x], {}, [same, other]).results)
    check(graph, (True, floats(3)), (False, floats(3)))


def test_weights_of_regions_and_main_are_shared() -> None:
    weight = floats(3, 3)
    product = region([PLAIN], lambda b, x: [b.call("nn.dense", x, b.constant(weight))])
    scaled = region([PLAIN], lambda b, x: [b.call("multiply", x, b.constant(floats(3)))])

    def build(b: Builder, flag: Value, x: Value) -> list[Value]:
        y = b.call("nn.dense", x, b.constant(weight))
        return [b.node("if", [flag, y], {}, [product, scaled]).result]

    graph = main([FLAG, PLAIN], build)
    check(graph, (True, floats(3)), (False, floats(3)))
    compiled = compile_module(Module(graph), check_options(opt_level=0), use_cache=False)
    assert compiled.lowered is not None
    assert len(compiled.lowered.weights) == 2


def add_until(limit: float) -> Build:
    def body(b: Builder, i: Value, running: Value, total: Value, step: Value) -> list[Value]:
        added = b.call("add", total, step)
        small = b.call("less", b.call("sum", added), b.constant(limit, F32))
        return [small, added, b.call("cast", i, dtype=F32), b.call("exp", added)]

    return body


@pytest.mark.parametrize(("trips", "condition"), [(True, True), (False, True), (True, False)])
def test_loop_ends_early_at_its_limit_or_before_it_starts(trips: bool, condition: bool) -> None:
    body = region([COUNT, FLAG, PLAIN, PLAIN], add_until(20.0))

    def build(b: Builder, limit: Value, flag: Value, total: Value, step: Value) -> Sequence[Value]:
        operands = [limit if trips else None, flag if condition else None, total, step]
        return b.node("loop", operands, {"num_carried": 1}, [body]).results

    graph = main([COUNT, FLAG, PLAIN, PLAIN], build)
    ones = np.ones(3, np.float32)
    flags = (True, False) if condition else (True,)
    check(graph, *[(np.int64(limit), flag, ones, ones) for limit in (0, 1, 4, 100, -3) for flag in flags])


def growing(b: Builder, i: Value, running: Value, list_: Value, item: Value) -> list[Value]:
    longer = b.call("concatenate", list_, b.call("multiply", item, b.call("cast", i, dtype=F32)), axis=0)
    return [running, longer, b.call("sum", longer)]


def test_carried_value_that_grows() -> None:
    body = region([COUNT, FLAG, TensorType((dims.symbol("carried_0"),), F32), VECTOR], growing)

    def build(b: Builder, limit: Value, start: Value, item: Value) -> list[Value]:
        longest, sums = b.node("loop", [limit, None, start, item], {"num_carried": 1}, [body]).results
        return [b.call("nn.relu", longest), sums, b.call("reshape", longest, newshape=(-1,))]

    graph = main([COUNT, TensorType((M,), F32), VECTOR], build)
    check(graph, *[(np.int64(k), floats(m), floats(n)) for k in (0, 1, 9) for m in (0, 2) for n in (0, 3)])


def test_loop_whose_body_reads_sizes_of_the_graph_around_it() -> None:
    """n and m are sizes of no input of the body; the body gets them all the same."""
    def body(b: Builder, i: Value, running: Value, total: Value) -> list[Value]:
        table = b.call("broadcast_to", b.call("cast", i, dtype=F32), shape=(N, M))
        return [running, b.call("add", total, b.call("sum", table)), table]

    inner = region([COUNT, FLAG, TensorType((), F32)], body)

    def build(b: Builder, limit: Value, x: Value) -> Sequence[Value]:
        return b.node("loop", [limit, None, b.call("sum", x)], {"num_carried": 1}, [inner]).results

    graph = main([COUNT, TensorType((N, M), F32)], build)
    check(graph, (np.int64(3), floats(2, 5)), (np.int64(1), floats(4, 1)))


def test_branches_share_late_sizes() -> None:
    """A size that a node before computes is passed into both branches."""
    def build(b: Builder, flag: Value, x: Value, shape: Value) -> list[Value]:
        y = b.call("reshape", x, shape)
        rows = y.shape[0]
        full = region([TensorType((), F32)], lambda r, v: [r.call("broadcast_to", v, shape=(rows,))])
        zero = region([TensorType((), F32)], lambda r, v: [r.call("broadcast_to", r.call("negative", v), shape=(rows,))])
        result = b.node("if", [flag, b.call("sum", y)], {}, [full, zero]).result
        return [b.call("exp", y), result]

    graph = main([FLAG, TensorType((12,), F32), TensorType((2,), "int64")], build)
    check(graph, *[(flag, floats(12), np.array(shape)) for flag in (True, False) for shape in ([3, 4], [12, 1], [-1, 6])])


def test_if_in_a_loop_in_an_if() -> None:
    def step(b: Builder, i: Value, running: Value, x: Value, y: Value) -> list[Value]:
        odd = b.call("equal", b.call("mod", i, b.constant(2, "int64")), b.constant(1, "int64"))
        branches = [region([VECTOR, VECTOR], lambda r, a, c, op=op: [r.call(op, a, c)]) for op in ("add", "multiply")]
        inner = b.node("if", [odd, x, y], {}, branches).result
        return [running, b.call("tanh", inner), b.call("sum", inner)]

    def looped(b: Builder, x: Value, y: Value) -> Sequence[Value]:
        body = region([COUNT, FLAG, VECTOR, VECTOR], step)
        return b.node("loop", [b.constant(5, "int64"), None, x, y], {"num_carried": 1}, [body]).results

    still = region([VECTOR, VECTOR], lambda b, x, y: [b.call("copy", x), b.call("strided_slice", y, begin=(0,), end=(2,))])
    graph = main([FLAG, VECTOR, VECTOR],
                 lambda b, flag, x, y: b.node("if", [flag, x, y], {}, [region([VECTOR, VECTOR], looped), still]).results)
    check(graph, *[(flag, floats(n), floats(n)) for flag in (True, False) for n in (2, 40)])


def accumulate(b: Builder, total: Value, x: Value, y: Value, scale: Value) -> list[Value]:
    added = b.call("add", total, b.call("multiply", x, scale))
    return [added, b.call("exp", added), b.call("subtract", x, y)]


@pytest.mark.parametrize("directions", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("axes", [None, (0, 0), (1, -1), (0, 2)])
def test_scan_along_any_axis_in_any_direction(directions: tuple[int, int], axes: tuple[int, int] | None) -> None:
    slice_ = TensorType((N, 2), F32)
    body = region([slice_, slice_, slice_, slice_], accumulate)
    attributes = {"num_states": 1, "num_scan_inputs": 2, "input_axes": axes, "input_directions": directions,
                  "output_axes": None if axes is None else axes[::-1], "output_directions": directions[::-1]}
    places = [a % 3 for a in axes or (0, 0)]
    shapes: list[list[dims.Dim]] = [[N, 2] for _ in places]
    for shape, place in zip(shapes, places):
        shape.insert(place, M)
    types = [slice_, *(TensorType(tuple(s), F32) for s in shapes), slice_]
    graph = main(types, lambda b, *values: b.node("scan", values, attributes, [body]).results)
    feeds = []
    for n, m in ((3, 4), (1, 1)):
        sizes = [[dims.evaluate(d, {"n": n, "m": m}) for d in s] for s in shapes]
        feeds.append((floats(n, 2), *(floats(*s) for s in sizes), floats(n, 2)))
    check(graph, *feeds)


def test_scan_over_nothing() -> None:
    row = TensorType((4,), F32)
    body = region([row, row, row, row], accumulate)
    attributes = {"num_states": 1, "num_scan_inputs": 2}
    rows = TensorType((M, 4), F32)
    graph = main([row, rows, rows, row], lambda b, *values: b.node("scan", values, attributes, [body]).results)
    check(graph, *[(floats(4), floats(m, 4), floats(m, 4), floats(4)) for m in (0, 1, 33)])


def looping() -> Graph:
    body = region([COUNT, FLAG, TensorType((dims.symbol("carried_0"),), F32), VECTOR], growing)
    return main([COUNT, TensorType((M,), F32), VECTOR],
                lambda b, limit, start, item: b.node("loop", [limit, None, start, item], {"num_carried": 1}, [body]).results)


def test_many_threads_at_once() -> None:
    graph = looping()
    runtime = compile_module(Module(graph), use_cache=False).runtime(num_threads=2)
    feeds = [(np.int64(k % 7), floats(k % 3), floats(1 + k % 5)) for k in range(24)]

    def run(feed: Sequence[Any]) -> bool:
        for _ in range(20):
            got = runtime(x0=feed[0], x1=feed[1], x2=feed[2])
            for result, expected in zip(got, run_graph(graph, list(feed)), strict=True):
                np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, feeds))


def test_an_error_in_a_region_is_the_callers() -> None:
    inner = region([COUNT, FLAG, VECTOR, TensorType((2,), "int64")],
                   lambda b, i, c, x, s: [c, b.call("exp", x), b.call("sum", b.call("reshape", x, s))])
    graph = main([COUNT, VECTOR, TensorType((2,), "int64")],
                 lambda b, t, x, s: b.node("loop", [t, None, x, s], {"num_carried": 1}, [inner]).results)
    runtime = compile_module(Module(graph), use_cache=False).runtime()
    feed = {"x0": np.int64(3), "x1": floats(6)}
    for _ in range(50):
        with pytest.raises(ExecutionError, match="reshape"):
            runtime(**feed, x2=np.array([4, 4]))
    assert runtime(**feed, x2=np.array([2, 3]))[1].shape == (3,)
    gc.collect()


def test_slices_of_other_sizes_are_an_error() -> None:
    body = region([COUNT, FLAG, TensorType((dims.symbol("carried_0"),), F32)],
                  lambda b, i, c, x: [c, (longer := b.call("concatenate", x, x, axis=0)), b.call("copy", longer)])
    graph = main([COUNT, VECTOR], lambda b, t, x: b.node("loop", [t, None, x], {"num_carried": 1}, [body], "grow").results)
    runtime = compile_module(Module(graph), use_cache=False).runtime()
    assert runtime(x0=np.int64(1), x1=floats(2))[1].shape == (1, 4)
    for _ in range(20):
        with pytest.raises(ForgeRuntimeError, match=r"node grow \(loop\): .*other sizes in another iteration"):
            runtime(x0=np.int64(2), x1=floats(2))


def convolving(b: Builder, i: Value, running: Value, x: Value) -> list[Value]:
    y = b.call("nn.conv2d", x, b.constant(0.1 * floats(16, 16, 3, 3)), padding=(1, 1, 1, 1))
    y = b.call("nn.batch_norm", y, *[b.constant(abs(floats(16)) + 1) for _ in range(4)])
    return [running, b.call("nn.relu", y), b.call("nn.global_avg_pool2d", y)]


def convolutions() -> Graph:
    image = TensorType((1, 16, 8, 8), F32)
    body = region([COUNT, FLAG, image], convolving)
    return main([COUNT, image], lambda b, trips, x: b.node("loop", [trips, None, x], {"num_carried": 1}, [body]).results)


def test_passes_work_inside_regions() -> None:
    feeds = [(np.int64(3), floats(1, 16, 8, 8)), (np.int64(0), floats(1, 16, 8, 8))]
    check(convolutions(), *feeds, winograd=False)  # which is less accurate
    compiled = compile_module(Module(convolutions()), use_cache=False)
    assert compiled.lowered is not None
    assert any("NCHWc" in f.name for f in compiled.lowered.functions[0].program.functions)


def test_library_with_its_weights(tmp_path: Path) -> None:
    graph = convolutions()
    IRModule(Module(graph)).compile(output_path=tmp_path / "build")
    inputs = [np.asarray(2), floats(1, 16, 8, 8)]
    for result, expected in zip(Runtime(tmp_path / "build")(*inputs), run_graph(graph, inputs), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_captured_sizes_that_are_expressions() -> None:
    def build(b: Builder, flag: Value, x: Value) -> list[Value]:
        y = b.call("concatenate", x, x, axis=0)
        branches = [region([y.type], lambda r, v, op=op: [r.call(op, v), r.call("sum", v)]) for op in ("exp", "abs")]
        return list(b.node("if", [flag, y], {}, branches).results)

    check(main([FLAG, VECTOR], build), (True, floats(3)), (False, floats(1)))


@pytest.mark.parametrize("options", [{"float16": True}, {"channel_layout": "last"}, {"channel_layout": "first"}])
def test_options_that_change_types_inside(options: dict[str, Any]) -> None:
    graph = convolutions()
    inputs = [np.asarray(2), floats(1, 16, 8, 8)]
    runtime = compile_module(Module(graph), check_options(**options), use_cache=False).runtime()
    tolerance = 1e-2 if "float16" in options else 1e-5
    for result, expected in zip(runtime(*inputs), run_graph(graph, inputs), strict=True):
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


class Writer:
    """Writes regions at random, over vectors of one symbolic size."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def pick(self, pool: Sequence[Value], count: int) -> list[Value]:
        return [pool[int(self.rng.integers(len(pool)))] for _ in range(count)]

    def vectors(self, b: Builder, pool: list[Value], depth: int, wanted: int) -> list[Value]:
        """``wanted`` vectors, from a few random steps on those in ``pool``."""
        pool = list(pool)
        for _ in range(self.rng.integers(1, 5)):
            steps = [self.simple, self.branch, self.repeat, self.sweep][: 4 if depth else 1]
            pool.extend(steps[self.rng.integers(len(steps))](b, pool, depth - 1))
        return [pool[-1], *self.pick(pool, wanted - 1)]

    def simple(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        name = self.rng.choice(["tanh", "abs", "add", "maximum", "subtract"])
        return [b.call(str(name), *self.pick(pool, 1 if name in ("tanh", "abs") else 2))]

    def body(self, own: list[Type], captured: int, depth: int, wanted: int, condition: bool) -> Graph:
        def build(b: Builder, *inputs: Value) -> list[Value]:
            usable = [v for v in inputs if v.type == VECTOR]
            return [*inputs[1 : 1 + condition], *self.vectors(b, usable, depth, wanted)]

        return region([*own, *[VECTOR] * captured], build)

    def branch(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        captured = self.pick(pool, 2)
        flag = b.call("less", b.call("sum", pool[-1]), b.constant(0, F32))
        return list(b.node("if", [flag, *captured], {}, [self.body([], 2, depth, 2, False) for _ in range(2)]).results)

    def repeat(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        trips = b.constant(int(self.rng.integers(1, 4)), "int64")
        inner = self.body([COUNT, FLAG, VECTOR], 1, depth, 2, True)
        last, stack = b.node("loop", [trips, None, *self.pick(pool, 2)], {"num_carried": 1}, [inner]).results
        return [last, b.call("add", b.call("sum", stack, axis=(0,)), last)]

    def sweep(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        rows = b.call("stack", *self.pick(pool, 3), axis=1)
        attributes = {"num_states": 1, "num_scan_inputs": 1, "input_axes": (1,), "output_axes": (1,), "input_directions": (1,)}
        inner = self.body([VECTOR, VECTOR], 1, depth, 2, False)
        last, stack = b.node("scan", [*self.pick(pool, 1), rows, *self.pick(pool, 1)], attributes, [inner]).results
        return [last, b.call("max", stack, axis=(1,))]


@pytest.mark.parametrize("seed", range(12))
def test_random_nests(seed: int) -> None:
    writer = Writer(seed)
    graph = main([VECTOR, VECTOR], lambda b, *inputs: writer.vectors(b, list(inputs), 2, 2))
    check(graph, *[(floats(n), floats(n) - 1) for n in (1, 19)])
