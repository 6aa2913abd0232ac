"""Element-wise operators, reductions and creation where frameworks differ, next to torch; with dynamic sizes, too."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.modules.linear_cross_entropy  # noqa: E402, F811 - it registers operators
from torch.utils import _pytree as pytree  # noqa: E402

from forge.errors import ExecutionError, ImportModelError, OpAttributeUnimplemented  # noqa: E402
from forge.frontends.torch import import_model  # noqa: E402
from tests.torch_databases.compare import difference, run  # noqa: E402

DYNAMIC = torch.export.Dim.DYNAMIC
Function = Callable[..., Any]
INF, NAN = math.inf, math.nan
REAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.7, INF, -INF, NAN])
INTEGERS = torch.tensor([0, 1, -1, 7, -7, 100, -100, 3])
DIVISORS = torch.tensor([3, -3, 2, 2, 2, -7, 7, -2])
BYTES = torch.tensor([0, 1, 7, 200, 255], dtype=torch.uint8)
BOOLS = torch.tensor([True, False, True])


class Applied(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def check(function: Function, *inputs: torch.Tensor, sizes: Any = None, others: tuple[torch.Tensor, ...] = ()) -> None:
    """The import of ``function`` gives what torch gives, for ``inputs`` and, where ``sizes`` are dynamic, for ``others``."""
    model = Applied(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(model, inputs, dynamic_shapes=None if sizes is None else {"tensors": sizes})
        module = import_model(exported)
        for tensors in (inputs, *([others] if others else [])):
            expected = pytree.tree_leaves(model(*tensors))
            got = run(module, tensors, compiled=False)
            for found, wanted in zip(got, expected, strict=True):
                assert difference(found, wanted) == ""


def pairs(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Every value with every value."""
    a, b = torch.meshgrid(values, values, indexing="ij")
    return a.contiguous(), b.contiguous()


TWO_REALS = {
    "maximum": torch.maximum,
    "fmin": torch.fmin,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "hypot": torch.hypot,
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "atan2": torch.atan2,
    "copysign": torch.copysign,
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "half": lambda a, b: torch.div((a * 33).half(), b.half(), rounding_mode="trunc"),
    "xlogy": torch.xlogy,
    "heaviside": torch.heaviside,
    "clamp_tensor": lambda a, b: a.clamp(b, b + 1),
    "pow": torch.pow,
    "logaddexp": torch.logaddexp,
    "lerp": lambda a, b: a.lerp(b, 0.7),
    "xlog1py": torch.special.xlog1py,
    "less": lambda a, b: a < b,
    "legendre": lambda a, b: torch.special.legendre_polynomial_p(a.nan_to_num(0.3, 2, -2), b.nan_to_num(0, 9, -9).round()),
    "isclose": lambda a, b: torch.isclose(a, b, equal_nan=True),
}


@pytest.mark.parametrize("name", TWO_REALS)
def test_two_reals(name: str) -> None:
    check(TWO_REALS[name], *pairs(REAL))


ONE_REAL = {
    "round": torch.round,
    "sign": torch.sign,
    "signbit": torch.signbit,
    "frac": torch.frac,
    "sinc": torch.sinc,
    "nan_to_num": torch.nan_to_num,
    "nan_to_some": lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0),
    "angle": torch.angle,
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp_nan": lambda x: x.clamp(min=NAN),
    "clamp_bool": lambda x: x.clamp(min=True),
    "relu": torch.relu,
    "logit": lambda x: x.logit(1e-3),
    "isposinf": torch.isposinf,
    "entr": torch.special.entr,
    "log_ndtr": torch.special.log_ndtr,
    "frexp": torch.frexp,
    "cummax": lambda x: x.cummax(0),
    "argmax": lambda x: x.argmax(),
    "max": lambda x: x.max(0),
    "median": lambda x: x.median(0),
    "nanmedian": lambda x: x.nanmedian(),
    "nansum": lambda x: x.nansum(),
    "any": lambda x: x.any(),
    "to_bool": lambda x: x.to(torch.bool),
    "count": lambda x: x.count_nonzero(),
    "norm": lambda x: torch.linalg.vector_norm(x[:7], 0),
    "logical_not": torch.logical_not,
    "polygamma": lambda x: torch.polygamma(1, x[:7].abs()),
    "round_decimals": lambda x: torch.round(x, decimals=1),
    "logsumexp": lambda x: x[:8].logsumexp(0),
    "one_element_var": lambda x: x[2:3].var(),
    "std_mean": lambda x: torch.std_mean(x[:7]),
}


