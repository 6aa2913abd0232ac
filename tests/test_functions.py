"""Modules with several public functions: joined, selected, compiled into one library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import forge
from forge.driver import compile_module
from forge.errors import InvalidGraphError, OptionError

WEIGHT = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)


def layer(rows: str, tail: str = "nn.relu(%0)") -> forge.IRModule:
    text = f"def @main(%x: Tensor[({rows}, 64), float32], %w: Tensor[(64, 64), float32]) {{ %0 = nn.dense(%x, %w); {tail} }}"
    return forge.IRModule(text, {"w": WEIGHT.copy()})


def joined() -> forge.IRModule:
    return forge.join({"prefill": layer("n"), "decode": layer("1", "nn.gelu(%0)")})


def test_joined_functions_share_weights_of_equal_contents() -> None:
    ir = joined()
    assert ir.functions == ["prefill", "decode"] and ir.main is ir.graphs["prefill"]
    first, second = (ir.graphs[name].params["w"] for name in ir.functions)
    assert np.shares_memory(first, second)
    compiled = compile_module(ir.mod, use_cache=False)
    assert compiled.weights.size == compile_module(layer("n").mod, use_cache=False).weights.size


def test_weights_that_differ_in_one_bit_stay_two() -> None:
    other = layer("n")
    changed = WEIGHT.copy()
    changed[63, 1] = -changed[63, 1]
    other.params["w"] = changed
    ir = forge.join({"a": layer("n"), "b": other})
    assert ir.graphs["b"].params["w"][63, 1] == changed[63, 1] == -ir.graphs["a"].params["w"][63, 1]


def test_private_functions_keep_their_callers() -> None:
    text = "def @main(%x: float32) { @step(@step(%x)) } def @step(%v: float32) { add(%v, 1f) }"
    other = "def @main(%x: float32) { @step(%x) } def @step(%v: float32) { multiply(%v, 3f) }"
    ir = forge.join({"main": forge.IRModule(text), "triple": forge.IRModule(other)})
    assert list(ir.graphs) == ["main", "main.step", "triple", "triple.step"] and ir.functions == ["main", "triple"]
    assert ir.function("triple").get_inference_function("reference")(np.float32(2)) == 6
    assert list(ir.function("triple").graphs) == ["triple", "triple.step"]


def test_modules_come_back_from_files(tmp_path: Path) -> None:
    ir = joined()
    ir.save(tmp_path / "m.forge")
    assert forge.load(tmp_path / "m.forge").fingerprint == ir.fingerprint


def test_one_function_runs_alone() -> None:
    x = np.random.default_rng(1).standard_normal((1, 64)).astype(np.float32)
    ir = joined()
    for name in ir.functions:
        alone = ir.function(name)
        np.testing.assert_allclose(
            alone.get_inference_function()(x), alone.get_inference_function("reference")(x), rtol=1e-5, atol=1e-5)


def test_what_cannot_be_joined_or_selected() -> None:
    with pytest.raises(OptionError, match="join: 'x': has the functions prefill, decode; expected one; select it"):
        forge.join({"x": joined()})
    with pytest.raises(OptionError, match="join: 'x': got int; expected an IRModule"):
        forge.join({"x": 3})  # type: ignore[dict-item]
    with pytest.raises(OptionError, match="expected modules by name"):
        forge.join([])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="function: got 'encode'; expected some of: prefill, decode"):
        joined().function("encode")
    state = "def @main(state %k: Tensor[(n, {}), float32]) {{ (%k = %k) }}"
    with pytest.raises(InvalidGraphError, match=r"@b: state 'k': got .* as @a has it"):
        forge.join({"a": forge.IRModule(state.format(4)), "b": forge.IRModule(state.format(5))})


def test_a_function_called_often_is_compiled_once() -> None:
    def calls(count: int) -> int:
        lines = " ".join(f"%{k + 1} = @layer(%{k if k else 'x'}, %w);".replace("%x0", "%x") for k in range(count))
        text = (f"def @main(%x: Tensor[(n, 64), float32], %w: Tensor[(64, 64), float32]) {{ {lines} %{count} }}"
                " def @layer(%v: Tensor[(m, 64), float32], %u: Tensor[(64, 64), float32]) { nn.gelu(nn.dense(%v, %u)) }")
        return len(compile_module(forge.IRModule(text, {"w": WEIGHT}).mod, use_cache=False).kernels)

    assert calls(32) <= calls(4)


def test_onnx_takes_one_function() -> None:
    with pytest.raises(OptionError, match="to_onnx: got the functions prefill, decode; expected one"):
        joined().to_onnx()
    text = "def @main(%x: Tensor[(1, 4), float32], state %k: Tensor[(s, 4), float32]) { (%x, %k = concatenate(%k, %x)) }"
    model = forge.IRModule(text).to_onnx()
    assert model is not None
    assert [v.name for v in model.graph.input] == ["x", "k"] and len(model.graph.output) == 2


def test_params_of_all_functions_are_detached() -> None:
    detached, values = forge.relax.detach_params(joined())
    assert list(values) == ["prefill", "decode"] and not detached.graphs["decode"].params
    np.testing.assert_array_equal(values["decode"][0].numpy(), WEIGHT)
