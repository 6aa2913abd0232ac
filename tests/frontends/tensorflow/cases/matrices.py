"""Diagonals and triangles of matrices, linear algebra, Fourier transforms."""

from __future__ import annotations

import numpy as np

from tests.frontends.tensorflow.case import COMPLEX, WIDE, ints, num, row

ALIGNMENTS = ("LEFT_LEFT", "LEFT_RIGHT", "RIGHT_LEFT", "RIGHT_RIGHT")
BOTH = (*WIDE, *COMPLEX)
SLACK = 50.0
"""Systems are solved in other orders."""
GOOD = np.array([[[4, 1, -0.5], [1, 3, 0.7], [-0.5, 0.7, 5]], [[2, 0.3, 0.1], [0.3, 1.5, -0.4], [0.1, -0.4, 3]]])
ODD = np.array([[[1, 4, -0.5], [3, 1, 0.7], [-0.5, 0.2, 5]], [[0.2, 2.3, 0.1], [-1.3, 1.5, -0.4], [0.1, -0.4, 3]]])

ROWS = [
    row("MatrixDiag", num(2, 3), forms=("float32", "int32", "bool")), row("Diag", num(2, 3)), row("DiagPart", num(2, 3, 2, 3)),
    row("MatrixDiagPart", num(2, 3, 4), forms=("float32", "int32", "bool")),
    row("MatrixSetDiag", num(2, 3, 4), num(2, 3), forms=("float32", "bool")),
    row("MatrixDiagV2", num(3), ints(-1), ints(-1), ints(-1), num(values=7)),
    row("MatrixDiagPartV2", num(2, 3, 4), ints([-1, 2]), num(values=7)),
    row("MatrixSetDiagV2", num(2, 3, 4), num(2, 4, 3), ints([-1, 2])), row("MatrixSetDiagV3", num(2, 3, 4), num(2, 2), ints(-1),
        label="one"),
    row("MatrixDiagV3", num(3), ints(1), ints(3), ints(6), num(values=7), label="sizes"),
    row("MatrixDiagPartV3", num(3, 4), ints(1), num(values=7), label="one"),
    *(row("MatrixDiagV3", num(2, 4, 3), ints([-1, 2]), ints(3), ints(4), num(values=7), label=align,
          align=align) for align in ALIGNMENTS),
    *(row("MatrixDiagPartV3", num(2, 3, 4), ints([-2, 2]), num(values=7), label=align, align=align) for align in ALIGNMENTS),
    *(row("MatrixSetDiagV3", num(2, 3, 4), num(2, 4, 3), ints([-1, 2]), label=align, align=align) for align in ALIGNMENTS),
    *(row("MatrixBandPart", num(2, 4, 5), ints(low), ints(high), forms=("float32", "int32"), label=f"{low}-{high}")
      for low, high in ((1, 0), (-1, 1), (0, -1), (2, 2))),
    row("Cross", num(2, 3), num(2, 3), forms=(*WIDE, "int32")),
    row("Cholesky", num(values=GOOD), forms=WIDE, accuracy=SLACK), row("MatrixInverse", num(values=ODD), forms=BOTH,
                                                                       accuracy=SLACK),
    row("MatrixInverse", num(2, 3, 3), forms=("float32", *COMPLEX), accuracy=SLACK, label="adjoint", adjoint=True),
    row("MatrixSolve", num(values=ODD), num(2, 3, 2), forms=BOTH, accuracy=SLACK),
    row("MatrixSolve", num(2, 3, 3), num(2, 3, 2), forms=COMPLEX, accuracy=SLACK, label="adjoint", adjoint=True),
    *(row("MatrixTriangularSolve", num(values=GOOD), num(2, 3, 2), forms=BOTH, accuracy=SLACK, label=f"{lower}-{adjoint}",
          lower=lower,
          adjoint=adjoint) for lower in (False, True) for adjoint in (False, True)),
    row("MatrixDeterminant", num(values=ODD), forms=BOTH, accuracy=SLACK),
    row("LogMatrixDeterminant", num(values=ODD), forms=BOTH, accuracy=SLACK, outputs=2),
    row("Qr", num(4, 3), forms=WIDE, accuracy=SLACK, outputs=2), row("Qr", num(2, 3, 4), accuracy=SLACK, outputs=2, label="wide"),
    row("Qr", num(4, 3), accuracy=SLACK, outputs=(1,), label="full", full_matrices=True),
    row("Svd", num(4, 3), forms=WIDE, accuracy=SLACK), row("Svd", num(3, 4), forms=("float32", *COMPLEX), accuracy=SLACK,
                                                           label="values",
                                                          compute_uv=False),
    row("SelfAdjointEigV2", num(values=GOOD), forms=WIDE, accuracy=SLACK),
    row("SelfAdjointEigV2", num(values=GOOD), forms=BOTH, accuracy=SLACK, label="values", compute_v=False),
    row("Lu", num(values=ODD), forms=BOTH, accuracy=SLACK, outputs=2), row("Lu", num(values=ODD), outputs=2, accuracy=SLACK,
        label="wide",
                                                                          output_idx_type="int64"),
    row("TridiagonalSolve", num(2, 3, 5, low=1), num(2, 5, 2), forms=WIDE, accuracy=SLACK * 10),
    row("TridiagonalMatMul", num(2, 1, 5), num(2, 1, 5), num(2, 1, 5), num(2, 5, 3), forms=BOTH, accuracy=4),
    row("MatrixExponential", num(values=GOOD / 3), accuracy=SLACK),
    *(row(f"{op}{suffix}", num(2, 4, 6, 5), forms=COMPLEX, accuracy=4, T=None) for op in ("FFT", "IFFT") for suffix in ("", "2D",
        "3D")),
    row("FFT", num(2, 6), forms=("complex128",), accuracy=4, label="wide", T=None, Tcomplex="complex128"),
    *(row(f"RFFT{suffix}", num(2, 4, 6, 5), ints(sizes), forms=("float32",), accuracy=4, label=f"{sizes[-1]}", T=None)
      for suffix, sizes in (("", [5]), ("", [4]), ("2D", [6, 5]), ("3D", [4, 6, 5]))),
    *(row(f"IRFFT{suffix}", num(2, 4, 6, 5, dtype="complex64"), ints(sizes), accuracy=4, label=f"{sizes[-1]}", T=None)
      for suffix, sizes in (("", [8]), ("", [9]), ("2D", [6, 8]), ("3D", [4, 6, 8]))),
    row("RFFT", num(2, 6), ints([6]), forms=("float64",), accuracy=4, label="wide", T=None, Treal="float64",
        Tcomplex="complex128"),
]