@pytest.mark.parametrize("name", ONE_REAL)
def test_one_real(name: str) -> None:
    check(ONE_REAL[name], REAL)


TWO_INTEGERS = {
    "div": torch.div,
    "floor": lambda a, b: a // b,
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "gcd": torch.gcd,
    "lcm": torch.lcm,
    "atan2": torch.atan2,
    "and": torch.bitwise_and,
    "add_alpha": lambda a, b: torch.add(a, b, alpha=3),
    "rsub": lambda a, b: torch.rsub(a, b, alpha=2),
    "addcmul": lambda a, b: torch.addcmul(a, b, b, value=2),
    "clamp": lambda a, b: a.clamp(b, b + 2),
    "mean": lambda a, b: (a * b).float().mean(),
    "float_power": torch.float_power,
    "mixed": lambda a, b: a + b.to(torch.int8),
    "mixed_float": lambda a, b: a * b.to(torch.float16),
    "shift": lambda a, b: a << b.abs(),
    "shift_right": lambda a, b: a >> b.abs(),
    "logical_xor": torch.logical_xor,
    "times_half": lambda a, b: a * 0.5 > b,
    "power": lambda a, b: a ** (b.abs() % 4),
}


@pytest.mark.parametrize("name", TWO_INTEGERS)
def test_two_integers(name: str) -> None:
    check(TWO_INTEGERS[name], INTEGERS, DIVISORS)


OTHERS = {
    "bytes_sum": lambda x, b: x.sum(),
    "bytes_all": lambda x, b: x.all(),
    "bytes_prod": lambda x, b: x.prod(),
    "bytes_wrap": lambda x, b: x + 100,
    "bytes_negative": lambda x, b: x - 201,
    "bools_sum": lambda x, b: b.sum(),
    "bools_max": lambda x, b: b.max(0),
    "bools_add": lambda x, b: b + b,
    "bools_mul": lambda x, b: b * 2.5,
    "bools_kron": lambda x, b: torch.kron(b, b),
    "bools_less": lambda x, b: b < True,
    "bools_cumsum": lambda x, b: b.cumsum(0),
    "bools_not": lambda x, b: ~b,
    "bools_mean": lambda x, b: b.float().mean(),
    "bytes_mean": lambda x, b: x.mean(dtype=torch.float32),
    "bools_mode": lambda x, b: b.mode(),
    "bools_cummax": lambda x, b: b.cummax(0),
    "compare_wide": lambda x, b: x < 300,
    "compare_negative": lambda x, b: x > -1,
    "compare_real": lambda x, b: x > 199.5,
    "where": lambda x, b: torch.where(b, 1, 2.5),
    "bools_sign": lambda x, b: b.sign(),
    "bools_all": lambda x, b: b.all(),
    "bools_maximum": lambda x, b: torch.maximum(b, ~b),
    "bools_pow": lambda x, b: b.int() ** 2,
    "full": lambda x, b: torch.full((2, 3), 7),
    "arange": lambda x, b: torch.arange(2.5, -1, -0.5),
    "arange_int": lambda x, b: torch.arange(5, -3, -2, dtype=torch.int32),
    "linspace": lambda x, b: torch.linspace(3, -10, 7, dtype=torch.int32),
    "logspace": lambda x, b: torch.logspace(0, 3, 5),
    "one_step": lambda x, b: torch.linspace(3, 9, 1),
    "eye": lambda x, b: torch.eye(2, 4),
    "triu": lambda x, b: torch.ones(3, 4).triu(-1),
    "tril_indices": lambda x, b: torch.tril_indices(3, 4, -1),
    "like": lambda x, b: torch.full_like(b, 2.5, dtype=torch.float16),
    "hann": lambda x, b: torch.hann_window(6),
    "hamming": lambda x, b: torch.hamming_window(5, periodic=False),
    "kaiser": lambda x, b: torch.kaiser_window(7),
    "bartlett": lambda x, b: torch.bartlett_window(1),
    "no_axes": lambda x, b: b.sum().float().softmax(0).sum(0),
    "item": lambda x, b: x.sum().item() * 2 + 1,
}


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    check(OTHERS[name], BYTES, BOOLS)


