"""Calls of registered functions in machine code: memory, order, errors, threads."""

from __future__ import annotations

import gc
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge import dims, dtypes
from forge.driver import check_options, compile_module
from forge.errors import FunctionError, InputError, TimeLimitError
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ir.types import TensorType, Type
from forge.module import IRModule
from forge_runtime import Runtime, read_metadata

F32 = "float32"
N = dims.symbol("n")
ROWS = TensorType((N, 3), F32)
FLAG, COUNT = TensorType((), "bool"), TensorType((), "int64")
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Register = Callable[..., Any]
Build = Callable[..., Sequence[Value]]


@pytest.fixture
def register() -> Iterator[Register]:
    """``register(name, function)``: for one test."""
    names = []

    def for_this_test(name: str, function: Callable[..., Any], override: bool = False) -> None:
        forge.register_func(name, function, override=override)
        names.append(name)

    yield for_this_test
    for name in set(names):
        if forge.get_registered_func(name) is not None:
            forge.remove_registered_func(name)


def called(
    b: Builder, function: str, *values: Value, results: Sequence[Value | TensorType] = (), op: str = "call_registered"
) -> list[Value]:
    types = [r if isinstance(r, TensorType) else r.tensor_type for r in results]
    return b.call_multi(op, *values, function=function, shapes=[t.shape for t in types], dtypes=[t.dtype for t in types])


def graph_of(types: Sequence[Type], build: Build) -> Graph:
    builder = Builder()
    return builder.output(*build(builder, *[builder.input(t, f"x{k}") for k, t in enumerate(types)]))


def compiled(graph: Graph, level: int = 3) -> Runtime:
    return compile_module(Module(graph.copy()), check_options(opt_level=level), use_cache=False).runtime()


def one_call(function: str = "test.f", after: str = "copy") -> Runtime:
    return compiled(graph_of([ROWS], lambda b, x: [b.call(after, *called(b, function, x, results=[x]))]))


def double(x: np.ndarray, y: np.ndarray) -> None:
    np.multiply(x, 2, out=y)


@pytest.mark.parametrize("level", [0, 3])
def test_results_of_several_sizes_and_views_of_them(level: int, register: Register) -> None:
    def several(x: np.ndarray, y: np.ndarray, total: np.ndarray, wide: np.ndarray) -> None:
        y[...], total[...], wide[...] = x.T, x.sum(), np.concatenate([x, x])

    register("test.several", several)
    turned, scalar, wide = TensorType((3, N), F32), TensorType((), F32), TensorType((2 * N, 3), F32)

    def build(b: Builder, x: Value) -> list[Value]:
        y, total, z = called(b, "test.several", b.call("exp", x), results=[turned, scalar, wide])
        flat = b.call("reshape", z, newshape=(6 * N,))
        return [b.call("add", b.call("transpose", y, axes=(1, 0)), total), y, flat, z, b.call("sum", z)]

    run = compiled(graph_of([ROWS], build), level)
    for rows in (1, 2, 40):
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        e = np.exp(x)
        twice = np.concatenate([e, e])
        expected = [e + e.sum(), e.T, twice.reshape(-1), twice, twice.sum()]
        for got, wanted in zip(run(x), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize("dtype", [name for name in dtypes.NAMES if name != "string"])
def test_every_element_type_goes_there_and_back(dtype: str, register: Register) -> None:
    register("test.f", lambda x, y: x[::-1])
    type_ = TensorType((N,), dtype)
    run = compiled(graph_of([type_], lambda b, x: called(b, "test.f", x, results=[x])))
    x = np.array([1, 0, 1, 1, 0], dtypes.numpy_dtype(dtype))
    got = run(x)
    assert got.dtype == x.dtype and got.tobytes() == x[::-1].tobytes()


def test_operands_may_be_inputs_constants_results_scalars_and_empty(register: Register) -> None:
    seen: list[list[np.ndarray]] = []
    register("test.see", lambda *values: seen.append(list(values)))
    register("test.f", double)

    def build(b: Builder, x: Value) -> list[Value]:
        (y,) = called(b, "test.f", x, results=[x])
        called(b, "test.see", x, b.constant(np.array([7, 8], np.int16)), y, b.constant(3.5, "float64"), x, y)
        return [y]

    run = compiled(graph_of([ROWS], build))
    for x in (X, np.zeros((0, 3), np.float32)):
        np.testing.assert_array_equal(run(x), 2 * x)
        for got, wanted in zip(seen.pop(), [x, np.array([7, 8], np.int16), 2 * x, np.array(3.5), x, 2 * x], strict=True):
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)


