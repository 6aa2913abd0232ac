"""Tensors of jax and a compiled model, both ways. Run by ``test_exchange.py`` in a process of its own: jax starts threads."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import forge
from forge_runtime import InputError, Tensor
from forge_runtime.arrays import as_array, numpy_dtype

DTYPES = (
    *("bool", "int8", "int32", "uint8", "uint32", "float16", "bfloat16", "float32", "complex64", "float8_e4m3fn"),
    *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4", "int2", "uint2"),
)
COPIED = ("float4_e2m1fn", "int4", "uint4", "int2", "uint2")


def transposing(dtype: str) -> forge.Runtime:
    text = f"def @main(%x: Tensor[(n, m), {dtype}]) {{ transpose(%x, axes=[1, 0]) }}"
    return forge.IRModule(text).get_inference_function()


def exchange(dtype: str) -> None:
    x = jnp.array(np.arange(6).reshape(2, 3) % 2).astype(getattr(jnp, dtype))
    output = transposing(dtype)(x)
    assert output.tobytes() == np.asarray(x).T.copy().tobytes(), dtype
    if dtype not in COPIED:
        assert as_array(x, "x").ctypes.data == x.unsafe_buffer_pointer(), dtype
    if dtype not in COPIED:
        if numpy_dtype(dtype).isbuiltin == 1:
            assert np.asarray(memoryview(x)).ctypes.data == x.unsafe_buffer_pointer(), dtype
        back = jax.dlpack.from_dlpack(output.view(Tensor))
        assert back.dtype == x.dtype and np.asarray(back).tobytes() == output.tobytes(), dtype


def refuse() -> None:
    model, x = transposing("float32"), jnp.ones((2, 3), jnp.float32)
    try:
        model.run([x], [jnp.zeros((3, 2), jnp.float32)])
    except InputError as error:
        assert "which tensors of jax and tensorflow are not" in str(error)
    else:
        raise AssertionError("an immutable array was written")
    try:
        jax.jit(model)(x)
    except InputError as error:
        assert "cannot be read as an array" in str(error) or "not an array" in str(error), error
    else:
        raise AssertionError("a tracer was read")


if __name__ == "__main__":
    for name in DTYPES:
        exchange(name)
    refuse()
