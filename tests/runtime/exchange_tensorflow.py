"""Tensors of tensorflow and a compiled model, both ways. Run by ``test_exchange.py`` in a process of its own."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import forge
from forge_runtime import InputError, Tensor
from forge_runtime.arrays import as_array, numpy_dtype
from tests.runtime.dlpack_producer import lent

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32"),
    *("float64", "complex64", "complex128"),
)


def transposing(dtype: str) -> forge.Runtime:
    text = f"def @main(%x: Tensor[(n, m), {dtype}]) {{ transpose(%x, axes=[1, 0]) }}"
    return forge.IRModule(text).get_inference_function()


def exchange(dtype: str) -> None:
    x = tf.constant((np.arange(6).reshape(2, 3) % 2).astype(tf.as_dtype(dtype).as_numpy_dtype))
    capsule = x.__dlpack__()
    assert as_array(x, "x").ctypes.data == lent(capsule, versioned=False).tensor.data
    if numpy_dtype(dtype).isbuiltin == 1:
        assert np.asarray(memoryview(x)).ctypes.data == as_array(x, "x").ctypes.data, dtype
    output = transposing(dtype)(x)
    assert output.tobytes() == x.numpy().T.copy().tobytes(), dtype
    back = tf.experimental.dlpack.from_dlpack(output.view(Tensor).__dlpack__())
    assert back.dtype == x.dtype and back.numpy().tobytes() == output.tobytes(), dtype


def without_capsules() -> None:
    """What tensorflow gives by ``__array__`` only."""
    texts = forge.IRModule("def @main(%x: Tensor[(n), string]) { reverse(%x, axis=0) }").get_inference_function()
    assert texts(tf.constant(["a", "bc"])).tolist() == ["bc", "a"]
    eight = transposing("float8_e4m3fn")(tf.cast(tf.constant([[1.0, 2.0]]), tf.dtypes.experimental.float8_e4m3fn))
    assert eight.astype(np.float32).tolist() == [[1], [2]]
    assert transposing("float32")(tf.Variable([[1.0, 2.0]])).tolist() == [[1], [2]]


def refuse() -> None:
    try:
        transposing("float32").run([tf.ones((2, 3))], [tf.zeros((3, 2))])
    except InputError as error:
        assert "which tensors of jax and tensorflow are not" in str(error)
    else:
        raise AssertionError("an immutable tensor was written")


if __name__ == "__main__":
    for name in DTYPES:
        exchange(name)
    without_capsules()
    refuse()