def test_results_whose_size_is_known_only_during_the_run(register: Register) -> None:
    register("test.f", lambda x, y: x + 1)

    def build(b: Builder, x: Value) -> list[Value]:
        places = b.call("argwhere", x)
        (moved,) = called(b, "test.f", places, results=[places])
        (again,) = called(b, "test.f", moved, results=[places])
        return [b.call("add", moved, again), again]

    run = compiled(graph_of([ROWS], build))
    for x in (X, np.zeros((4, 3), np.float32)):
        first, second = run(x)
        np.testing.assert_array_equal(first, 2 * np.argwhere(x) + 3)
        np.testing.assert_array_equal(second, np.argwhere(x) + 2)


@pytest.mark.parametrize(("shape", "message"), [
    ("n - 5", "a tensor would have a negative size, or more bytes than 64 bits"),
    ("n*n*n*n*n*n*n*n, n*n*n*n*n*n*n*n", "these shapes need more memory than 64 bits count"),
])
def test_sizes_that_no_tensor_has_are_refused(shape: str, message: str, register: Register) -> None:
    register("test.f", lambda x, y: pytest.fail("called"))
    text = (f'def @main(%x: Tensor[(n), float32]) {{ %0 = call_registered(%x, function="test.f", shapes=[[{shape}]], '
            'dtypes=["float32"]); sum(%0) }')
    run = compile_module(IRModule(text).mod, check_options(), use_cache=False).runtime()
    with pytest.raises(InputError, match=message):
        run(np.zeros(3 if "-" in shape else 64, np.float32))


def region(types: Sequence[Type], build: Build) -> Graph:
    return graph_of(types, build)


@pytest.mark.parametrize("level", [0, 3])
def test_effects_happen_in_order_in_regions_too(level: int, register: Register) -> None:
    said: list[str] = []
    for name in ("begin", "then", "else", "body", "end"):
        register(f"test.{name}", lambda x, name=name: said.append(f"{name} {x.sum():g}"))

    def saying(name: str) -> Build:
        def build(b: Builder, *values: Value) -> list[Value]:
            called(b, f"test.{name}", values[-1])
            return list(values)

        return build

    def body(b: Builder, i: Value, go: Value, total: Value) -> list[Value]:
        more = b.call("add", total, b.constant(1, F32))
        called(b, "test.body", more)
        return [go, more]

    def build(b: Builder, flag: Value, x: Value) -> list[Value]:
        called(b, "test.begin", x)
        b.node("if", [flag, x], {}, [region([ROWS], saying("then")), region([ROWS], saying("else"))])  # of which nothing is used
        called(b, "test.begin", x)
        end = b.node("loop", [b.constant(3, "int64"), None, x], {"num_carried": 1}, [region([COUNT, FLAG, ROWS], body)]).result
        called(b, "test.end", end)
        return [b.call("abs", x)]

    run = compiled(graph_of([FLAG, ROWS], build), level)
    for flag in (True, False):
        said.clear()
        run(np.array(flag), np.ones((1, 3), np.float32))
        assert said == ["begin 3", "then 3" if flag else "else 3", "begin 3", "body 6", "body 9", "body 12", "end 12"]


def test_what_a_function_keeps_stays_as_it_was(register: Register) -> None:
    kept: list[np.ndarray] = []

    def keep(x: np.ndarray, y: np.ndarray) -> None:
        y[...] = x + 1
        kept.extend((x, y, x[1:]))

    register("test.f", keep)
    big = TensorType((N, 1000), F32)
    run = compiled(graph_of([big], lambda b, x: [b.call("sum", *called(b, "test.f", b.call("exp", x), results=[x]))]))
    x = np.zeros((300, 1000), np.float32)
    for _ in range(3):
        run(x)
    del run
    gc.collect()
    for value, result, part in zip(kept[::3], kept[1::3], kept[2::3], strict=True):
        assert (value == 1).all() and (part == 1).all() and (result == 2).all()
        assert not value.flags.writeable and result.flags.writeable