COMPLEX = {
    "parts": lambda z: (z.real, z.imag, z.abs(), z.angle(), z.conj(), z.sgn()),
    "as_real": torch.view_as_real,
    "var": lambda z: z.var(0, correction=2),
    "norm": lambda z: torch.linalg.vector_norm(z, 3),
    "mean": lambda z: z.mean(),
    "again": lambda z: torch.view_as_complex(torch.view_as_real(z) * 2),
    "polar": lambda z: torch.polar(z.abs(), z.angle()),
    "functions": lambda z: (z.exp(), z.sqrt(), z.tanh(), z**2, z.log(), z.reciprocal()),
    "equal": lambda z: z == z.conj(),
    "real_power": lambda z: z.real + 2j,
    "isreal": torch.isreal,
    "cumprod": lambda z: z.cumprod(0),
    "exp2": torch.exp2,
    "logcumsumexp": lambda z: torch.logcumsumexp(torch.cat([z * 3, z - 20, z * -4j, z + 5j]), 0),
    "logcumsumexp_rows": lambda z: torch.logcumsumexp(torch.stack([z * 7j, -z * 5]), 1),
    "logcumsumexp_nothing": lambda z: torch.logcumsumexp(torch.log(z.real.clamp(min=0) * 0 + z.imag.clamp(min=0)).to(z.dtype), 0),
    "istft_of_both_halves": lambda z: torch.istft(torch.outer(z.repeat(2), z)[:6], 6, center=False),
    "windows": lambda z: torch.stft(z.real.repeat(5), 4, window=z, onesided=False, return_complex=True),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name: str) -> None:
    check(COMPLEX[name], torch.tensor([1 + 2j, -0.5 + 0.25j, 3 - 1j, 0.5 + 0j]))


SIZED = {
    "mean": lambda x: x.mean(-1),
    "var": lambda x: x.var(1, correction=2),
    "arange": lambda x: torch.arange(x.shape[1]) + x,
    "mask": lambda x: torch.triu(torch.full((x.shape[1], x.shape[1]), -INF), 1),
    "full": lambda x: torch.full((2,), x.shape[1]),
    "by_root": lambda x: x * x.shape[1] ** -0.5,
    "by_half": lambda x: x / (x.shape[1] / 2),
    "plus": lambda x: x + x.shape[0] * x.shape[1],
    "clamp": lambda x: x.clamp(0, x.shape[1]),
    "mode": lambda x: x.round().mode(1),
    "median": lambda x: x.median(1),
    "number": lambda x: x.shape[0] / 2,
    "eye": lambda x: torch.eye(x.shape[0]),
    "argmax": lambda x: x.argmax(keepdim=True),
    "random": lambda x: torch.randn(x.shape[0], x.shape[1]) * 0 + torch.rand_like(x) * 0,
    "polygamma": lambda x: torch.polygamma(2, x),
}


@pytest.mark.parametrize("name", SIZED)
def test_dynamic_sizes(name: str) -> None:
    torch.manual_seed(0)
    sizes = ({0: torch.export.Dim("rows", min=2, max=64), 1: torch.export.Dim("columns", min=3, max=64)},)
    check(SIZED[name], torch.randn(4, 6), sizes=sizes, others=(torch.randn(7, 9),))


def _segments(data: torch.Tensor, kind: str, **options: Any) -> torch.Tensor:
    return torch.segment_reduce(data, kind, **options)


