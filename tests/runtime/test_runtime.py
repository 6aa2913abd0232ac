"""``Runtime``: calling models from Python, and every mistake a caller can make."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from forge_runtime import CpuFeatureError, ExecutionError, InputError, Runtime
from tests.runtime.building import Build


def rows_inputs(n: int = 3, k: int = 2) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(n)
    x, y = random.random((n, 4), np.float32), random.random((n, k), np.float32)
    return x, y, np.arange(2 * k + 1)


def rows_expected(x: Any, y: Any, z: Any) -> tuple[Any, int]:
    return x + np.array([1, 2, 3, 4], np.float32) + y.sum(1, keepdims=True), z.sum()


def check_rows(results: list[Any], inputs: tuple[Any, Any, Any]) -> None:
    rows, total = rows_expected(*inputs)
    np.testing.assert_allclose(results[0], rows, rtol=1e-6)
    assert results[0].dtype == np.float32 and results[1].shape == () and results[1] == total


@pytest.fixture
def rows(build: Build) -> Runtime:
    return Runtime(build("rows"))


def test_one_output_comes_as_array(build: Build) -> None:
    output = Runtime(build("identity"))(np.array([7], np.float32))
    assert type(output) is np.ndarray and output.dtype == np.float32 and output.tolist() == [7]


@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 2), (1000, 7), (0, 3)])
def test_symbolic_sizes(rows: Runtime, n: int, k: int) -> None:
    inputs = rows_inputs(n, k)
    check_rows(rows(*inputs), inputs)


def test_every_calling_form(rows: Runtime) -> None:
    x, y, z = inputs = rows_inputs()
    named = {"z": z, "x": x, "y": y}
    for results in (rows(x, y, z=z), rows(**named), rows([x, y, z]), rows(named), rows.run(named), rows.run(inputs)):
        assert type(results) is list
        check_rows(results, inputs)


def test_given_outputs_are_written_in_place(rows: Runtime) -> None:
    inputs = rows_inputs()
    out = np.empty((3, 4), np.float32)
    for outputs in ([out, None], {"rows": out}):
        out[:] = 0
        results = rows.run(inputs, outputs)
        assert results[0] is out
        check_rows(results, inputs)


def test_strided_misaligned_and_read_only_inputs(rows: Runtime) -> None:
    x, y, z = inputs = rows_inputs(6)
    padded = np.zeros(x.nbytes + 1, np.uint8)
    misaligned = padded[1:].view(np.float32).reshape(x.shape)
    misaligned[:] = x
    y.flags.writeable = False
    check_rows(rows(misaligned, np.asfortranarray(y), z), inputs)
    check_rows(rows(x[::2], y[::-1][::2], z), (x[::2], y[::-1][::2], z))


class ArrayOnly:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


class DLPackOnly:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_arrays_of_other_frameworks(rows: Runtime) -> None:
    x, y, z = inputs = rows_inputs()
    check_rows(rows(DLPackOnly(x), y, z), inputs)
    check_rows(rows(np.ma.masked_array(x), ArrayOnly(y), z), inputs)


def test_introspection(rows: Runtime) -> None:
    assert rows.name == "rows" and rows.symbols == ["n", "k"]
    assert rows.input_names == ["x", "y", "z"] and rows.input_dtypes == ["float32", "float32", "int64"]
    assert rows.input_shapes == [("n", 4), ("n", "k"), (None,)]
    assert rows.output_names == ["rows", "total"] and rows.output_dtypes == ["float32", "int64"]
    assert rows.output_shapes == [("n", 4), ()]
    assert repr(rows) == "<Runtime rows(x: float32[n, 4], y: float32[n, k], z: int64[?]) -> rows: float32[n, 4], total: int64[]>"


def test_names_of_the_latent_runtime(build: Build) -> None:
    layouts = [{"name": "x", "shape": [1], "dtype": "float32", "layout": "C"}]
    model = Runtime(build("identity", uuid="1234", inputs=layouts))
    assert model.model_id == "1234" and model.model_precision == "float32" and model.device_type == "cpu"
    assert model.input_layouts == ["C"] and model.get_metadata() == model.metadata
    model.infer(np.array([2], np.float32))
    assert model.get_outputs()[0].tolist() == [2] and model.get_output(0).tolist() == [2]
    model.infer([np.array([3], np.float32)])
    assert np.from_dlpack(model.get_output(0)).tolist() == [3]
    model.warm_up(3)
    model.set_model_precision("float32")
    with pytest.raises(ValueError, match="got 'int8'; expected 'float32'"):
        model.set_model_precision("int8")
    with pytest.raises(IndexError, match="output 1"):
        model.get_output(1)


def test_warm_up_needs_inputs_where_sizes_are_expressions(rows: Runtime) -> None:
    with pytest.raises(InputError, match="input 'z': its size is computed from symbols"):
        rows.warm_up(1)
    rows.warm_up(2, rows_inputs())


def mistakes() -> dict[str, tuple[Callable[[Any, Any, Any], tuple[tuple[Any, ...], dict[str, Any]]], str]]:
    return {
        "count": (lambda x, y, z: ((x, y), {}), r"wrong number of inputs; got 2; expected 3"),
        "missing": (lambda x, y, z: ((x,), {"y": y}), r"missing \['z'\]"),
        "name": (lambda x, y, z: ((x, y), {"q": z}), r"no such name; got \['q'\]; expected names of \['x', 'y', 'z'\]"),
        "twice": (lambda x, y, z: ((x, y, z), {"x": x}), r"by position and by name: \['x'\]"),
        "dtype": (lambda x, y, z: ((x.astype(float), y, z), {}), r"input 'x': wrong dtype; got float64; expected float32"),
        "byte order": (lambda x, y, z: ((x.astype(">f4"), y, z), {}), r"float32 of foreign byte order"),
        "integer": (lambda x, y, z: ((x, y, z.astype(np.int32)), {}), r"input 'z': wrong dtype; got int32; expected int64"),
        "object": (lambda x, y, z: ((x.astype(object), y, z), {}), r"got object; expected float32"),
        "string": (lambda x, y, z: ((np.array(["a"]), y, z), {}), r"got str32; expected float32"),
        "list": (lambda x, y, z: (([[1.0]], y, z), {}), r"input 'x': not an array; got list"),
        "none": (lambda x, y, z: ((None, y, z), {}), r"input 'x': not an array; got NoneType"),
        "rank": (lambda x, y, z: ((x[0], y, z), {}), r"input 'x': wrong rank; got 1, shape \[4\]; expected 2, shape \[n, 4\]"),
        "high rank": (lambda x, y, z: ((x.reshape(3, 4, *[1] * 9), y, z), {}), r"rank out of range; got 11; expected at most 8"),
        "fixed size": (lambda x, y, z: ((x[:, :3], y, z), {}), r"wrong shape; got \[3, 3\]; expected \[n, 4\]; see dimension 1"),
        "symbol": (
            lambda x, y, z: ((x, y[1:], z), {}),
            r"input 'y', dimension 0: symbol 'n' has two values; got 2; expected 3, the size of input 'x', dimension 0",
        ),
        "expression": (
            lambda x, y, z: ((x, y, z[1:]), {}),
            r"input 'z', dimension 0: wrong size; got 4; expected 5 for n = 3, k = 2",
        ),
    }


@pytest.mark.parametrize("mistake", mistakes())
def test_wrong_inputs(rows: Runtime, mistake: str) -> None:
    make, message = mistakes()[mistake]
    positional, named = make(*rows_inputs())
    with pytest.raises(InputError, match=message) as caught:
        rows(*positional, **named)
    assert isinstance(caught.value, ValueError)
    check_rows(rows(*rows_inputs()), rows_inputs())


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ([np.empty((3, 4), np.float32)], r"wrong number of outputs; got 1; expected 2"),
        ([np.empty((3, 4)), None], r"output 'rows': wrong array; got float64 \[3, 4\]; expected float32 \[3, 4\]"),
        ([np.empty((3, 5), np.float32), None], r"got float32 \[3, 5\]; expected float32 \[3, 4\]"),
        ([np.empty((4, 3), np.float32).T, None], r"must be C-contiguous, aligned and writable"),
        ([np.broadcast_to(np.float32(0), (3, 4)), None], r"must be C-contiguous, aligned and writable"),
        ([[0.0], None], r"got list; expected a NumPy array, an object with __dlpack__, or None"),
        ({"x": None}, r"output: no such name; got \['x'\]"),
    ],
)
def test_wrong_outputs(rows: Runtime, outputs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rows.run(rows_inputs(), outputs)


def test_overlapping_outputs_are_refused(rows: Runtime) -> None:
    x, y, z = rows_inputs()
    with pytest.raises(InputError, match="memory of output 'rows' overlaps that of 'x'"):
        rows.run((x, y, z), [x, None])


def test_data_dependent_size(build: Build) -> None:
    model = Runtime(build("nonzero"))
    assert model.output_shapes == [("found",)]
    output = model(np.array([0, 1, 0, 2], np.float32))
    del model
    gc.collect()
    assert output.tolist() == [1, 3] and output.dtype == np.int64
    output[0] = 5
    assert Runtime(build("nonzero"))(np.zeros(3, np.float32)).shape == (0,)


def test_data_dependent_output_cannot_be_given(build: Build) -> None:
    with pytest.raises(InputError, match="its size depends on data"):
        Runtime(build("nonzero")).run([np.ones(2, np.float32)], [np.empty(2, np.int64)])


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_error_in_a_kernel(build: Build, threads: int) -> None:
    model = Runtime(build("nonzero"), num_threads=threads)
    x = np.ones(1000, np.float32)
    x[::3] = np.nan
    for _ in range(20):
        with pytest.raises(ExecutionError, match=r"^model 'nonzero': node 'NonZero_0': a value is NaN$"):
            model(x)
    assert len(model(np.ones(5, np.float32))) == 5


def test_bfloat16(build: Build) -> None:
    model = Runtime(build("negate"))
    x = np.array([1, -2, 3], ml_dtypes.bfloat16)
    output = model(x)
    assert output.dtype == x.dtype and output.tolist() == [-1, 2, -3]
    given = np.empty(3, ml_dtypes.bfloat16)
    assert model.run([x], [given])[0] is given and given.tolist() == [-1, 2, -3]
    for wrong in (x.view(np.uint16), x.astype(np.float16)):
        with pytest.raises(InputError, match=f"got {wrong.dtype}; expected bfloat16"):
            model(wrong)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_callers_at_once(rows: Runtime, threads: int) -> None:
    rows.set_num_threads(threads)

    def call(seed: int) -> None:
        for round_ in range(50):
            inputs = rows_inputs(1 + (seed * 7 + round_) % 200, 3)
            check_rows(rows(*inputs), inputs)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(call, range(6)))


def test_runs_without_the_interpreter_lock(build: Build) -> None:
    """A call that waits in native code lets another Python thread go on."""
    body = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
    entered, release = threading.Event(), threading.Event()

    def wait(call: int) -> int:
        entered.set()
        return 0 if release.wait(20) else 1

    callback = body(wait)
    model = Runtime.from_jit(*jit_model(callback))
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(model)
        assert entered.wait(20)
        release.set()
        assert result.result(20) == []


class Descriptor(ctypes.Structure):
    """``forge_model``."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("abi_version", "n_inputs", "n_outputs", "n_symbols", "n_dims", "reserved")),
        ("name", ctypes.c_char_p),
        ("cpu_features", ctypes.c_char_p),
        *((name, ctypes.c_void_p) for name in ("symbol_names", "inputs", "outputs", "weights")),
        ("weights_size", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("arena_size", "dims", "entry")),
    ]


