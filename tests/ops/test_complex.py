"""Complex tensors: what has no meaning on them is refused, and what is fused with them computes the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.driver import check_options, compile_module
from forge.errors import CompileError, TypeInferenceError
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.op import Accuracy
from forge.ir.types import TensorType
from forge.lowering.build import build_function
from forge.lowering.groups import form_groups
from forge.lowering.sizes import Sizes
from forge.target import Target
from forge_runtime import InputError
from tests import guard
from tests.ops import harness
from tests.ops.case import Case
from tests.ops.cases.elementwise.complex import as_complex
from tests.ops.compare import check
from tests.ops.test_cases import CASES

REFUSED = [
    ("sort", 1, {}, "sort: operand 'data' has the wrong element type; got complex64; expected numeric"),
    ("argsort", 1, {}, "argsort: operand 'data'"),
    ("topk", 1, {"k": 1}, "topk: operand 'data'"),
    ("unique", 1, {}, "unique: operand 'data' has the wrong element type; got complex64; expected a type with an order"),
    ("max", 1, {"axis": (0,)}, "max: operand 'data'"),
    ("argmax", 1, {"axis": (0,)}, "argmax: operand 'data'"),
    ("maximum", 2, {}, "maximum: operand 'lhs'"),
    ("less", 2, {}, "less: operand 'lhs' has the wrong element type; got complex64; expected numeric"),
    ("floor", 1, {}, "floor: operand 'data'"),
    ("erf", 1, {}, "erf: operand 'data'"),
    ("floor_mod", 2, {}, "floor_mod: operand 'lhs'"),
    ("complex.make", 2, {}, "complex.make: operand 'real' .* got complex64; expected float32 or float64"),
    ("nn.matmul", 2, {"out_dtype": "float32"}, "nn.matmul: out_dtype of complex operands; got float32; expected a complex type"),
    ("fft.fft", 1, {"onesided": True}, "fft.fft: operand 'data' .* got complex64; expected real numbers"),
    ("fft.fft", 1, {"axes": ()}, "fft.fft: attribute axes"),
    ("fft.fft", 1, {"lengths": (3, 4)}, "fft.fft: attribute lengths"),
    ("fft.fft", 1, {"lengths": (0,)}, "fft.fft: length of an axis; got 0; expected a positive number"),
]


@pytest.mark.parametrize(("op", "count", "attrs", "message"), REFUSED, ids=[f"{r[0]}{r[2]}" for r in REFUSED])
def test_what_needs_an_order_or_real_numbers_is_refused(op: str, count: int, attrs: dict[str, Any], message: str) -> None:
    builder = Builder()
    operands = [builder.input(TensorType((4, 4), "complex64")) for _ in range(count)]
    with pytest.raises(TypeInferenceError, match=message):
        builder.call(op, *operands, **attrs)


@pytest.mark.parametrize(("op", "shapes", "attrs"), [
    ("nn.max_pool2d", [(1, 2, 8, 8)], {"pool_size": (2, 2)}),
    ("nn.avg_pool2d", [(1, 2, 8, 8)], {"pool_size": (2, 2)}),
    ("nn.adaptive_avg_pool2d", [(1, 2, 8, 8)], {"output_size": (1, 1)}),
    ("nn.contrib_dense_pack", [(4, 8), (1, 8, 16)], {}),
    ("nn.rnn", [(5, 3, 4), (1, 6, 4), (1, 6, 6), None, None, None],
     {"activations": ("tanh",), "activation_alpha": (0.0,), "activation_beta": (0.0,)}),
])
def test_float_kernels_take_no_complex_numbers(op: str, shapes: list[tuple[int, ...] | None], attrs: dict[str, Any]) -> None:
    builder = Builder()
    operands = [None if s is None else builder.input(TensorType(s, "complex64")) for s in shapes]
    with pytest.raises(TypeInferenceError, match=f"{op}: operand '.*' has the wrong element type; got complex64"):
        builder.call_multi(op, *operands, **attrs)


def test_a_family_of_real_numbers_is_not_built_for_complex_ones() -> None:
    builder = Builder()
    a, b = (builder.input(TensorType((4, 4), "complex64")) for _ in range(2))
    graph = builder.output(builder.call("nn.matmul", a, b))
    (group,) = form_groups(graph, fuse=False)
    with pytest.raises(CompileError, match=r"nn\.matmul: kernel family 'matmul' got complex operands; expected real ones"):
        build_function(group, "k", Target.parse("llvm"), {}, Sizes(), {})


@pytest.mark.parametrize("op", ["complex.real", "complex.imag", "complex.conj", "complex.angle"])
def test_parts_of_real_numbers_are_refused(op: str) -> None:
    builder = Builder()
    with pytest.raises(TypeInferenceError, match=f"{op}: operand 'data' .* got float32; expected complex"):
        builder.call(op, builder.input(TensorType((4,), "float32")))


def test_a_one_sided_inverse_takes_complex_numbers() -> None:
    builder = Builder()
    with pytest.raises(TypeInferenceError, match="complex numbers for a one-sided inverse"):
        builder.call("fft.fft", builder.input(TensorType((4,), "float32")), inverse=True, onesided=True)


@pytest.mark.parametrize("reduction", ["min", "max"])
def test_scatters_that_compare_are_refused(reduction: str) -> None:
    builder = Builder()
    data, updates = (builder.input(TensorType((4,), "complex64")) for _ in range(2))
    with pytest.raises(TypeInferenceError, match=f"scatter_elements: reduction '{reduction}' of element type; got complex64"):
        builder.call("scatter_elements", data, builder.input(TensorType((4,), "int64")), updates, axis=0, reduction=reduction)


def in_complex_numbers() -> list[Case]:
    """The first row of every operator with real operands, on complex ones."""
    found: dict[str, Case] = {}
    for case in CASES:
        operands = tuple(as_complex(x, "complex64") for x in case.operands)
        changed = any(x is not y for x, y in zip(operands, case.operands))
        if changed and case.op not in found:
            found[case.op] = replace(case, operands=operands)
    return list(found.values())


@pytest.mark.filterwarnings("error::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("case", in_complex_numbers(), ids=lambda case: case.op)
def test_an_operator_computes_with_complex_numbers_or_refuses_them(case: Case) -> None:
    try:
        harness.build_graph(case)
    except TypeInferenceError:
        return
    expected = harness.run_reference(case)
    for result, wanted in zip(harness.compile_and_run(case), expected, strict=True):
        check(result, np.asarray(wanted), harness.accuracy_of(case), case.id)


def chain(dtype: str, shape: tuple[Any, ...]) -> Graph:
    """Parts in, element-wise work on complex numbers, a sum, parts out."""
    part = "float32" if dtype == "complex64" else "float64"
    builder = Builder()
    real, imag = (builder.input(TensorType(shape, part)) for _ in range(2))
    z = builder.call("complex.make", real, imag)
    w = builder.call("multiply", builder.call("exp", z), builder.call("complex.conj", z))
    scaled = builder.call("divide", w, builder.call("add", z, builder.constant(np.array(2 - 1j, dtype))))
    total = builder.call("sum", scaled, axis=(1,), keepdims=True)
    centred = builder.call("subtract", scaled, total)
    return builder.output(builder.call("abs", centred), builder.call("transpose", centred, axes=(1, 0)), total)


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_chains_fuse(dtype: str, target: str, opt_level: int) -> None:
    part = np.float32 if dtype == "complex64" else np.float64
    for shape, sizes in (((7, 37), (7, 37)), ((dims.symbol("n"), dims.symbol("m")), (5, 19))):
        graph = chain(dtype, shape)
        rng = np.random.default_rng(3)
        inputs = [rng.uniform(-2, 2, sizes).astype(part) for _ in range(2)]
        expected = run_graph(graph, inputs)
        compiled = compile_module(Module(graph), check_options(target, opt_level=opt_level), use_cache=False)
        for result, wanted in zip(guard.run(compiled, graph, inputs), expected, strict=True):
            check(result, np.asarray(wanted), Accuracy.ACCUMULATING, dtype)


def test_numbers_may_be_exchanged_as_complex_arrays() -> None:
    builder = Builder()
    z = builder.input(TensorType((3,), "complex64"), name="z")
    graph = builder.output(builder.call("power", z, z))
    graph.outputs[0].name = "w"
    runtime = compile_module(Module(graph), use_cache=False).runtime()
    given = np.array([1 + 1j, 2 - 1j, -1], np.complex64)
    result = runtime(given)
    assert result.dtype == np.complex64
    check(result, (given.astype(np.complex128) ** given).astype(np.complex64), Accuracy.ROUNDING)
    with pytest.raises(InputError, match="complex64"):
        runtime(given.real)
