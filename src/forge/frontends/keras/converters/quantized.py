"""Quantized layers: weights stay integers, and what is computed with them is what Keras computes.

Keras's scales are factors by which numbers were multiplied: integers are divided by them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forge.frontends.keras.context import Context
from forge.ir.nodes import Value

_EPSILON = 1e-7
_FLOAT8 = 448.0
"""The largest number of float8_e4m3fn."""
_SPECS = {
    "int8": ("kernel", "bias", "kernel_scale"),
    "int4": ("kernel", "bias", "kernel_scale", "kernel_zero", "g_idx"),
    "float8": ("kernel", "bias", "inputs_scale", "inputs_amax_history", "kernel_scale"),
    "gptq": ("bias", "kernel", "kernel_scale", "kernel_zero", "g_idx"),
    "awq": ("bias", "kernel", "kernel_scale", "kernel_zero", "awq_scales", "g_idx"),
}
"""Variables in the order in which Keras stores them; a layer without a bias has none."""


class Stored:
    """The variables of a quantized layer, which are at ``path`` in it."""

    def __init__(self, g: Context, mode: str, use_bias: bool, path: str = "") -> None:
        if mode not in _SPECS:
            raise g.unsupported(f"quantization {mode!r}: not supported; expected one of: {', '.join(_SPECS)}")
        self.g, self.path, self.mode = g, path, mode
        self.names = [name for name in _SPECS[mode] if name != "bias" or use_bias]

    def array(self, name: str) -> np.ndarray | None:
        return self.g.weight_array(self.names.index(name), self.path) if name in self.names else None

    def required(self, name: str) -> np.ndarray:
        found = self.array(name)
        if found is None:
            raise self.g.invalid(f"weight {name!r} is not in the file; expected one; the file is incomplete")
        return found

    def bias(self) -> Value:
        return self.g.weight(self.names.index("bias"), self.path)


def has_inputs_quantizer(g: Context, mode: str) -> bool:
    """Whether inputs are integers, too; so it is for int8 unless the configuration says that there is no quantizer."""
    config = g.layer.config.get("quantization_config")
    inner = config.get("config") if isinstance(config, Mapping) else None
    if isinstance(inner, Mapping) and "activation_quantizer" in inner:
        quantizer = inner["activation_quantizer"]
        if quantizer is not None and quantizer.get("class_name") != "AbsMaxQuantizer":
            raise g.unsupported(f"activation_quantizer: got {quantizer.get('class_name')}; supported: AbsMaxQuantizer")
        return quantizer is not None
    return mode == "int8"


def absolute_maximum(g: Context, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """Numbers as int8, and their scale: 127 over the largest absolute value along ``axes``."""
    largest = g.call("add", g.call("max", g.call("abs", x), axis=tuple(axes), keepdims=True), g.scalar(_EPSILON, x))
    scale = g.call("divide", g.scalar(127, x), largest)
    whole = g.call("clip", g.call("round", g.call("multiply", x, scale)), a_min=-127.0, a_max=127.0)
    return g.cast(whole, "int8"), scale


def unpacked(packed: np.ndarray, size: int, axis: int) -> np.ndarray:
    """Integers of 4 bits, two in a byte, the lower half first, as those of a whole byte."""
    low, high = packed & 15, packed.view(np.uint8) >> 4
    pairs = np.stack([low.view(np.uint8), high], axis=axis % packed.ndim + 1)
    shape = list(packed.shape)
    shape[axis] *= 2
    return pairs.reshape(shape).take(range(size), axis=axis)


def _signed(nibbles: np.ndarray) -> np.ndarray:
    return (nibbles.astype(np.int8) ^ 8) - 8


def _matrix(g: Context, stored: Stored, columns: int) -> Value:
    """The kernel [K, N] of a layer whose inputs are numbers, from its integers."""
    dtype = g.layer.policy.compute
    kernel, scale, zero = stored.required("kernel"), stored.required("kernel_scale"), None
    if stored.mode == "int4":
        whole = _signed(unpacked(kernel, columns, -1))
        if scale.ndim < 2:
            return _dequantized(g, whole, 1 / scale, None, dtype)
        zero = stored.required("kernel_zero").astype(np.int8)
    elif stored.mode == "int8":
        return _dequantized(g, kernel.reshape(-1, columns), 1 / scale.reshape(-1), None, dtype)
    else:
        width = scale.shape[0]
        bits4 = kernel.shape[0] * 2 - width in (0, 1) and kernel.shape[0] != width
        whole = (unpacked(kernel, width, 0) if bits4 else kernel).T
        scale, zero = scale.T, stored.required("kernel_zero").T
    groups = stored.required("g_idx").astype(np.int64)
    if groups.shape != (whole.shape[0],) or groups.size and not 0 <= groups.min() <= groups.max() < len(scale):
        raise g.invalid(f"g_idx: got groups for {groups.shape} rows; expected one of {len(scale)} for each of {whole.shape[0]}")
    rows = g.cast(g.constant(whole), dtype)
    places = g.constant(groups)
    factors, zeros = (g.call("take", g.cast(g.constant(np.ascontiguousarray(v)), dtype), places, axis=0) for v in (scale, zero))
    found = g.call("multiply", g.call("subtract", rows, zeros), factors)
    if stored.mode == "awq":
        found = g.call("divide", found, g.call("expand_dims", g.cast(g.constant(stored.required("awq_scales")), dtype), axis=1))
    return found


def _dequantized(g: Context, whole: np.ndarray, scale: np.ndarray, zero: np.ndarray | None, dtype: str) -> Value:
    factors = g.cast(g.constant(np.ascontiguousarray(scale)), dtype)
    return g.call("qnn.dequantize", g.constant(np.ascontiguousarray(whole)), factors, out_dtype=dtype, axis=1)


def _float8(g: Context, x: Value, scale: np.ndarray) -> Value:
    factor = g.constant(float(scale), x.dtype)
    small = g.call("clip", g.call("divide", x, factor), a_min=-_FLOAT8, a_max=_FLOAT8)
    return g.call("multiply", g.cast(g.cast(small, "float8_e4m3fn"), x.dtype), factor)


def flat_product(g: Context, x: Value, stored: Stored, columns: int) -> Value:
    """``x``, of any rank, times the kernel [K, columns]."""
    from forge.frontends.keras.converters.core import product

    dtype = g.layer.policy.compute
    if stored.mode == "float8":
        kernel = g.cast(g.constant(stored.required("kernel").reshape(-1, columns)), dtype)
        return product(g, _float8(g, x, stored.required("inputs_scale")), _float8(g, kernel, stored.required("kernel_scale")))
    if stored.mode != "int8" or not has_inputs_quantizer(g, stored.mode):
        return product(g, x, _matrix(g, stored, columns))
    kernel = g.constant(stored.required("kernel").reshape(-1, columns))
    whole, scale = absolute_maximum(g, x, (x.rank - 1,))
    found = g.call("nn.dense", whole, g.call("transpose", kernel, axes=(1, 0)), units=columns, out_dtype="int32")
    factors = g.cast(g.constant(stored.required("kernel_scale").reshape(-1)), dtype)
    return g.call("divide", g.cast(found, dtype), g.call("multiply", scale, factors))


def dense(g: Context, x: Value, units: int, use_bias: bool) -> Value:
    """The result of a quantized ``Dense`` layer, before its activation."""
    stored = Stored(g, g.layer.policy.mode, use_bias)
    found = flat_product(g, x, stored, units)
    return g.call("add", found, stored.bias()) if use_bias else found


def projected(g: Context, path: str, x: Value, made: Sequence[int], inputs: int, use_bias: bool, mode: str) -> Value:
    """``x`` times a quantized kernel at ``path``: its last ``inputs`` axes are summed over, those of sizes ``made`` are new."""
    stored = Stored(g, mode, use_bias, path)
    lead, given = x.shape[: x.rank - inputs], x.shape[x.rank - inputs :]
    rows = g.reshape(x, (*lead, math.prod(given))) if inputs > 1 else x
    found = flat_product(g, rows, stored, math.prod(made))
    if use_bias:
        found = g.call("add", found, g.reshape(stored.bias(), (math.prod(made),)))
    return g.reshape(found, (*lead, *made))


def einsum_dense(g: Context, x: Value, equation: str, use_bias: bool, shape: Sequence[Any]) -> Value:
    """The result of a quantized ``EinsumDense`` layer, whose kernel's axes that are summed over come first."""
    left, _, result = equation.replace(" ", "").partition("->")
    of_x, _, of_kernel = left.partition(",")
    summed = [c for c in of_kernel if c not in result]
    made = [c for c in of_kernel if c in result]
    is_plain = of_kernel == "".join(summed + made) and of_x.endswith("".join(summed)) and result.endswith("".join(made))
    if not is_plain or of_x[: len(of_x) - len(summed)] != result[: len(result) - len(made)]:
        raise g.unsupported(f"equation: got {equation!r} for a quantized layer; supported: sums over the last axes of the input")
    sizes = list(shape)[-len(made) :]
    if not all(isinstance(size, int) for size in sizes):
        raise g.unsupported(f"output_shape: got {tuple(shape)}; expected the sizes of new axes")
    return projected(g, "", x, sizes, len(summed), use_bias, g.layer.policy.mode)


