"""Sizes that are known only at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.codegen.entry import emit_library_entry
from forge.driver import compile_module
from forge.errors import CompileError
from forge.ir.interp import run_module
from forge.ir.op import get_op
from forge.ir.parser import parse_module
from forge.target import Target
from forge.tir.library import Library
from forge_runtime import ExecutionError, InputError, Runtime

TEXT = """def @main(%x: Tensor[(n, 6), float32], %s: Tensor[(2), int64], %r: Tensor[(2), int64]) {
  %0 = reshape(%x, %s);
  %1 = exp(%0);
  %2 = tile(%1, %r);
  %3 = reshape(%2, newshape=[-1]);
  %4 = nn.relu(%0);
  (%2, %3, %4)
}"""


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return compile_module(parse_module(TEXT)).runtime()


def feed(rows: int, shape: list[int], reps: list[int]) -> dict[str, Any]:
    x = np.random.default_rng(0).standard_normal((rows, 6)).astype("float32")
    return {"x": x, "s": np.array(shape), "r": np.array(reps)}


@pytest.mark.parametrize(
    ("rows", "shape", "reps"), [(4, [3, -1], [2, 3]), (1, [6, 1], [1, 1]), (5, [-1, 5], [0, 2]), (0, [0, 7], [3, 3])]
)
def test_results_have_the_sizes_that_the_contents_give(runtime: Runtime, rows: int, shape: list[int], reps: list[int]) -> None:
    inputs = feed(rows, shape, reps)
    for got, expected in zip(runtime(**inputs), run_module(parse_module(TEXT), inputs), strict=True):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("shape", [[5, 5], [-7, 3], [2**62, 4], [2**39, 2**39]])
def test_a_bad_shape_is_an_error(runtime: Runtime, shape: list[int]) -> None:
    with pytest.raises(ExecutionError, match="reshape"):
        runtime(**feed(4, shape, [1, 1]))


def test_absurd_memory_is_an_error(runtime: Runtime) -> None:
    with pytest.raises((ExecutionError, MemoryError), match=r"memory|too large"):
        runtime(**feed(4, [3, 8], [2**36, 2**36]))
    runtime(**feed(4, [3, 8], [1, 1]))


def test_a_given_output_must_be_large_enough(runtime: Runtime) -> None:
    inputs = feed(4, [3, 8], [1, 1])
    with pytest.raises((InputError, ExecutionError)):
        runtime.run(inputs, outputs=[np.empty(1, "float32")] * 3)


def test_an_operator_that_cannot_count_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(get_op("argwhere")), "define_symbols", lambda *_: {})
    with pytest.raises(CompileError, match=r"\(argwhere\): the size .* known only after it has run"):
        compile_module(parse_module("def @main(%x: Tensor[(4), float32]) { argwhere(%x) }"), use_cache=False)


def test_memory_is_freed_in_one_place() -> None:
    compiled = compile_module(parse_module(TEXT), use_cache=False)
    assert compiled.lowered is not None
    library = Library((compiled.lowered.functions[0].program,))
    entry = emit_library_entry(library, Target.parse("llvm"))
    slots = entry.count("call i32 @forge.allocate(")
    assert slots and entry.count("call void @forge.free(") <= 2 * slots  # in time, or else at the end


def test_kernels_of_equal_groups_with_own_sizes_are_shared() -> None:
    """Layers of a model whose sizes come from data have each its own symbols; so may they have in another order."""
    module = parse_module("""def @main(
      %x: Tensor[(a, b), float32], %y: Tensor[(b, a), float32], %s: Tensor[(2), int64], %t: Tensor[(2), int64]) {
      %0 = reshape(%x, %s); %1 = reshape(%y, %t);
      (exp(%0), exp(%1), sum(%x, axis=[0]), sum(%y, axis=[0]))
    }""")
    compiled = compile_module(module, use_cache=False)
    names = [function.name for function in compiled.lowered.library.functions]
    assert sum("exp" in name for name in names) == sum("sum" in name for name in names) == 1
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((4, 6)).astype("float32"), rng.standard_normal((6, 4)).astype("float32")
    got = compiled.runtime()(x, y, np.array([3, -1]), np.array([2, 12]))
    for result, want in zip(got, (np.exp(x.reshape(3, 8)), np.exp(y.reshape(2, 12)), x.sum(0), y.sum(0)), strict=True):
        assert result.shape == want.shape
        np.testing.assert_allclose(result, want, rtol=1e-5)


def test_kernels_of_groups_that_differ_in_unknown_sizes_are_shared() -> None:
    """The same layer at another resolution is the same kernel, whatever its sizes depend on, where it is aligned as that is."""
    pools = "; ".join(f"%{k + 1} = nn.max_pool2d(%{k}, pool_size=[2, 2], strides=[2, 2])" for k in range(4))
    compiled = compile_module(parse_module(f"""def @main(%x: Tensor[(1, 3, h, w), float32]) {{
      %0 = nn.relu(%x); {pools};
      %4
    }}"""), use_cache=False)
    assert sum("max_pool2d" in function.name for function in compiled.lowered.library.functions) == 2
    x = np.random.default_rng(1).standard_normal((1, 3, 37, 53)).astype("float32")
    for size in (37, 16):
        want = np.maximum(x[:, :, :size], 0)
        for _ in range(4):
            height, width = want.shape[2] // 2, want.shape[3] // 2
            want = want[:, :, : 2 * height, : 2 * width].reshape(1, 3, height, 2, width, 2).max((3, 5))
        np.testing.assert_array_equal(compiled.runtime()(x[:, :, :size]), want)
