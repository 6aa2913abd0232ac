"""Element-wise operators, reductions and creation where frameworks differ, next to torch; with dynamic sizes, too."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils import _pytree as pytree  # noqa: E402

from forge.frontends.torch import import_model  # noqa: E402
from tests.torch_databases.compare import difference, run  # noqa: E402

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
