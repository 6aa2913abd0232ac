"""Activation functions of bfloat16: every value at every x86-64 level, float32 not rounded yet, and use in fused kernels."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import forge
from forge.codegen import transcendental
from forge.codegen.module import emit_module
from forge.driver import check_options, compile_module
from forge.ir.parser import parse_module
from forge.target import Target, host
from forge.tir import expr as tir
from forge.tir.gates import MEANINGS
from tests.codegen.native import LEVELS, Array, map_function, run_map
from tests.driver.support import BFLOAT16_LIMIT, difference

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
ERF = np.frompyfunc(math.erf, 1, 1)
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    **{name: MEANINGS[name] for name in ("gelu", "gelu_tanh", "silu", "sigmoid", "softplus", "mish")},
    "tanh": np.tanh, "erf": lambda x: np.asarray(ERF(x), np.float64),
}
HERE = [level for level in LEVELS if set(Target.parse(level).features) <= set(host.features())]
LARGEST = 0.55
"""Error of rounded results in units of bfloat16."""

BEFORE_ROUNDING = 0.08
"""Error of results that are not rounded yet, in such units, where the function is neither near 1 nor subnormal."""


def in_units(got: Array, truth: Array) -> Array:
    """Errors of finite results in units of bfloat16."""
    finite = np.isfinite(got) & np.isfinite(truth)
    unit = np.maximum(np.ldexp(1.0, np.frexp(np.where(finite, truth, 1.0))[1] - 8), 2.0**-133)
    return np.asarray(np.where(finite, np.abs(got - truth) / unit, 0.0))


def unrounded(name: str, x: Array, target: str, lanes: int = 16) -> Array:
    """What a fused kernel has in its registers."""
    def body(v: tir.Expr) -> tir.Expr:
        return tir.cast(tir.call(name, tir.call("unrounded", v, dtype="bfloat16")), "float32")

    return run_map(map_function(("float32",), "float32", body, lanes), (x,), target)


def test_every_function_has_its_meaning_here() -> None:
    own = {name.removeprefix("bfloat16.") for name in transcendental.HELPERS if name.startswith("bfloat16.")}
    assert own == set(FUNCTIONS) == tir.BFLOAT16_INTRINSICS


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_value(name: str, target: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(BFLOAT16)
    truth = np.asarray(FUNCTIONS[name](x.astype(np.float64)), np.float64)
    rounded = truth.astype(BFLOAT16).astype(np.float64)
    for lanes in (1, 8, 32):
        function = map_function(("bfloat16",), "bfloat16", lambda v: tir.call(name, v), lanes)
        got = run_map(function, (x,), target).astype(np.float64)
        special = ~(np.isfinite(rounded) & np.isfinite(got))
        np.testing.assert_array_equal(got[special], rounded[special])
        zero = got == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(truth[zero]))
        errors = in_units(got, truth)
        worst = int(np.argmax(errors))
        assert errors[worst] <= LARGEST, f"{name}({x[worst]}) is {got[worst]}, not {truth[worst]}"


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_arguments_and_results_need_not_be_rounded(name: str, target: str) -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.normal(size=4000) * 2, rng.uniform(-85, 85, 4000), 10.0 ** rng.uniform(-35, 0, 192)])
    x = x.astype(np.float32)
    got, truth = unrounded(name, x, target), np.asarray(FUNCTIONS[name](x.astype(np.float64)))
    exempt = np.abs(truth) < 2.0**-125
    if name in ("tanh", "erf"):
        exempt |= np.abs(truth) > 1 - 2.0**-9
    assert in_units(got.astype(np.float64), truth)[~exempt].max() <= BEFORE_ROUNDING


@pytest.mark.parametrize("target", HERE)
def test_results_stay_within_the_bounds_of_the_function(target: str) -> None:
    x = np.linspace(-120, 120, 1 << 18, dtype=np.float32)
    for name, low in (("tanh", -1.0), ("erf", -1.0), ("sigmoid", 0.0)):
        got = unrounded(name, x, target)
        assert (got.min(), got.max()) == (low, 1.0)
        np.testing.assert_array_equal(got[[0, -1]], [low, 1.0])


@pytest.mark.parametrize(("dtype", "symbol"), [("bfloat16", "forge.bfloat16."), ("float16", "forge.float."),
                                               ("float32", "forge.float.")])
def test_other_types_keep_all_their_digits(dtype: str, symbol: str) -> None:
    for name in FUNCTIONS:
        text = emit_module([map_function((dtype,), dtype, lambda v, name=name: tir.call(name, v))], Target.parse("llvm"))
        assert f'@"{symbol}{name}.v8f32"' in text


@pytest.mark.usefixtures("narrow_layers")
@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64-v3", "llvm"])
@pytest.mark.parametrize(("operator", "helper"), [
    ("nn.gelu(%1)", "gelu"), ('nn.gelu(%1, approximate="tanh")', "gelu_tanh"), ("nn.silu(%1)", "silu"),
    ("sigmoid(%1)", "sigmoid"), ("tanh(%1)", "tanh"),
])
def test_a_layer_fused_with_its_activation(operator: str, helper: str, target: str) -> None:
    if target not in HERE:
        pytest.skip(f"this machine has not the features of {target}")
    rng = np.random.default_rng(6)
    text = f"""def @main(%x: Tensor[(n, 48), float32]) {{
      %0 = nn.dense(%x, meta[relay.Constant][0]);
      %1 = nn.bias_add(%0, meta[relay.Constant][1], axis=-1);
      %2 = {operator};
      nn.dense(%2, meta[relay.Constant][2])
    }}"""
    constants = [rng.standard_normal(shape, np.float32) / 7 for shape in ((80, 48), (80,), (16, 80))]
    module = forge.IRModule(parse_module(text, constants))
    compiled = compile_module(module.mod, check_options(target, bfloat16=True), use_cache=False)
    assert compiled.lowered is not None
    kernels = [emit_module([f], Target.parse(target)) for f in compiled.lowered.library.functions]
    assert any(f"forge.bfloat16.{helper}." in kernel for kernel in kernels)
    assert not any(f"forge.float.{helper}." in kernel for kernel in kernels)
    x = rng.standard_normal((21, 48), np.float32)
    assert 0 < difference(module, x, target=target, bfloat16=True) <= BFLOAT16_LIMIT
