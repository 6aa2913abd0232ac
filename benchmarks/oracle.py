"""Mathematical functions in double precision, independent of Forge: C expressions over the vector functions of glibc.

``Oracle`` compiles its C source with the machine's compiler. The functions of libmvec err by at most 4 units in the last place
of a double, 1e-8 of a float32; ``tests/benchmarks/test_oracle.py`` holds the expressions to mpmath.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SOURCE = """
#define VECTOR __attribute__((simd("notinbranch"), const))
VECTOR double exp(double); VECTOR double exp2(double); VECTOR double expm1(double);
VECTOR double log(double); VECTOR double log2(double); VECTOR double log10(double); VECTOR double log1p(double);
VECTOR double sin(double); VECTOR double cos(double); VECTOR double tan(double);
VECTOR double asin(double); VECTOR double acos(double); VECTOR double atan(double); VECTOR double atan2(double, double);
VECTOR double sinh(double); VECTOR double cosh(double); VECTOR double tanh(double);
VECTOR double asinh(double); VECTOR double acosh(double); VECTOR double atanh(double);
VECTOR double erf(double); VECTOR double erfc(double); VECTOR double cbrt(double); VECTOR double pow(double, double);
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double clamp(double x, double limit) { return x > limit ? limit : x < -limit ? -limit : x; }
/* exp within the range of a double, far beyond that of a float32 */
static inline double e(double x) { return exp(clamp(x, 600)); }

void truth(const float *in0, const float *in1, double *out, int64_t n) {
    (void)in1;
    for (int64_t i = 0; i < n; i++) {
        double x = in0[i], y = in1 ? in1[i] : 0.0;
        (void)y;
        out[i] = EXPRESSION;
    }
}

void patterns(float *out, uint64_t first, uint64_t step, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)(first + step * (uint64_t)i);
        memcpy(out + i, &bits, 4);
    }
}

/* One error for each element, in units in the last place of float32 at the truth; -1 where a special value is wrong. */
static void errors(const float *actual, const double *exact, double *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double t = exact[i], y = actual[i];
        float rounded = (float)t;
        uint64_t bits;
        memcpy(&bits, &t, 8);
        bits &= UINT64_C(0x7ff) << 52;
        double unit;
        memcpy(&unit, &bits, 8);
        unit *= 0x1p-23;
        unit = unit < 0x1p-149 ? 0x1p-149 : unit;
        /* Where the truth is about the largest number, infinity is the next one. */
        double bounded = fabs(y) <= 0x1p128 ? y : copysign(0x1p128, y);
        double error = fabs(bounded - t) / unit;
        int same = y == rounded || (y != y && rounded != rounded);
        int finite = fabs(y) <= 0x1.fffffep127 && fabsf(rounded) <= 0x1.fffffep127f;
        int near = fabs(t) <= 0x1.01p128 && y == y;
        uint64_t y_bits, t_bits;
        memcpy(&y_bits, &y, 8);
        memcpy(&t_bits, &t, 8);
        int wrong_zero = y == 0 && ((y_bits ^ t_bits) >> 63);
        error = finite ? error : same ? 0.0 : near ? error : -1.0;
        out[i] = wrong_zero ? -1.0 : error;
    }
}

typedef struct { double largest, total; int64_t at, wrong, first_wrong; } summary;

void compare(const float *actual, const double *exact, double *scratch, int64_t n, summary *result) {
    errors(actual, exact, scratch, n);
    double largest[8] = {0}, total[8] = {0};
    int64_t wrong[8] = {0};
    int64_t whole = n / 8 * 8;
    for (int64_t i = 0; i < whole; i += 8)
        for (int j = 0; j < 8; j++) {
            double error = scratch[i + j];
            largest[j] = error > largest[j] ? error : largest[j];
            total[j] += error > 0 ? error : 0;
            wrong[j] += error < 0;
        }
    for (int64_t i = whole; i < n; i++) {
        largest[0] = scratch[i] > largest[0] ? scratch[i] : largest[0];
        total[0] += scratch[i] > 0 ? scratch[i] : 0;
        wrong[0] += scratch[i] < 0;
    }
    *result = (summary){0, 0, -1, 0, -1};
    for (int j = 0; j < 8; j++) {
        result->largest = largest[j] > result->largest ? largest[j] : result->largest;
        result->total += total[j];
        result->wrong += wrong[j];
    }
    for (int64_t i = 0; i < n && result->at < 0; i++)
        if (scratch[i] == result->largest) result->at = i;
    for (int64_t i = 0; result->wrong && i < n && result->first_wrong < 0; i++)
        if (scratch[i] < 0) result->first_wrong = i;
}
"""


class Summary(ctypes.Structure):
    """Errors of one chunk; ``at`` and ``first_wrong`` are indices into it, -1 for none."""

    _fields_ = [("largest", ctypes.c_double), ("total", ctypes.c_double), ("at", ctypes.c_int64), ("wrong", ctypes.c_int64),
                ("first_wrong", ctypes.c_int64)]

    largest: float
    total: float
    at: int
    wrong: int
    first_wrong: int


@dataclass(frozen=True)
class Oracle:
    """The compiled form of one C expression in ``x`` (and ``y``)."""

    library: ctypes.CDLL

    @classmethod
    def compile(cls, expression: str, portable: bool = False) -> Oracle:
        """Compiles ``expression``; ``portable``: with the scalar functions of libm, for processors without vectors.

        Raises:
            RuntimeError: there is no C compiler, or it refuses the source.
        """
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise RuntimeError("accuracy: no C compiler; expected gcc or cc on the path; install one")
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "oracle.c"), Path(folder, "oracle.so")
            text = SOURCE.replace("EXPRESSION", expression)
            source.write_text(text.replace('simd("notinbranch"), ', "") if portable else text, encoding="utf-8")
            flags = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]
            libraries = ["-lm"] if portable else ["-lmvec", "-lm"]
            done = subprocess.run([compiler, *flags, str(source), "-o", str(library), *libraries], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"accuracy: {compiler} refuses {expression!r}: {done.stderr.strip()}")
            return cls(ctypes.CDLL(str(library)))

    def truth(self, x: Array, y: Array | None, out: Array) -> None:
        """Fills ``out`` (float64) with the function of float32 arrays."""
        self.library.truth(_pointer(x), _pointer(y), _pointer(out), ctypes.c_int64(x.size))

    def patterns(self, out: Array, first: int, step: int) -> None:
        """Fills ``out`` (float32) with the values of the bit patterns ``first``, ``first + step``, ..."""
        self.library.patterns(_pointer(out), ctypes.c_uint64(first), ctypes.c_uint64(step), ctypes.c_int64(out.size))

    def compare(self, actual: Array, exact: Array, scratch: Array) -> Summary:
        """The errors of float32 ``actual`` against float64 ``exact``; ``scratch`` (float64) gets each, -1 for wrong ones."""
        result = Summary()
        self.library.compare(_pointer(actual), _pointer(exact), _pointer(scratch), ctypes.c_int64(actual.size),
                             ctypes.byref(result))
        return result


def _pointer(array: Array | None) -> ctypes.c_void_p:
    if array is not None and not array.flags.c_contiguous:
        raise ValueError("accuracy: an array with strides; expected a contiguous one")
    return ctypes.c_void_p(None if array is None else array.ctypes.data)
