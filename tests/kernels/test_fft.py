"""Compiled Fourier transforms with guarded buffers, on three targets: layouts, types, sizes that arrive at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forge import dims, dtypes
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.op import Accuracy
from forge.ir.types import TensorType
from tests import guard
from tests.ops.compare import check

TARGETS = ["llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3", "llvm"]

rng = np.random.default_rng(3)


def draw(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    data = rng.standard_normal(shape)
    return (data + 1j * rng.standard_normal(shape) if "complex" in dtype else data).astype(dtype)


def graph_of(op: str, arrays: list[np.ndarray], symbolic: bool, **attrs: Any) -> Graph:
    builder = Builder()
    first, *rest = arrays
    last = first.shape[-1] if op == "fft.dft" else dims.symbol("d_last")
    shape = (*(dims.symbol(f"d{k}") for k in range(first.ndim - 1)), last) if symbolic else first.shape
    values = [builder.input(TensorType(shape, dtypes.canonical(first.dtype)), "x")]
    values += [builder.input(TensorType(a.shape, dtypes.canonical(a.dtype)), "length") for a in rest]
    return builder.output(builder.call(op, *values, **attrs))


def run(target: str, graph: Graph, arrays: list[np.ndarray]) -> np.ndarray:
    compiled = compile_module(Module(graph), check_options(target), use_cache=False)
    return guard.run(compiled, graph, arrays)[0]


def pairs(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1)


def joined(x: np.ndarray) -> np.ndarray:
    return x[..., 0] + 1j * x[..., 1]


Wanted = Callable[[np.ndarray], np.ndarray]
COMPLEX: list[tuple[str, tuple[int, ...], dict[str, Any], Wanted]] = [
    ("complex64", (3, 100), {}, np.fft.fft),
    ("complex128", (3, 74), {"inverse": True}, np.fft.ifft),
    ("complex64", (2, 67, 5), {"axes": (1,)}, lambda x: np.fft.fft(x, axis=1)),
    ("complex128", (90, 3), {"axes": (0,), "lengths": (120,)}, lambda x: np.fft.fft(x, 120, axis=0)),
    ("float32", (3, 96), {}, np.fft.fft),
    ("float64", (3, 96), {"inverse": True}, np.fft.ifft),
    ("float32", (4, 7, 96), {"onesided": True, "lengths": (91,)}, lambda x: np.fft.rfft(x, 91)),
    ("complex64", (3, 65), {"inverse": True, "onesided": True}, np.fft.irfft),
    ("complex128", (3, 65), {"inverse": True, "onesided": True, "lengths": (101,)}, lambda x: np.fft.irfft(x, 101)),
    ("float64", (12, 66), {"onesided": True, "axes": (0, 1)}, lambda x: np.fft.rfft2(x)),
    ("float16", (2, 70), {}, lambda x: np.fft.fft(x.astype(np.float64))),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("dtype", "shape", "attrs", "wanted"), COMPLEX)
def test_complex_elements(
    dtype: str, shape: tuple[int, ...], attrs: dict[str, Any], wanted: Wanted, symbolic: bool, target: str
) -> None:
    x = draw(shape, dtype)
    got = run(target, graph_of("fft.fft", [x], symbolic, **attrs), [x])
    wide = x.astype(np.complex128 if "complex" in dtype else np.float64)
    check(got, wanted(wide).astype(got.dtype), Accuracy.ACCUMULATING)


PAIRS: list[tuple[str, tuple[int, ...], dict[str, Any], Wanted]] = [
    ("float32", (3, 100, 1), {}, lambda x: pairs(np.fft.fft(x[..., 0]))),
    ("float64", (80, 3, 1), {"axis": 0, "onesided": True}, lambda x: pairs(np.fft.rfft(x[..., 0], axis=0))),
    ("float32", (2, 72, 3, 2), {"axis": 1, "inverse": True}, lambda x: pairs(np.fft.ifft(joined(x), axis=1))),
    ("float64", (3, 66, 2), {"onesided": True, "length": 71}, lambda x: pairs(np.fft.fft(joined(x), 71))[:, :36]),
    ("float32", (3, 66, 2), {"inverse": True, "onesided": True}, lambda x: np.fft.irfft(joined(x))[..., None]),
    ("float64", (3, 66, 1), {"inverse": True, "onesided": True}, lambda x: np.fft.irfft(x[..., 0])[..., None]),
    ("float16", (2, 70, 1), {}, lambda x: pairs(np.fft.fft(x[..., 0]))),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("dtype", "shape", "attrs", "wanted"), PAIRS)
def test_pairs_in_the_last_dimension(
    dtype: str, shape: tuple[int, ...], attrs: dict[str, Any], wanted: Wanted, symbolic: bool, target: str
) -> None:
    x = draw(shape, dtype)
    got = run(target, graph_of("fft.dft", [x], symbolic, **attrs), [x])
    check(got, wanted(x.astype(np.float64)).astype(dtype), Accuracy.ACCUMULATING)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("length", [1, 2, 37, 64, 100, 150])
def test_a_length_that_arrives_at_run_time(length: int, target: str) -> None:
    x, given = draw((3, 64, 1), "float32"), np.array(length)
    got = run(target, graph_of("fft.dft", [x, given], True, onesided=True), [x, given])
    check(got, pairs(np.fft.rfft(x[..., 0], length)).astype(np.float32), Accuracy.ACCUMULATING)
    inverse = graph_of("fft.dft", [x, given], True, onesided=True, inverse=True)
    check(run(target, inverse, [x, given]), np.fft.irfft(x[..., 0], length)[..., None].astype(np.float32), Accuracy.ACCUMULATING)


@pytest.mark.parametrize("shape", [(0, 80), (3, 0), (0, 0)])
def test_no_rows_and_empty_rows(shape: tuple[int, int]) -> None:
    x = draw(shape, "complex64")
    got = run("llvm", graph_of("fft.fft", [x], True, lengths=(80,)), [x])
    assert got.shape == (shape[0], 80) and not got.any()


def test_long_rows_take_n_log_n_steps() -> None:
    """2^18 numbers: a product with a table would have taken a minute and half a terabyte."""
    x = draw((1, 1 << 18), "complex64")
    got = run("llvm", graph_of("fft.fft", [x], False), [x])
    check(got, np.fft.fft(x.astype(np.complex128)).astype(np.complex64), Accuracy.ACCUMULATING)


def test_a_number_that_is_part_of_the_code() -> None:
    builder = Builder()
    x = builder.input(TensorType((1, 1, 1), "float32"), "x")
    number = builder.constant(np.full((1, 1, 1), 2, np.float32))
    shown = builder.call("add", x, builder.call("fft.dft", number, axis=0, length=70))
    compiled = compile_module(Module(builder.output(shown)), check_options(opt_level=0), use_cache=False)
    result = np.asarray(compiled.runtime()(np.ones((1, 1, 1), np.float32)))
    assert result.shape == (70, 1, 2) and (result[..., 0] == 3).all() and (result[..., 1] == 1).all()
