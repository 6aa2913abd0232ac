"""Masked loads read nothing where the mask is off; buffers end at a page that cannot be read."""

from __future__ import annotations

import numpy as np
import pytest

import forge
from forge.driver import check_options, compile_module
from forge.ir.parser import parse_module
from forge.peers import as_list
from tests import guard

MODULES = {
    "indices under a mask": """def @main(%data: Tensor[(5, 4), float32], %indices: Tensor[(3), int64]) {
  %0 = take(%data, %indices, axis=1);
  nn.pad(%0, pad_width=[[0, 2], [1, 2]])
}""",
    "indices after the last": """def @main(%data: Tensor[(5, 4), float32], %indices: Tensor[(3), int64]) {
  %0 = take(%data, %indices, axis=1);
  nn.pad(%0, pad_width=[[2, 0], [4, 1]])
}""",
    "every second index": """def @main(%data: Tensor[(5, 4), float32], %indices: Tensor[(6), int64]) {
  %0 = strided_slice(%indices, begin=[1], end=[6], strides=[2]);
  %1 = take(%data, %0, axis=1);
  nn.pad(%1, pad_width=[[0, 2], [1, 2]])
}""",
}


@pytest.mark.parametrize("opt_level", [0, 1, 3])
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("name", MODULES)
def test_wide_loads_stay_inside(name: str, target: str, opt_level: int) -> None:
    module = parse_module(MODULES[name])
    graph = module.main
    data, indices = np.arange(20, dtype=np.float32).reshape(5, 4), np.array([-4, 0, -3, 2, 1, 3][: graph.inputs[1].shape[0]])
    compiled = compile_module(module, check_options(target, opt_level=opt_level), use_cache=False)
    (got,) = guard.run(compiled, graph, [data, indices])
    (expected,) = as_list(forge.IRModule(MODULES[name]).get_inference_function("reference")(data, indices))
    np.testing.assert_array_equal(got, expected)