TORCH_NN = torch.ops.torch_nn
LENGTHS, OFFSETS = torch.tensor([[2, 0, 3], [5, 0, 0]]), torch.tensor([0, 3, 3, 4, 10])
EDGES = torch.tensor([-2.5, -1.0, 0.5, 1.0, 3.7])
POINTS = torch.tensor([[0.5, 1.0], [-2.5, 3.7], [1.0, 1.0], [0.5, -1.0], [2.0, NAN], [INF, 0.0]])
IMAGE = torch.arange(2 * 3 * 7 * 9, dtype=torch.float32).mul(37).remainder(101).reshape(2, 3, 7, 9)
SAMPLES = torch.linspace(0, 0.999, 12).reshape(2, 3, 2)
PARTS = {
    **{f"segments_{kind}": (lambda x, kind=kind: _segments(x, kind, offsets=OFFSETS), REAL)
       for kind in ("sum", "mean", "max", "min", "prod")},
    "segments_of_rows": (lambda x: _segments(x, "max", lengths=LENGTHS, axis=1, initial=2), torch.arange(30.0).reshape(2, 5, 3)),
    "segments_initial": (lambda x: _segments(x, "mean", lengths=LENGTHS, axis=1, initial=2), torch.ones(2, 5)),
    "hash": (lambda x: (torch.hash_tensor(x), torch.hash_tensor(x, dim=0, keepdim=True)), REAL.reshape(2, 5)),
    "hash_of_half": (torch.hash_tensor, REAL.to(torch.float16)),
    "hash_of_bytes": (lambda x: torch.hash_tensor(x, dim=1), BYTES.reshape(1, 5)),
    "hash_of_integers": (torch.hash_tensor, INTEGERS),
    "histogram_between": (lambda x: torch.histogram(x, EDGES), REAL),
    "histogram_weights": (lambda x: torch.histogram(x, EDGES, weight=x.abs().clamp(max=3).nan_to_num(), density=True), REAL),
    "histogram_ends": (lambda x: torch.histogram(x, 4, range=(-2.5, 1.0)), REAL),
    "histogram_same": (lambda x: torch.histogram(x, 5), torch.full((4,), 2.0)),
    "histogram_uniform": (lambda x: torch.histogram(x, 7), torch.linspace(-0.3, 1, 50)),
    "histogramdd": (lambda x: torch.histogramdd(x, [EDGES, EDGES[1:]]), POINTS),
    "histogramdd_ends": (lambda x: torch.histogramdd(x, [3, 2], range=[-2.5, 1, -1, 1], density=True), POINTS),
    "histogramdd_counts": (lambda x: torch.histogramdd(x, [3, 2], weight=x[:, 0]), POINTS[:4]),
    "fractional": (lambda x: torch.ops.aten.fractional_max_pool2d(x, [2, 3], [4, 1], SAMPLES), IMAGE),
    "fractional_3d": (
        lambda x: torch.ops.aten.fractional_max_pool3d(x, [2, 3, 1], [1, 3, 8], torch.linspace(0, 0.9, 6).reshape(1, 2, 3)),
        IMAGE.reshape(2, 3, 7, 9),
    ),
    "margin_loss": (
        lambda x: [torch.nn.functional.multilabel_margin_loss(x, torch.tensor([3, 0, -1, 1]), reduction=r)
                   for r in ("none", "mean", "sum")], torch.tensor([0.5, -1, 2, 0.25])),
    "unique_last_axis": (lambda x: torch.unique_consecutive(x, True, True, dim=-1), torch.ones(2, 3)),
    "unique_runs_of_nothing": (lambda x: torch.unique_consecutive(x, True, True), torch.ones(0, 5)),
    "no_differences": (lambda x: torch.diff(x, 0, prepend=x[:1]), REAL),
    "statistics_of_half": (
        lambda x: torch.ops.aten.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5), IMAGE.to(torch.bfloat16)),
    "renorm_of_half": (lambda x: torch.renorm(x, 2, 0, 3.0), IMAGE.to(torch.float16) / 50),
    "einsum_of_hidden_axes": (lambda x: torch.einsum("...ik,...j->ij", x, x[0, 0, 0]), IMAGE),
    "unique_axis": (lambda x: torch.unique(x, return_counts=True, dim=-1), torch.tensor([[3.0, 1, 3, 1], [1, 2, 1, 2]])),
    "split_at": (lambda x, i: torch.tensor_split(x, i), (torch.arange(8.0), torch.tensor([2, -3, 4, 20]))),
    "take_from_the_end": (lambda x, i: torch.take_along_dim(x, i, 1), (REAL.reshape(2, 5), torch.tensor([[-1, 0, -5]]))),
    "split_columns": (lambda x, i: [y * 2 for y in torch.tensor_split(x, i, dim=1)], (torch.ones(2, 5), torch.tensor([3, 1]))),
    "linear_cross_entropy": (
        lambda x: [TORCH_NN._linear_cross_entropy_batch_chunked(
            x, x[:3], torch.tensor([0, -100, 2, 1]), None, None, r, -100, 0.0, 2, "compact", torch.float32, False, *[False] * 3,
        )[0] for r in ("mean", "sum")], torch.arange(20.0).reshape(4, 5).sin()),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_and_counts(name: str) -> None:
    function, inputs = PARTS[name]
    check(function, *(inputs if isinstance(inputs, tuple) else (inputs,)))


