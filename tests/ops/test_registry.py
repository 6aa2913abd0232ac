"""Every registered operator is complete, or listed here as what it lacks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import forge.ops  # noqa: F401
from forge import dtypes
from forge.ir.op import Kind, OpDef, all_ops
from forge.kernels import FAMILIES
from forge.ops.core.op import Op
from scripts.operator_pages import onnx_operators, operator_pages
from tests.ops.cases import made
from tests.ops.test_cases import CASES

OPERATORS = [op for op in all_ops() if isinstance(op, Op)]
WITHOUT_NATIVE_CODE: set[str] = set()
HAVE_TESTS_OF_THEIR_OWN = {
    "if", "loop", "scan", "sequence_construct", "sequence_empty", "sequence_insert", "sequence_erase", "sequence_at",
    "sequence_length", "sequence_map", "split_to_sequence", "concat_from_sequence", "optional", "optional_has_element",
    "optional_get_element", "call_registered", "call_registered_pure", "call_extern", "call_extern_pure",
}
"""Rows have no regions, sequences, optionals, registered functions or code of the user's: ``test_control``, ``test_registered``,
``tests/lowering/test_guarded_nodes.py``, ``tests/nn/test_extern.py``."""
OF_FIXED_RANK = ("nn.", "image.")
"""Prefixes of operators on images and layers."""
FACTORIZATIONS = {
    "linalg.cholesky", "linalg.eliminate", "linalg.hessenberg", "linalg.householder_pivoted", "linalg.inverse", "linalg.ldl",
    "linalg.ldl_solve", "linalg.lu", "linalg.solve", "linalg.triangular_solve", "linalg.tridiagonal_solve",
}
"""What they make of NaN depends on the order of elimination."""
TRANSFORMS = {"fft.dft", "fft.fft"}
"""Where a NaN goes depends on the factorization of the length."""
PACKED = {
    "nn.contrib_conv2d_NCHWc", "nn.contrib_conv2d_parts_NCHWc", "nn.contrib_conv2d_winograd_NCHWc", "nn.contrib_conv3d_NCDHWc",
    "nn.contrib_conv3d_winograd_NCDHWc", "nn.contrib_depthwise_conv2d_NCHWc", "nn.contrib_depthwise_conv3d_NCDHWc",
    "nn.contrib_subpixel_conv2d_NCHWc", "nn.contrib_subpixel_conv3d_NCDHWc", "nn.contrib_subpixel_depthwise_conv2d_NCHWc",
    "nn.contrib_subpixel_product",
}
"""Passes make them, of sizes that are not 0; Winograd's sums mix infinities of neighbours."""
SCALARS_ONLY = {"arange", "check", "full", "ones", "random.bits", "random.bit_generator", "random.uniform", "signal.mel_weights"}
"""Operands are numbers, shapes and seeds."""
NOT_OF_FLOATS = {"one_hot", "qnn.dequantize", "sparse_to_dense", "string.from_number", "vision.box_suppression"}
"""Floats are scales, thresholds and fill values only."""
OF_SOMETHING = {
    "as_strided", "broadcast_to", "dynamic_slice", "invert_permutation", "nn.deformable_conv2d", "nn.fold",
    "nn.max_pool1d_with_indices", "nn.max_pool3d_with_indices", "reshape_like", "select_and_scatter", "sparse_to_dense",
    "string.count_words", "string.equal", "string.from_number", "string.most_parts", "string.not_equal", "string.to_number",
    "string.unpack", "vision.box_suppression",
}
"""Their written rows have attributes that ask for elements; what is empty is tested with their siblings."""
INEXACT_INTEGERS = {"image.crop_and_resize", "qnn.dequantize", "qnn.quantize", "random.uniform", "arange", "ones"}
"""Integers are zero points, sizes and seeds."""


def by_name(operators: list[Op]) -> pytest.MarkDecorator:  # type: ignore[type-arg]
    return pytest.mark.parametrize("op", operators, ids=[op.name for op in operators])


def overrides(op: OpDef, method: str) -> bool:  # type: ignore[type-arg]
    return getattr(type(op), method) is not getattr(Op, method)


@by_name(OPERATORS)
def test_has_a_docstring_of_its_own(op: Op) -> None:  # type: ignore[type-arg]
    assert type(op).__doc__ and type(op).__doc__ != Op.__doc__


@by_name(OPERATORS)
def test_has_inference_and_meaning(op: Op) -> None:  # type: ignore[type-arg]
    assert overrides(op, "infer") or op.operands  # by default the type of the first one
    assert overrides(op, "reference") or overrides(op, "reference_regions")