def jit_model(entry: Any, **fields: Any) -> tuple[int, object]:
    address = ctypes.cast(entry, ctypes.c_void_p).value
    descriptor = Descriptor(**{"abi_version": 2, "name": b"jit", "cpu_features": b"", "entry": address, **fields})
    return ctypes.addressof(descriptor), (descriptor, entry)


def test_jit_model_keeps_its_code_and_copies_its_weights() -> None:
    class Call(ctypes.Structure):
        _fields_ = [("inputs", ctypes.c_void_p), ("outputs", ctypes.c_void_p), ("weights", ctypes.c_void_p)]

    seen = []

    def entry(call: Any) -> int:
        seen.append(ctypes.string_at(call.contents.weights, 4))
        return 0

    weights = bytearray(b"abcd")
    arguments = jit_model(ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(Call))(entry), weights_size=4)
    model = Runtime.from_jit(*arguments, weights, metadata={"uuid": "u"})
    del arguments
    weights[:] = b"----"
    gc.collect()
    assert model() == [] and seen == [b"abcd"] and model.model_id == "u"


def test_jit_model_of_another_interface_version() -> None:
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(lambda call: 0)
    with pytest.raises(ValueError, match="interface version; got 99; expected 2"):
        Runtime.from_jit(*jit_model(entry, abi_version=99))


