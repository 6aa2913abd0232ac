"""The suite's products of quantized numbers, with constant weights: kernels on integers of 8 bits give what the suite says."""

from __future__ import annotations

import numpy as np
import pytest

from forge.driver import Compilation, check_options, compile_module, run_stages
from forge.driver.integers import STAGE
from forge.ir.graph import Module
from forge.ir.op import Category
from tests.onnx_backend import cases
from tests.onnx_backend.compare import check_outputs
from tests.onnx_backend.runtimes import as_outputs, frozen, imported

OPERATORS = ("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger")
STACKED = "a stack of matrices, one for each of the data: both operands of attention's products are like that"
REASONS = {f"test_qlinearmatmul_3D_{dtype}_{scale}": STACKED for dtype in ("int8", "uint8") for scale in ("float16", "float32")}
"""Why kernels on integers of 8 bits do not take a case: it is computed with integers of 32 bits."""


def products(module: Module) -> list[list[str]]:
    """Element types of the operands of each product, when integers have been made."""
    compilation = Compilation(module, check_options())
    run_stages(compilation, stop_after=STAGE)
    nodes = [n for n in compilation.functions[0].graph.walk() if n.op_def.category is Category.CONTRACTION]
    return [[v.dtype for v in n.operands[:2] if v is not None] for n in nodes]


def named() -> list[str]:
    """Of the list of those that pass, which is read in no time: collecting the suite takes seconds."""
    begins = tuple(f"test_{op.lower()}" for op in OPERATORS)
    return [name for name in sorted(cases.pass_list("compiled")) if name.startswith(begins)]


@pytest.mark.parametrize("name", named())
def test_products_are_those_of_bytes(name: str) -> None:
    case = cases.collect()[name]
    for inputs, outputs in case.data_sets:
        proto, kept = frozen(case.model.SerializeToString(), inputs)
        module = imported(proto.SerializeToString())
        found = products(module)
        assert found and ({tuple(p) for p in found} == {("uint8", "int8")}) is (name not in REASONS), found
        got = compile_module(module).runtime()(*(np.asarray(inputs[k], order="C") for k in kept))
        check_outputs(outputs, as_outputs(module, got), case.rtol, case.atol)