def test_gradients_of_a_chunked_loss_are_refused() -> None:
    def read(x: torch.Tensor) -> torch.Tensor:
        return TORCH_NN._linear_cross_entropy_batch_chunked(
            x, x[:3], torch.tensor([0, 2]), None, None, "mean", -100, 0.0, 2, "compact", torch.float32, False, True, False, False,
        )[1]

    with pytest.raises(OpAttributeUnimplemented, match="its gradients are read"):
        check(read, torch.ones(4, 5)[:2])


def test_random_numbers_are_distributed_as_those_of_torch() -> None:
    draws: dict[str, tuple[Function, float, float]] = {
        "uniform": (lambda x: torch.empty_like(x).uniform_(2, 4), 3.0, 4 / 12),
        "normal": (lambda x: torch.normal(1.0, 2.0, (10000,)), 1.0, 4.0),
        "exponential": (lambda x: torch.empty_like(x).exponential_(2.0), 0.5, 0.25),
        "geometric": (lambda x: torch.empty_like(x).geometric_(0.25), 4.0, 12.0),
        "bernoulli": (lambda x: torch.bernoulli(torch.full_like(x, 0.25)), 0.25, 0.1875),
        "integers": (lambda x: torch.randint(-3, 4, (10000,)).float(), 0.0, 4.0),
    }
    for name, (function, mean, variance) in draws.items():
        module = import_model(torch.export.export(Applied(function), (torch.zeros(10000),)))
        (got,) = run(module, (torch.zeros(10000),), compiled=False)
        error = 5 * math.sqrt(variance / 10000)
        assert abs(float(np.mean(got)) - mean) < error, name
        assert abs(float(np.var(got)) / variance - 1) < 0.2, name


EXTREMES: dict[str, Function] = {
    "max": lambda x: x.max(), "amin along": lambda x: x.amin(1), "min along": lambda x: x.min(1)[0],
    "argmax": lambda x: x.argmax(), "argmin along": lambda x: x.argmin(1), "aminmax": lambda x: x.aminmax(dim=1)[1],
    "largest norm": lambda x: torch.linalg.vector_norm(x, INF, 1), "median along": lambda x: x.median(1)[0],
    "mode": lambda x: x.mode(1)[0],
}  # fmt: skip


def _with_size_read(found: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    slices = found[0]
    return [*found, slices + torch.ones(slices.shape), torch.zeros(slices.shape[0]) + slices.shape[1]]


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("function", [torch.unique, torch.unique_consecutive])
def test_different_slices_of_any_size(function: Function, dim: int) -> None:
    model = Applied(lambda x: _with_size_read(function(x, return_inverse=True, return_counts=True, dim=dim)))
    numbers = np.random.default_rng(0).integers(0, 2, (9, 90)).astype(np.float32)
    inputs = [torch.tensor(np.repeat(x, 2, axis=dim)) for x in (numbers[:, :2], numbers, numbers.T)]
    module = import_model(torch.export.export(model, (inputs[0],), dynamic_shapes={"tensors": ((DYNAMIC, DYNAMIC),)}))
    for x in inputs:
        for got in (run(module, [x], compiled=True), run(module, [x], compiled=False)):
            assert [difference(found, wanted) for found, wanted in zip(got, model(x), strict=True)] == [""] * 5


def test_wrong_sizes_that_torch_states_are_named() -> None:
    model = Applied(lambda x: torch.unique_consecutive(x, dim=-1) * 2)
    with pytest.raises(ImportModelError, match=r"torch says .*unique_consecutive.* along axis -1: count the axis from the front"):
        import_model(torch.export.export(model, (torch.ones(2, 3),)))


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_of_nothing_fail(name: str) -> None:
    model = Applied(EXTREMES[name])
    module = import_model(torch.export.export(model, (torch.ones(2, 5),), dynamic_shapes={"tensors": (({1: DYNAMIC},))}))
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.ones(2, 0))
    for compiled in (False, True):
        with pytest.raises(ExecutionError, match="expected"):
            run(module, (torch.ones(2, 0),), compiled=compiled)
