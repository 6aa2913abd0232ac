"""Which operators can be written as ONNX, and how."""

from __future__ import annotations

from collections.abc import Iterator

from forge.exporters.onnx import operators
from forge.exporters.onnx.registry import TABLE
from forge.ir.op import all_ops
from forge.ops.core.op import Op

operators.load_all()

_COMPLEX = "ONNX has no arithmetic of complex numbers"
_LINEAR = "ONNX has no factorizations of matrices"
_TEXT = "a part of operators on text, which are written whole"

_OWN = "weights of the compiler's own layout"

WITHOUT_ONNX: dict[str, str] = {
    **dict.fromkeys(("complex.real", "complex.imag", "complex.conj", "complex.angle", "complex.make", "fft.fft"), _COMPLEX),
    **dict.fromkeys(("linalg.cholesky", "linalg.triangular_solve", "linalg.ldl", "linalg.ldl_solve", "linalg.lu",
                     "linalg.permutation", "linalg.solve", "linalg.inverse", "linalg.eliminate"), _LINEAR),
    **dict.fromkeys(("linalg.householder", "linalg.householder_multiply", "linalg.orthogonal_rows", "linalg.svd",
                     "linalg.diagonalize", "linalg.eigh", "linalg.householder_pivoted", "linalg.hessenberg", "linalg.schur",
                     "linalg.triangular_eigenvectors", "linalg.tridiagonal_solve"), _LINEAR),
    **dict.fromkeys(("string.rank", "string.most_parts", "string.count_words", "string.unpack",
                     "string.from_number"), _TEXT),
    **dict.fromkeys(("call_registered", "call_registered_pure"), "ONNX knows no functions of the program that runs a model"),
    **dict.fromkeys(("call_extern", "call_extern_pure"), "ONNX knows no code of the user's"),
    "tensor_program": "ONNX knows no loops over elements",
    "pairwise_coupling": "ONNX has no iteration that ends for each row; SVMClassifier has it inside",
    "argsort_rows": "a part of unique, which is written whole",
    "vision.box_suppression": "a part of vision.non_max_suppression, which is written whole",
    **dict.fromkeys(("nn.contrib_subpixel_conv2d_NCHWc", "nn.contrib_subpixel_depthwise_conv2d_NCHWc",
                     "nn.contrib_subpixel_conv3d_NCDHWc", "nn.contrib_subpixel_product"), _OWN),
    **dict.fromkeys(("nn.contrib_conv2d_winograd_NCHWc", "nn.contrib_conv3d_winograd_NCDHWc"), _OWN),
    "nn.contrib_attention": "what the compiler makes of two products and a softmax; a module has those, or nn.attention",
}
"""Operators that no row of the tests can write, and why."""


def ways() -> Iterator[tuple[str, str]]:
    """Every operator with how it is written, by name: "row", "parts", "expressions" or "" (not)."""
    for op in sorted(all_ops(), key=lambda op: op.name):
        if op.name in WITHOUT_ONNX:
            yield op.name, ""
        elif op.name in TABLE or op.name in ("constant", "call"):
            yield op.name, "row"
        elif isinstance(op, Op) and (type(op).lower is not Op.lower or type(op).decompose is not Op.decompose):
            yield op.name, "expressions" if type(op).lower is not Op.lower else "parts"
