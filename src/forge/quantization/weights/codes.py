"""Codes for constant weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.quantization.observed.ranges import MIN_SCALE
from forge.quantization.weights.channels import along


@dataclass(frozen=True)
class QuantizedWeight:
    """``(codes - zero) * scale``: one scale and zero point, or one for each index along ``axis``."""

    codes: np.ndarray
    scale: np.ndarray
    zero: np.ndarray | None
    axis: int

    @property
    def real(self) -> np.ndarray:
        """float32"""
        whole = self.codes.astype(np.int32)
        if self.zero is not None:
            whole = whole - self._along(self.zero.astype(np.int32))
        real: np.ndarray = whole.astype(np.float32) * self._along(self.scale)
        return real

    def _along(self, parameters: np.ndarray) -> np.ndarray:
        return parameters.reshape(along(self.axis, self.codes.ndim) if parameters.size > 1 else ())


def quantized_weight(array: np.ndarray, axis: int, dtype: str, per_channel: bool) -> QuantizedWeight:
    """Rounds a weight to codes: int8 without zero point, or uint8 with one, for all or for each index along ``axis``."""
    others = tuple(k for k in range(array.ndim) if k != axis) if per_channel else None
    low, high = np.minimum(array.min(axis=others), 0), np.maximum(array.max(axis=others), 0)
    least, most = dtypes.integer_range(dtype)
    shape = along(axis, array.ndim) if per_channel else []
    size = np.maximum(-low, high) if least < 0 else high - low
    scale = np.maximum(size / most, MIN_SCALE).astype(np.float32)
    zero = None if least < 0 else np.clip(np.rint(-low / scale), least, most).astype(dtype)
    codes = np.rint(array / scale.reshape(shape)) + (0 if zero is None else zero.reshape(shape))
    return QuantizedWeight(np.clip(codes, max(least, -most), most).astype(dtype), scale, zero, axis)