def test_exceptions_come_back_as_they_are_with_the_place(register: Register) -> None:
    raised = LookupError("no such row")

    def fail(x: np.ndarray, y: np.ndarray) -> None:
        raise raised

    register("test.f", fail)
    run = one_call()
    with pytest.raises(LookupError) as caught:
        run(X)
    assert caught.value is raised
    note = "model 'main': node call_registered (call_registered): the function 'test.f': it raised an exception"
    assert raised.__notes__ == [note]
    assert traceback.extract_tb(raised.__traceback__)[-1].name == "fail"
    values = {name: v for frame, _ in traceback.walk_tb(raised.__traceback__) for name, v in frame.f_locals.items()}
    np.testing.assert_array_equal(values["x"], X)
    register("test.f", double, override=True)
    np.testing.assert_array_equal(run(X), 2 * X)


def test_ctrl_c_in_a_function_ends_the_call(register: Register) -> None:
    def interrupt(x: np.ndarray, y: np.ndarray) -> None:
        raise KeyboardInterrupt

    register("test.f", interrupt)
    with pytest.raises(KeyboardInterrupt):
        one_call()(X)


def test_messages_name_the_part_of_the_model(register: Register) -> None:
    def fail(x: np.ndarray) -> None:
        raise OSError("disk")

    register("test.fail", fail)

    def body(b: Builder, i: Value, go: Value, x: Value) -> list[Value]:
        b.location = "encoder/layer.3"
        b.call_multi("call_registered", x, function="test.fail", name="spy")
        return [go, x]

    def build(b: Builder, x: Value) -> list[Value]:
        trips, regions = b.constant(2, "int64"), [region([COUNT, FLAG, ROWS], body)]
        return [b.node("loop", [trips, None, x], {"num_carried": 1}, regions).result]

    with pytest.raises(OSError) as caught:
        compiled(graph_of([ROWS], build))(X)
    (note,) = caught.value.__notes__
    assert note == ("model 'main': node spy in encoder/layer.3 (call_registered): the function 'test.fail': "
                    "it raised an exception")


@pytest.mark.parametrize(("returned", "message"), [
    (X.T.copy(), r"result 0; got float32 \[3, 2\]; expected float32 \[2, 3\]; nothing is converted or broadcast silently"),
    (X[:1], r"result 0; got float32 \[1, 3\]; expected float32 \[2, 3\]"),
    (X.astype(np.float64), r"result 0; got float64 \[2, 3\]; expected float32 \[2, 3\]"),
    (np.float32(1), r"result 0; got float32 \[\]; expected float32 \[2, 3\]"),
    ((X, X), r"result 0; got tuple; expected float32 \[2, 3\]"),
    (7, r"result 0; got int; expected float32 \[2, 3\]"),
])
def test_results_of_the_wrong_type_are_refused(returned: Any, message: str, register: Register) -> None:
    register("test.f", lambda x, y: returned)
    place = r"model 'main': node call_registered \(call_registered\): the function 'test.f': "
    with pytest.raises(FunctionError, match=place + message):
        one_call()(X)


def test_several_results_are_returned_as_a_tuple_or_filled(register: Register) -> None:
    register("test.f", print)
    run = compiled(graph_of([ROWS], lambda b, x: called(b, "test.f", x, results=[x, TensorType((), "int64")])))
    for function in (lambda x, y, n: (-x, np.int64(5)), lambda x, y, n: [-x, np.array(5)]):
        register("test.f", function, override=True)
        values, count = run(X)
        np.testing.assert_array_equal(values, -X)
        assert count == 5
    register("test.f", lambda x, y, n: (x,), override=True)
    with pytest.raises(FunctionError, match=r"number of results; got 1; expected 2, or None where it fills its last arguments"):
        run(X)


def test_operands_cannot_be_written(register: Register) -> None:
    def write(x: np.ndarray, y: np.ndarray) -> None:
        x[...] = 0

    register("test.f", write)
    with pytest.raises(ValueError, match=r"read-only"):
        one_call()(X)


def test_functions_may_call_models(register: Register) -> None:
    register("test.inner", double)
    inner = one_call("test.inner")
    register("test.f", lambda x, y: inner(x) + 1)
    run = one_call()
    np.testing.assert_array_equal(run(X), 2 * X + 1)
    depth = []

    def recurse(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        depth.append(x)
        return run(x + 1) if len(depth) < 20 else x

    register("test.f", recurse, override=True)
    np.testing.assert_array_equal(run(X), X + 19)


def test_calls_of_many_threads(register: Register) -> None:
    threads = set()

    def spread(x: np.ndarray, y: np.ndarray) -> None:
        threads.add(threading.get_ident())
        time.sleep(0.001)
        np.multiply(x, 2, out=y)

    register("test.f", spread)
    run = one_call()

    def often(number: int) -> bool:
        x = X + number
        return all((run(x) == 2 * x).all() for _ in range(20)) and threading.get_ident() in threads

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(often, range(8)))