def embedded(g: Context, indices: Value, depth: int) -> Value:
    """Rows of a quantized table."""
    dtype, mode = g.layer.policy.compute, g.layer.policy.mode
    table, scale = (g.weight_array(k) for k in (0, 1))
    if mode not in ("int8", "int4") or table is None or scale is None:
        raise g.unsupported(f"quantization {mode!r}: not supported; expected int8 or int4")
    whole = _signed(unpacked(table, depth, -1)) if mode == "int4" else table
    rows = g.cast(g.call("take", g.constant(np.ascontiguousarray(whole)), indices, axis=0), dtype)
    factors = g.call("take", g.cast(g.constant(scale), dtype), indices, axis=0)
    if mode == "int8" or scale.ndim < 2:
        return g.call("divide", rows, g.call("expand_dims", factors, axis=factors.rank))
    zero, groups = (g.weight_array(k) for k in (2, 3))
    if zero is None or groups is None:
        raise g.invalid("zero points or groups are not in the file; expected them; the file is incomplete")
    zeros = g.call("take", g.cast(g.constant(zero), dtype), indices, axis=0)
    places = g.constant(groups.astype(np.int64))
    factors, zeros = (g.call("take", v, places, axis=v.rank - 1) for v in (factors, zeros))
    return g.call("multiply", g.call("subtract", rows, zeros), factors)
