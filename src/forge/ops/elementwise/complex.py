"""Complex numbers and their parts; arithmetic and functions of complex numbers are rows of ``elementwise``."""

from __future__ import annotations

import numpy as np

from forge import dtypes, te
from forge.ir.op import Accuracy, Precision
from forge.ops.core.signatures import Array, Expr
from forge.ops.elementwise.rows import Row, register_rows


def _make(real: Array, imaginary: Array) -> Array:
    """The parts put together bit by bit, where ``real + 1j * imaginary`` would make NaN of infinities."""
    real, imaginary = np.broadcast_arrays(real, imaginary)
    result = np.empty(real.shape, dtypes.complex_of(dtypes.canonical(real.dtype)))
    result.real, result.imag = real, imaginary
    return result


def _conjugate(x: Expr) -> Expr:
    return te.complex_of(te.real_part(x), te.negate(te.imaginary_part(x)))


def _angle(x: Expr) -> Expr:
    return te.call("atan2", te.imaginary_part(x), te.real_part(x))


register_rows(__name__, [
    Row("complex.make", "real + i * imaginary", _make, te.complex_of, ("real", "imaginary"), "float32 or float64", "complex",
        Accuracy.EXACT, precision=Precision.WIDE),
    Row("complex.real", "the real part of data", np.real, te.real_part, accepts="complex", result="real",
        accuracy=Accuracy.EXACT),
    Row("complex.imag", "the imaginary part of data", np.imag, te.imaginary_part, accepts="complex", result="real",
        accuracy=Accuracy.EXACT),
    Row("complex.conj", "the complex conjugate of data", np.conj, _conjugate, accepts="complex", accuracy=Accuracy.EXACT),
    Row("complex.angle", "the angle of data against the positive real axis, in (-pi, pi]", np.angle, _angle, accepts="complex",
        result="real", flops=10),
])