@by_name(OPERATORS)
def test_only_the_last_operand_is_variadic(op: Op) -> None:  # type: ignore[type-arg]
    assert not any(o.variadic for o in op.operands[:-1])


def has_native_code(op: Op) -> bool:  # type: ignore[type-arg]
    return overrides(op, "lower") or overrides(op, "decompose") or op.kernel in FAMILIES or op.host_routine is not None


def test_operators_without_native_code_are_these() -> None:
    missing = {op.name for op in OPERATORS if not has_native_code(op)}
    assert missing == {op.name for op in OPERATORS if op.lowering_missing}
    assert missing == WITHOUT_NATIVE_CODE


def test_names_of_operands_differ() -> None:
    for op in OPERATORS:
        names = [o.name for o in op.operands]
        assert len(set(names)) == len(names), op.name


def test_kernel_families_that_operators_name_exist() -> None:
    named = {op.name: op.kernel for op in OPERATORS if op.kernel is not None}
    assert not {name: kernel for name, kernel in named.items() if kernel not in FAMILIES}
    assert set(FAMILIES) == set(named.values())


@cache
def operands_by_operator() -> dict[str, list[np.ndarray]]:
    """All operands of all rows of each operator."""
    found: dict[str, list[np.ndarray]] = {op.name: [] for op in OPERATORS}
    for case in (*CASES, *made()):
        found.setdefault(case.op, []).extend(a for a in case.arrays() if a is not None)
    return found


def without(holds: Callable[[np.ndarray], bool], among: Callable[[np.ndarray], bool] = lambda a: True) -> set[str]:
    """Operators with rows of which some operand is one of those in question, but none of these has what is asked for."""
    rows = {name: [a for a in arrays if among(a)] for name, arrays in operands_by_operator().items()}
    return {name for name, arrays in rows.items() if arrays and not any(map(holds, arrays))}


def is_float(array: np.ndarray) -> bool:
    return dtypes.is_float(dtypes.canonical(array.dtype))


def is_integer(array: np.ndarray) -> bool:
    return dtypes.is_integer(dtypes.canonical(array.dtype))


def is_extreme(array: np.ndarray) -> bool:
    low, high = dtypes.integer_range(dtypes.canonical(array.dtype))
    return bool(array.size) and (int(array.min()) == low or int(array.max()) == high)


def test_every_operator_has_rows() -> None:
    rows = {case.op for case in CASES}
    assert {op.name for op in OPERATORS if op.name not in rows} == HAVE_TESTS_OF_THEIR_OWN


def test_every_operator_has_a_section_in_the_docs() -> None:
    text = "".join(operator_pages().values())
    assert not {op.name for op in OPERATORS if f"## `{op.name}`" not in text}


def test_onnx_operators_are_found_through_compositions() -> None:
    assert onnx_operators("nn.batch_norm") == ["BatchNormalization", "SpatialBN"]
    assert onnx_operators("nn.conv2d") == ["Conv", "ConvInteger", "com.microsoft.NhwcConv"]
    assert "Resize" in onnx_operators("nn.dense") and "Resize" not in onnx_operators("nn.relu")


def test_every_elementwise_operator_and_reduction_has_rows_of_ranks_0_and_8() -> None:
    kinds = {op.name for op in OPERATORS if op.kind in (Kind.ELEMENTWISE, Kind.REDUCTION)}
    kinds = {name for name in kinds if not name.startswith(OF_FIXED_RANK)}
    assert without(lambda a: a.ndim == 8) & kinds == {"reduce_window"}  # of which every window is a reduction
    assert not without(lambda a: a.ndim == 0) & kinds


def test_every_operator_has_rows_of_nan_and_infinities() -> None:
    assert without(lambda a: not np.isfinite(a.astype(np.float64)).all(), is_float) == (
        FACTORIZATIONS | TRANSFORMS | PACKED | NOT_OF_FLOATS | {"arange", "signal.mel_weights"}
    )


def test_every_operator_has_rows_without_elements() -> None:
    factorizations = FACTORIZATIONS & {"linalg.inverse", "linalg.solve"}
    assert without(lambda a: a.size == 0) == factorizations | PACKED | SCALARS_ONLY | OF_SOMETHING


def test_every_elementwise_operator_has_rows_of_extreme_integers() -> None:
    kinds = {op.name for op in OPERATORS if op.kind in (Kind.ELEMENTWISE, Kind.REDUCTION, Kind.INJECTIVE)}
    assert without(is_extreme, is_integer) & kinds == INEXACT_INTEGERS