def test_time_limits_hold_after_a_function(register: Register) -> None:
    register("test.f", lambda x, y: time.sleep(0.05))
    run = one_call()
    run(X)
    with pytest.raises(TimeLimitError):
        run.limited(time_limit=0.01)(X)


def test_loading_lists_all_that_is_missing(tmp_path: Path, register: Register) -> None:
    def build(b: Builder, x: Value) -> list[Value]:
        for name in ("test.zeta", "test.alpha", "test.alpha"):
            called(b, name, x)
        other = region([ROWS], lambda b, y: called(b, "test.inside", y, results=[y]))
        flag = b.call("less", b.call("sum", x), b.constant(0, F32))
        return [b.node("if", [flag, x], {}, [other, region([ROWS], lambda b, y: [b.call("abs", y)])]).result]

    ir = IRModule(Module(graph_of([ROWS], build)))
    ir.compile(output_path=tmp_path / "build")
    message = (r"model 'main': 3 of the functions that it calls are not registered: 'test.alpha', 'test.inside', 'test.zeta'; "
               r"register them before it is loaded \(forge_register; in Python forge.register_func\)")
    for load in (lambda: Runtime(tmp_path / "build"), ir.get_inference_function):
        with pytest.raises(FunctionError, match=message):
            load()
    assert read_metadata(tmp_path / "build")["registered"] == ["test.alpha", "test.inside", "test.zeta"]
    for name in ("test.alpha", "test.zeta"):
        register(name, lambda x: None)
    with pytest.raises(FunctionError, match=r"1 of the functions that it calls are not registered: 'test.inside'; register"):
        Runtime(tmp_path / "build")
    register("test.inside", double)
    run = Runtime(tmp_path / "build")
    np.testing.assert_array_equal(run(-X), -2 * X)
    forge.remove_registered_func("test.inside")
    np.testing.assert_array_equal(run(X), X)
    with pytest.raises(FunctionError, match=r"the function 'test.inside': it is not registered any more; register it again"):
        run(-X)


def test_pure_calls_are_merged_and_unused_ones_removed(register: Register) -> None:
    count: list[int] = []

    def counted(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        count.append(1)
        return x + 1

    register("test.f", counted)

    def build(b: Builder, x: Value) -> list[Value]:
        first, second, _ = [called(b, "test.f", v, results=[x], op="call_registered_pure")[0] for v in (x, x, b.call("exp", x))]
        return [b.call("add", first, second)]

    np.testing.assert_array_equal(compiled(graph_of([ROWS], build))(X), 2 * X + 2)
    assert len(count) == 1


@pytest.mark.parametrize("option", ["float16", "bfloat16"])
def test_narrow_types_stay_out_of_functions(option: str, register: Register) -> None:
    register("test.f", double)

    def build(b: Builder, x: Value) -> list[Value]:
        weight = b.constant(np.eye(3, dtype=np.float32))
        (y,) = called(b, "test.f", b.call("nn.dense", x, weight), results=[x])
        return [b.call("nn.dense", y, weight)]

    graph = graph_of([ROWS], build)
    run = compile_module(Module(graph), check_options(**{option: True}), use_cache=False).runtime()
    np.testing.assert_allclose(run(X), 2 * X, rtol=1e-2)


COUNTER = """def @main(%x: Tensor[(3), float32], state %total: Tensor[(3), float32]) {
  %0 = add(%total, %x);
  %1 = call_registered(%total, %0, function="test.see");
  (%0, %total = %0)
}
"""


def test_functions_in_sessions(register: Register) -> None:
    seen: list[list[float]] = []
    x = np.ones(3, np.float32)
    register("test.see", lambda before, after: seen.append([before[0], after[0]]))
    run = compile_module(IRModule(COUNTER).mod, check_options(), use_cache=False).runtime()
    session = run.session()
    assert [session(x)[0] for _ in range(3)] == [1, 2, 3]
    assert seen == [[0, 1], [1, 2], [2, 3]]

    def again(before: np.ndarray, after: np.ndarray) -> None:
        session(x)

    register("test.see", again, override=True)
    with pytest.raises(InputError) as caught:
        session(x)
    assert "the function 'test.see': it raised an exception" in caught.value.__notes__[0]
    register("test.see", lambda before, after: None, override=True)
    session.reset()
    assert session(x)[0] == 1
