"""Modules at the edges of what is a module."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import forge
from forge import peers
from forge.driver import check_options, compile_module

X = np.arange(6, dtype=np.float32).reshape(2, 3)

MODULES = {
    "input is output": "def @main(%x: Tensor[(n, 3), float32]) { %x }",
    "input is output twice": "def @main(%x: Tensor[(n, 3), float32]) { (%x, %x) }",
    "result is output twice": "def @main(%x: Tensor[(n, 3), float32]) { %y = nn.relu(%x); (%y, %y) }",
    "constant output": "def @main(%x: Tensor[(n, 3), float32]) { %0 = zeros(shape=[2, 2], dtype=\"float32\"); (%0, %x) }",
    "scalar constant output": "def @main(%x: Tensor[(n, 3), float32]) { (2f, %x) }",
    "view is output": "def @main(%x: Tensor[(n, 3), float32]) { reshape(%x, newshape=[-1]) }",
    "views of one value": "def @main(%x: Tensor[(n, 3), float32]) { %0 = exp(%x); %1 = reshape(%0, newshape=[-1]); (%0, %1) }",
    "unused input": "def @main(%x: Tensor[(n, 3), float32], %unused: Tensor[(m,), int64]) { negative(%x) }",
    "scalar output": "def @main(%x: Tensor[(n, 3), float32]) { sum(%x) }",
    "empty tensor": "def @main(%x: Tensor[(n, 3), float32]) { %0 = strided_slice(%x, begin=[0], end=[0], axes=[1]); exp(%0) }",
    "unused results": "def @main(%x: Tensor[(n, 3), float32]) { %0 = split(%x, indices_or_sections=3, axis=1); %0.1 }",
}


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("name", MODULES)
def test_compiled_equals_interpreted(name: str, opt_level: int) -> None:
    module = forge.IRModule(MODULES[name])
    inputs = [X, np.zeros(4, np.int64)][: module.input_count]
    expected = peers.as_list(module.get_inference_function("reference")(*inputs))
    runtime = compile_module(module.mod, check_options(opt_level=opt_level)).runtime()
    got = peers.as_list(runtime(*inputs))
    assert runtime.input_names == module.input_names
    assert runtime.output_names == module.output_names
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-5)
    for k, a in enumerate(got):
        assert not any(np.shares_memory(a, other) for other in [*got[:k], *inputs])


def test_a_module_without_inputs(tmp_path: Path) -> None:
    module = forge.IRModule('def @main() { arange(0, 5, 1, dtype="int64") }')
    module.compile(output_path=tmp_path / "build")
    assert forge.Runtime(tmp_path / "build")().tolist() == [0, 1, 2, 3, 4]


def test_names_that_are_no_identifiers(tmp_path: Path) -> None:
    module = forge.IRModule('def @main(%"a b/ü": Tensor[(n), float32]) { %"o.ut:0" = negative(%"a b/ü"); %"o.ut:0" }')
    module.compile(output_path=tmp_path / "build", export_metadata=True, export_relay=True)
    runtime = forge.Runtime(tmp_path / "build")
    assert (runtime.input_names, runtime.output_names) == (["a b/ü"], ["o.ut:0"])
    assert runtime(**{"a b/ü": np.ones(2, np.float32)}).tolist() == [-1, -1]
