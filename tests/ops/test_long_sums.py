"""Sums of 2^24 terms are as exact as sums of a few hundred: what docs/reference/accuracy.md says of each class of operators.

Most terms are 0.1: added in order, every rounding goes the same way until the total is twice as large. The truth is in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import forge
from forge.loops import BLOCK
from forge.ops.core.signatures import Array

TERMS = 1 << 24
TENTH = np.float32(0.1)

# In units of half a float32's last place, relative to the largest result. Blocks, the lanes and accumulators that are joined at
# the end, and the result itself; products also round as many terms as a part of the reduction has.
OF_BLOCKS = BLOCK + 16
OF_PRODUCTS = 512 + 16
OF_WIDER = 2


def _tenths(shape: tuple[int, ...]) -> Array:
    return np.full(shape, TENTH, np.float32)


def _random(shape: tuple[int, ...]) -> Array:
    return np.asarray(np.random.default_rng(0).random(shape, np.float32))


def _near_one(shape: tuple[int, ...]) -> Array:
    return np.asarray(1 + (_random(shape) - np.float32(0.5)) * np.float32(1e-6), np.float32)


@dataclass(frozen=True)
class Case:
    """``body`` on %x of ``shape``, and on ``others``; ``true`` gives the result from operands in float64."""

    name: str
    body: str
    shape: tuple[int, ...]
    true: Callable[..., Array]
    limit: int = OF_BLOCKS
    others: tuple[tuple[str, Array], ...] = ()
    values: Callable[[tuple[int, ...]], Array] = _tenths
    symbols: str = ""
    """The dimensions of x in the text, where they are not its shape."""

    def run(self) -> tuple[Array, Array]:
        """What compiled code gives, and the truth."""
        operands = [("%x", self.values(self.shape)), *self.others]
        types = [f"{name}: Tensor[({self.symbols if name == '%x' and self.symbols else _text(a.shape)}), {a.dtype}]"
                 for name, a in operands]
        module = forge.IRModule(f"def @main({', '.join(types)}) {{ {self.body} }}")
        got = module.get_inference_function()(*(a for _, a in operands))
        wide = [a.astype(np.float64) if a.dtype == np.float32 else a for _, a in operands]
        return np.asarray(got, np.float64), np.asarray(self.true(*wide))


def _text(shape: tuple[int, ...]) -> str:
    return f"{shape[0]}," if len(shape) == 1 else ", ".join(map(str, shape))


def _running(axis: int) -> Callable[[Array], Array]:
    return lambda x: np.cumsum(x, axis)


def _softmax(axis: int) -> Callable[[Array], Array]:
    return lambda x: np.exp(x) / np.exp(x).sum(axis, keepdims=True)


def _normalized(x: Array, gamma: Array, beta: Array) -> Array:
    return np.asarray((x - x.mean()) / np.sqrt(x.var() + 1e-5) * gamma + beta)


def _first_of_four(x: Array, *_: Array) -> Array:
    return np.array([x.sum(), 0, 0, 0])


ONES, ZEROS, FOUR = np.ones(TERMS, np.float32), np.zeros(TERMS, np.float32), np.zeros(4, np.float32)
MATRIX = (8, TERMS // 8)

CASES = [
    Case("sum", "sum(%x)", (TERMS,), np.sum),
    Case("sum of n", "sum(%x)", (TERMS,), np.sum, symbols="n,"),
    Case("sum of short rows", "sum(%x)", (TERMS // 7, 7), np.sum),
    Case("sum of long rows", "sum(%x, axis=[1])", MATRIX, lambda x: x.sum(1)),
    Case("sum of symbolic rows", "sum(%x, axis=[1])", MATRIX, lambda x: x.sum(1), symbols="n, m"),
    Case("sum of few columns", "sum(%x, axis=[0])", MATRIX[::-1], lambda x: x.sum(0)),
    Case("sum of columns", "sum(%x, axis=[0])", (TERMS // 256, 256), lambda x: x.sum(0)),
    Case("sum of symbolic columns", "sum(%x, axis=[0])", (TERMS // 64, 64), lambda x: x.sum(0), symbols="n, m"),
    Case("sum of middle axes", "sum(%x, axis=[0, 2])", (8, 8, TERMS // 128, 2), lambda x: x.sum((0, 2))),
    Case("mean", "mean(%x)", (4096, 4096), np.mean),
    Case("mean of float16", 'mean(cast(%x, dtype="float16"), axis=[0])', MATRIX[::-1],
         lambda x: x.astype(np.float16).mean(0, dtype=float), 1 << 13),
    Case("norm", "sqrt(sum(multiply(%x, %x)))", (TERMS,), lambda x: np.sqrt((x * x).sum())),
    Case("variance", "variance(%x)", (TERMS,), np.var, 2 * OF_BLOCKS, values=_random),
    Case("logsumexp", "logsumexp(%x)", (TERMS,), lambda x: np.log(np.exp(x).sum()), values=_random),
    Case("softmax", "nn.softmax(%x)", (1, TERMS), _softmax(1), values=_random),
    Case("softmax of columns", "nn.softmax(%x, axis=0)", MATRIX[::-1], _softmax(0), values=_random),
    Case("layer_norm", "nn.layer_norm(%x, %g, %b)", (1, TERMS), _normalized, 2 * OF_BLOCKS, (("%g", ONES), ("%b", ZEROS)),
         _random),
    Case("global_avg_pool", "nn.global_avg_pool2d(%x)", (1, 4, 2048, 2048), lambda x: x.mean((2, 3), keepdims=True)),
    Case("avg_pool", "nn.avg_pool2d(%x, pool_size=[2048, 2048], strides=[2048, 2048])", (1, 1, 4096, 4096),
         lambda x: x.reshape(1, 1, 2, 2048, 2, 2048).mean((3, 5))),
    Case("cumsum", "cumsum(%x, axis=0)", (TERMS,), _running(0)),
    Case("cumsum exclusive", "cumsum(%x, axis=0, exclusive=True)", (TERMS,), lambda x: np.cumsum(x) - x),
    Case("cumsum of rows", "cumsum(%x, axis=1)", MATRIX, _running(1), symbols="n, m"),
    Case("cumsum of columns", "cumsum(%x, axis=0)", MATRIX[::-1], _running(0)),
    Case("logcumsumexp", "logcumsumexp(%x, axis=0)", (TERMS // 4,), lambda x: np.log(np.cumsum(np.exp(x))), 8),
    Case("prod", "prod(%x)", (TERMS,), np.prod, OF_WIDER, values=_near_one),
    Case("cumprod", "cumprod(%x, axis=0)", (TERMS,), np.cumprod, OF_WIDER, values=_near_one),
    Case("dot product", "nn.matmul(%x, %y)", (1, TERMS), np.matmul, OF_PRODUCTS, (("%y", np.full((TERMS, 1), TENTH)),)),
    Case("matmul", "nn.matmul(%x, %y)", MATRIX, np.matmul, OF_PRODUCTS, (("%y", np.full(MATRIX[::-1], TENTH)),)),
    Case("dense", "nn.dense(%x, %y)", (8, TERMS // 16), lambda x, y: x @ y.T, OF_PRODUCTS,
         (("%y", np.full((8, TERMS // 16), TENTH)),)),
    Case("scatter_nd", 'scatter_nd(%d, %i, %x, mode="add")', (TERMS,), _first_of_four, OF_WIDER,
         (("%d", FOUR), ("%i", np.zeros((1, TERMS), np.int64)))),
    Case("scatter_nd of more elements", 'scatter_nd(%d, %i, %x, mode="add")', (TERMS // 8,),
         lambda x, d, _: np.append(x.sum(), d[1:]), OF_WIDER,
         (("%d", np.zeros(1 << 14, np.float32)), ("%i", np.zeros((1, TERMS // 8), np.int64)))),
    Case("segment_reduce", "segment_reduce(%x, %i, num_segments=4)", (TERMS,), _first_of_four, OF_WIDER,
         (("%i", np.zeros(TERMS, np.int64)),)),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_error_does_not_grow_with_length(case: Case) -> None:
    got, true = case.run()
    assert got.shape == true.shape
    error = np.max(np.abs(got - true)) / np.max(np.abs(true)) * 2**24
    assert error <= case.limit


def test_products_over_a_symbolic_depth_are_as_exact() -> None:
    run = forge.IRModule("def @main(%x: Tensor[(n, k), float32], %y: Tensor[(k, m), float32]) { nn.matmul(%x, %y) }")
    x, y = _tenths((2, TERMS // 4)), _tenths((TERMS // 4, 2))
    true = float(TENTH) ** 2 * len(y)
    assert np.max(np.abs(run.get_inference_function()(x, y) / true - 1)) <= OF_PRODUCTS * 2.0**-24


@pytest.mark.parametrize("shape", [(TERMS,), (TERMS // 16, 16), (TERMS // 512, 512)])
def test_float64_is_as_exact(shape: tuple[int, ...]) -> None:
    """0.1 in float64, whose multiples the integers know."""
    x = np.full(shape, 0.1)
    sums, running = (forge.IRModule(f"def @main(%x: Tensor[({_text(shape)}), float64]) {{ {op}(%x, axis={axis}) }}")
                     .get_inference_function()(x) for op, axis in (("sum", "[0]"), ("cumsum", "0")))
    numerator, denominator = (0.1).as_integer_ratio()
    true = shape[0] * numerator / denominator
    assert np.max(np.abs(sums / true - 1)) <= OF_BLOCKS * 2.0**-53
    assert np.max(np.abs(running[-1] / true - 1)) <= OF_BLOCKS * 2.0**-53


@pytest.mark.parametrize("special", [[np.inf], [-np.inf], [np.nan], [np.inf, -np.inf], [3e38, 3e38]])
def test_what_is_not_finite_stays_so(special: list[float]) -> None:
    x = np.ones(1 << 17, np.float32)
    x[1000 : 1000 + 40000 * len(special) : 40000] = special
    for shape in ((1 << 17,), (1 << 13, 16), (1 << 9, 256)):
        data = x.reshape(shape)
        with np.errstate(all="ignore"):
            wanted = np.cumsum(data, 0, np.float64).astype(np.float32)
        types = f"def @main(%x: Tensor[({_text(shape)}), float32])"
        for op, axis, true in (("sum", "[0]", wanted[-1]), ("cumsum", "0", wanted)):
            got = forge.IRModule(f"{types} {{ {op}(%x, axis={axis}) }}").get_inference_function()(data)
            np.testing.assert_allclose(got, true, rtol=1e-5)


def test_complex_sums_are_as_exact() -> None:
    x = np.full(TERMS // 4, TENTH + 1j * TENTH, np.complex64)
    types = f"def @main(%x: Tensor[({len(x)},), complex64])"
    for op, axis in (("sum", "[0]"), ("cumsum", "0")):
        got = forge.IRModule(f"{types} {{ {op}(%x, axis={axis}) }}").get_inference_function()(x)
        last = np.asarray(got).reshape(-1)[-1]
        assert abs(complex(last) / (complex(x[0]) * len(x)) - 1) <= OF_BLOCKS * 2.0**-24


def test_a_running_log_sum_begins_and_ends_anywhere() -> None:
    """Values below the first, far above all before, and infinite ones."""
    x = np.array([-np.inf, -3e38, -3.0, 100.0, 3e38, -np.inf, np.inf, 0.0], np.float32)
    run = forge.IRModule("def @main(%x: Tensor[(n,), float32]) { logcumsumexp(%x, axis=0) }").get_inference_function()
    np.testing.assert_array_equal(run(x), np.array([-np.inf, -3e38, -3.0, 100.0, 3e38, 3e38, np.inf, np.inf], np.float32))
    slow = np.linspace(-1, 1, 1 << 16, dtype=np.float32)
    true = np.logaddexp.accumulate(slow.astype(np.float64))
    np.testing.assert_allclose(run(slow), true, rtol=2e-6, atol=2e-6)
    assert np.isnan(run(np.array([1, np.nan, 2], np.float32))[1:]).all()