def test_jit_model_with_wrong_size_of_weights() -> None:
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(lambda call: 0)
    with pytest.raises(ValueError, match="wrong size of weights; got 3 bytes; expected 8"):
        Runtime.from_jit(*jit_model(entry, weights_size=8), b"abc")


def test_missing_cpu_feature(build: Build) -> None:
    feature = "amx-complex" if "amx_complex" not in Path("/proc/cpuinfo").read_text() else "xop"
    for options in ({"features": feature}, {"cpu_features": f"sse2,{feature}"}):
        with pytest.raises(CpuFeatureError, match=f"needs the CPU feature '{feature}', which this CPU lacks"):
            Runtime(build("identity", **options))


def test_calls_after_fork(rows: Runtime) -> None:
    inputs = rows_inputs(500)
    rows.set_num_threads(2)
    check_rows(rows(*inputs), inputs)
    child = os.fork()
    if child == 0:
        try:
            check_rows(rows(*inputs), inputs)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(wait_for(child)) == 0


def wait_for(child: int) -> int:
    for _ in range(1000):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    os.kill(child, 9)
    return os.waitpid(child, 0)[1]


def test_no_leaks(rows: Runtime) -> None:
    inputs = rows_inputs(64)
    before = [sys.getrefcount(value) for value in inputs]
    for _ in range(100):
        rows(*inputs)
        with pytest.raises(InputError):
            rows(inputs[0], inputs[1], inputs[0])
    assert [sys.getrefcount(value) for value in inputs] == before


def test_imports_no_compiler_and_no_framework() -> None:
    code = (
        "import sys, forge_runtime; "
        "print([m for m in ('forge', 'llvmlite', 'onnx', 'torch', 'ml_dtypes', 'cryptography') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
