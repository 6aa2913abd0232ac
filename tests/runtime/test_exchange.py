"""Tensors of torch, jax and tensorflow: into models without a copy, and out of them."""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge import nd
from forge_runtime import InputError, Runtime, Tensor, register_func, registry, remove_registered_func
from forge_runtime.arrays import as_array, numpy_dtype

ROOT = Path(__file__).parent.parent.parent
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32"),
    *("float64", "complex64", "complex128", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    "float8_e8m0fnu",
)


@cache
def transposing(dtype: str) -> Runtime:
    text = f"def @main(%x: Tensor[(n, m), {dtype}]) {{ transpose(%x, axes=[1, 0]) }}"
    return forge.IRModule(text).get_inference_function()


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def make(torch: Any, dtype: str) -> Any:
    return torch.tensor([[0, 1, 2], [3, 4, 5]]).remainder(2).to(getattr(torch, dtype))


def bits(torch: Any, tensor: Any) -> Any:
    return tensor.contiguous().view(torch.uint8).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_both_ways_without_a_copy(torch: Any, dtype: str) -> None:
    x = make(torch, dtype)
    assert as_array(x, "x").ctypes.data == x.data_ptr()
    output = transposing(dtype)(x)
    back = torch.from_dlpack(output)
    assert back.dtype == x.dtype and back.data_ptr() == output.ctypes.data
    assert bits(torch, back) == bits(torch, x.T)
    given = torch.zeros_like(x.T.contiguous())
    assert transposing(dtype).run([x], {"output_0": given})[0] is given and bits(torch, given) == bits(torch, x.T)


def test_torch_outlives_the_output(torch: Any) -> None:
    back = torch.from_dlpack(transposing("bfloat16")(make(torch, "bfloat16")))
    for _ in range(3):
        transposing("bfloat16")(torch.zeros(2, 3, dtype=torch.bfloat16))
    assert bits(torch, back) == bits(torch, make(torch, "bfloat16").T)
    back += 1
    assert back.tolist() == [[1, 2], [2, 1], [1, 2]]


def test_torch_strides_and_sizes(torch: Any) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    for x in (base.T, base[::2, ::3], base[1:, 2:], base[:0], torch.ones(1, 1).expand(3, 4), base.flip(0)):
        np.testing.assert_array_equal(transposing("float32")(x), x.T.numpy())
    complex_base = torch.complex(base, -base)
    np.testing.assert_array_equal(transposing("complex64")(complex_base[:, ::2]), complex_base[:, ::2].T.numpy())


def test_torch_pairs_of_four_bits(torch: Any) -> None:
    x = torch.tensor([[0x21, 0x43]], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    assert transposing("float4_e2m1fn")(x).astype(np.float32).tolist() == [[0.5], [1], [1.5], [2]]


@pytest.mark.parametrize(
    ("dtype", "change", "message"),
    [
        ("float32", lambda torch, x: x.requires_grad_(), r"got requires_grad=True; pass tensor\.detach\(\)"),
        ("float32", lambda torch, x: torch.nn.Parameter(x), r"got requires_grad=True; pass tensor\.detach\(\)"),
        ("complex64", lambda torch, x: (x + 1j).conj(), r"got is_conj\(\)=True; pass tensor\.resolve_conj\(\)"),
        ("float32", lambda torch, x: (x + 1j).conj().imag, r"got is_neg\(\)=True; pass tensor\.resolve_neg\(\)"),
        ("float32", lambda torch, x: x.to("meta"), r"on another device; got meta; expected cpu; pass tensor\.cpu\(\)"),
        ("float32", lambda torch, x: x.to_sparse(), "cannot be read as an array: .*Sparse"),
        ("float32", lambda torch, x: x.double(), "wrong dtype; got float64; expected float32"),
        ("float32", lambda torch, x: x[0], r"wrong rank; got 1, shape \[3\]"),
    ],
)
def test_torch_refused(torch: Any, dtype: str, change: Any, message: str) -> None:
    x = change(torch, make(torch, "float32"))
    with pytest.raises(InputError, match=f"^model 'main': input 'x'.*: .*{message}"):
        transposing(dtype)(x)
    if dtype == "float32" and "sparse" not in message.lower():
        with pytest.raises(InputError, match=r"^model 'main': output 'output_0': "):
            transposing(dtype).run([np.ones((2, 3), np.float32)], [x])


def test_torch_keeps_no_references(torch: Any) -> None:
    memory = np.zeros((2, 3), np.float32)
    alive = weakref.ref(memory)
    x, given, wrong = torch.from_numpy(memory), torch.empty(3, 2), make(torch, "float32").requires_grad_()
    del memory
    held = [sys.getrefcount(tensor) for tensor in (x, given, wrong)]
    for _ in range(100):
        transposing("float32")(x)
        transposing("float32")(x.T.contiguous().T)
        transposing("float32").run([x], [given])
        torch.from_dlpack(transposing("float32")(as_array(x, "x")).view(Tensor))
        with pytest.raises(InputError):
            transposing("float32")(wrong)
    gc.collect()
    assert [sys.getrefcount(tensor) for tensor in (x, given, wrong)] == held and alive() is not None
    del x
    assert alive() is None


def test_torch_parameters_without_gradients(torch: Any) -> None:
    parameter = torch.nn.Parameter(make(torch, "float32"), requires_grad=False)
    assert transposing("float32")(parameter).tolist() == [[0, 1], [1, 0], [0, 1]]
    with torch.no_grad(), pytest.raises(InputError, match="detach"):
        transposing("float32")(torch.nn.Parameter(make(torch, "float32")))


def test_torch_in_sequences(torch: Any) -> None:
    text = "def @main(%s: Sequence[Tensor[(n), float32]]) { sequence_at(%s, 1i64) }"
    model = forge.IRModule(text).get_inference_function()
    assert model([torch.ones(2), torch.arange(6.0)[::2]]).tolist() == [0, 2, 4]


def test_registered_functions_return_tensors(torch: Any) -> None:
    array = np.arange(3).astype(numpy_dtype("bfloat16"))
    register_func("test.exchange", lambda value, out: torch.tensor(value.astype(np.float32)).bfloat16() * 2)
    try:
        (made,) = registry.call("test.exchange", [array], [np.zeros_like(array)])
    finally:
        remove_registered_func("test.exchange")
    assert made.dtype == array.dtype and made.tolist() == [0, 2, 4]


def test_arrays_of_the_seed_systems(torch: Any) -> None:
    x = make(torch, "bfloat16")
    copied = nd.array(x)
    assert copied.dtype.name == "bfloat16" and copied.ctypes.data != x.data_ptr() and copied.tolist() == x.tolist()
    with pytest.raises(InputError, match=r"^nd\.array: .* pass tensor\.detach\(\)"):
        nd.array(x.requires_grad_())


def test_results_of_the_seed_systems(torch: Any) -> None:
    result = transposing("bfloat16")(make(torch, "bfloat16")).view(nd.NDArray)
    assert isinstance(result, Tensor) and torch.from_dlpack(result).data_ptr() == result.ctypes.data


@pytest.mark.parametrize("package", ["jax", "tensorflow"])
def test_in_a_process_of_its_own(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed; it comes with the extra 'exchange'")
    command = [sys.executable, "-m", f"tests.runtime.exchange_{package}"]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
