"""Quantised models of torchao, and the operators that they consist of, next to eager torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")

import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86  # noqa: E402
from torch import nn  # noqa: E402
from torchao import quantization as ao  # noqa: E402
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e  # noqa: E402

import forge  # noqa: E402
from forge.errors import ImportModelError, OpAttributeUnimplemented  # noqa: E402
from forge.frontends.torch import import_model  # noqa: E402

CODES = torch.ops.quantized_decomposed
AFFINE = torch.ops.torchao


def exported(model: nn.Module, *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(model, arguments, **options)


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def agree(got: Any, expected: Any, rtol: float, atol: float = 0) -> None:
    """Integers are equal."""
    wanted = expected if isinstance(expected, list | tuple) else [expected]
    for found, tensor in zip(got if isinstance(got, list | tuple) else [got], wanted, strict=True):
        if tensor.dtype.is_floating_point:
            np.testing.assert_allclose(np.asarray(found, np.float64), tensor.detach().double().numpy(), rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(found, tensor.numpy())


def check(function: Callable[..., Any], *arguments: Any, rtol: float = 0) -> None:
    """Compiled code gives what torch does."""
    infer = forge.from_torch(exported(Calls(function), *arguments)).get_inference_function()
    agree(infer(*(a.numpy() for a in arguments)), function(*arguments), rtol)


def data(*shape: int, seed: int = 0) -> Any:
    """Many numbers that are in the middle of two integers, too."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy((np.round(rng.normal(size=shape) * 200) / 20).astype(np.float32))


SCALES = torch.tensor([0.1, 0.05, 0.3, 0.0123])
ZEROS = torch.tensor([0, 3, -7, 100])
Q = torch.from_numpy(np.random.default_rng(1).integers(-128, 128, (4, 16)).astype(np.int8))


@pytest.mark.parametrize(("low", "high", "dtype", "zero"), [(-128, 127, torch.int8, -5), (0, 255, torch.uint8, 109),
                                                             (0, 127, torch.uint8, 0), (-32768, 32767, torch.int16, 12)])
def test_per_tensor(low: int, high: int, dtype: Any, zero: int) -> None:
    check(lambda x: CODES.quantize_per_tensor(x, 0.05, zero, low, high, dtype), data(40, 40))
    scale, zeros = torch.tensor([0.1]), torch.tensor([zero])
    check(lambda x, s, z: CODES.quantize_per_tensor.tensor(x, s, z, low, high, dtype), data(40, 40), scale, zeros)
    q = torch.randint(low, high + 1, (40, 40)).to(dtype)
    check(lambda x: CODES.dequantize_per_tensor(x, 0.05, zero, low, high, dtype), q)
    check(lambda x, s, z: CODES.dequantize_per_tensor.tensor(x, s, z, low, high, dtype), q, scale, zeros)


@pytest.mark.parametrize("wide", [torch.float32, torch.float64])
@pytest.mark.parametrize("axis", [0, 2])
def test_per_channel(axis: int, wide: Any) -> None:
    x, scales = data(4, 50, 4), SCALES.to(wide)
    check(lambda x, s, z: CODES.quantize_per_channel(x, s, z, axis, -128, 127, torch.int8), x, scales, ZEROS)
    check(lambda x: CODES.quantize_per_channel(x, scales, ZEROS, axis, -127, 127, torch.int8), x)
    q = CODES.quantize_per_channel(x, scales, ZEROS, axis, -128, 127, torch.int8)
    check(lambda q, s, z: CODES.dequantize_per_channel(q, s, z, axis, -128, 127, torch.int8), q, scales, ZEROS)
    check(lambda q, s: CODES.dequantize_per_channel(q, s, None, axis, -128, 127, torch.int8), q, scales)


def test_per_token_and_per_group() -> None:
    x, scales, zeros = data(4, 16), SCALES.double().reshape(4, 1), ZEROS.reshape(4, 1)
    check(lambda x, s, z: CODES.quantize_per_token(x, s, z, -128, 127, torch.int8), x, scales, zeros)
    check(lambda q, s, z: CODES.dequantize_per_token(q, s, z, -128, 127, torch.int8, torch.float32), Q, scales, zeros)
    scales = (SCALES.reshape(4, 1) * torch.tensor([1.0, 2.0, 0.7, 0.3])).contiguous()
    zeros = torch.arange(16).reshape(4, 4) - 8
    check(lambda x, s, z: CODES.quantize_per_channel_group(x, s, z, -8, 7, torch.int8, 4), x, scales, zeros)
    check(lambda q, s, z: CODES.dequantize_per_channel_group(q, s, z, -8, 7, torch.int8, 4, torch.float32), Q, scales, zeros)


RANGES = {"both": data(8, 9), "positive": data(8, 9).abs(), "negative": -data(8, 9).abs(), "none": torch.zeros(8, 9)}


@pytest.mark.parametrize("sides", RANGES)
def test_parameters_of_data(sides: str) -> None:
    check(lambda x: CODES.choose_qparams.tensor(x, 0, 255, 2.0**-12, torch.uint8), RANGES[sides])
    check(lambda x: CODES.choose_qparams_symmetric.tensor(x, -127, 127, 2.0**-12, torch.int8), RANGES[sides])


@pytest.mark.parametrize("block", [(1, 9), (8, 9), (4, 1), (2, 3)])
@pytest.mark.parametrize("mapping", ["SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC"])
def test_parameters_of_blocks(mapping: str, block: tuple[int, int]) -> None:
    def choose(x: Any, keepdim: bool) -> Any:
        return AFFINE.choose_qparams_affine(x, mapping, block, torch.int8, -128, 127, 1e-7, torch.float32, torch.int8, keepdim)

    check(lambda x: choose(x, True), RANGES["both"])
    check(lambda x: choose(x, False), RANGES["positive"])


@pytest.mark.parametrize(("block", "scales"), [((4, 16), ()), ((1, 16), (4, 1)), ((4, 1), (16,)), ((1, 4), (4, 4)),
                                               ((2, 1), (2, 16)), ((1, 1), (4, 16))])
def test_affine(block: tuple[int, ...], scales: tuple[int, ...]) -> None:
    s = torch.from_numpy(np.random.default_rng(2).uniform(0.01, 0.2, scales).astype(np.float32))
    z = torch.from_numpy(np.random.default_rng(3).integers(-8, 8, scales).astype(np.int32))
    check(lambda x, s, z: AFFINE.quantize_affine(x, block, s, z, torch.int8, -100, 100), data(4, 16), s, z)
    check(lambda q, s, z: AFFINE.dequantize_affine(q, block, s, z, torch.int8, -100, 100), Q, s, z)


def test_blocks_of_two_axes_are_refused() -> None:
    model = Calls(lambda q, s, z: AFFINE.dequantize_affine(q, (2, 4), s, z, torch.int8))
    with pytest.raises(OpAttributeUnimplemented, match=r"block_size: got \[2, 4\].*supported: blocks of a known size along one"):
        import_model(exported(model, Q, torch.ones(2, 4), torch.zeros(2, 4)))


def test_products() -> None:
    check(torch._int_mm, Q, Q.t().contiguous())
    check(torch.ops.aten._weight_int8pack_mm, data(3, 16), Q, SCALES, rtol=1e-5)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)).eval()


def weights(ir: forge.IRModule) -> dict[tuple[int, ...], str]:
    """Element types of the constants of two axes and more."""
    graph = next(iter(ir.graphs.values()))
    return {v.shape: v.dtype for n in graph.walk() for v in n.operands if v is not None and v.constant is not None and v.rank > 1}


def next_to_torch(ir: forge.IRModule, model: Any, x: Any, tmp_path: Path) -> None:
    """The module, its file and its ONNX model give what torch does."""
    ir.save(tmp_path / "model.forge")
    again = forge.load(tmp_path / "model.forge")
    assert weights(again) == weights(ir)
    ir.to_onnx(tmp_path / "model.onnx")
    back = forge.from_onnx(tmp_path / "model.onnx")
    assert {s: d for s, d in weights(back).items() if d != "int8"} == {s: d for s, d in weights(ir).items() if d != "int8"}
    for module in (ir, again, back):
        agree(module.get_inference_function()(x.numpy()), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"is_dynamic": True}, {"is_qat": True}])
def test_a_network_quantised_after_its_export(options: dict[str, bool], tmp_path: Path) -> None:
    x = data(2, 3, 8, 8)
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config(**options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(exported(network(), x).module(), quantizer)
        prepared(x)
        model = convert_pt2e(prepared)
        program = exported(model, x)
        torch.export.save(program, tmp_path / "model.pt2")
    ir = forge.from_torch(program)
    assert weights(ir) == {(8, 3, 3, 3): "int8", (5, 288): "int8"}
    assert ir.is_quantized
    next_to_torch(ir, model, x, tmp_path)
    assert weights(forge.from_torch(tmp_path / "model.pt2")) == weights(ir)


CONFIGS = {
    "int8 weights": ao.Int8WeightOnlyConfig(),
    "int8 weights and activations": ao.Int8DynamicActivationInt8WeightConfig(),
    "int4 weights by row": ao.IntxWeightOnlyConfig(weight_dtype=torch.int4),
    "int4 weights by group": ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=ao.PerGroup(32)),
    "int4 weights by group and activations": ao.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=ao.PerGroup(32)),
}


def linear(config: str) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 96)).eval()
    ao.quantize_(model, CONFIGS[config])
    return model


@pytest.mark.parametrize("config", CONFIGS)
def test_quantised_parameters(config: str, tmp_path: Path) -> None:
    model, x = linear(config), data(3, 64)
    ir = forge.from_torch(exported(model, x))
    assert {d for s, d in weights(ir).items() if np.prod(s) > 1000} == {"int8"}
    next_to_torch(ir, model, x, tmp_path)


@pytest.mark.parametrize("config", CONFIGS)
def test_quantised_parameters_with_a_dynamic_size(config: str) -> None:
    model, x = linear(config), data(5, 7, 64)
    ir = forge.from_torch(exported(model, x, dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=64)},)))
    assert str(ir.input_shapes[0]) == "(batch, 7, 64)"
    for part in (x, x[:2]):
        agree(ir.get_inference_function()(part.numpy()), model(part), rtol=1e-4, atol=1e-5)


def test_quantised_parameters_in_files(tmp_path: Path) -> None:
    """Weights of classes of torchao would be pickled; torch takes them apart before."""
    model, x = linear("int4 weights by group"), data(3, 64)
    program = exported(model, x)
    torch.export.save(program, tmp_path / "whole.pt2")
    with pytest.raises(ImportModelError, match=r"'0.weight' is pickled.*run_decompositions\(\{\}\)"):
        forge.from_torch(tmp_path / "whole.pt2")
    torch.export.save(program.run_decompositions({}), tmp_path / "parts.pt2")
    agree(forge.from_torch(tmp_path / "parts.pt2").get_inference_function()(x.numpy()), model(x), rtol=1e-4, atol=1e-5)


def test_quantised_parameters_as_inputs() -> None:
    module = import_model(exported(linear("int4 weights by group"), data(3, 64)), keep_params_as_input=True)
    assert {a.shape: str(a.dtype) for a in module.params.values() if a.ndim == 2} == {
        (32, 64): "int8", (32, 2): "float32", (96, 32): "int8", (96, 1): "float32"}


def test_quantised_rows_of_an_embedding() -> None:
    model, index = nn.Sequential(nn.Embedding(50, 64)).eval(), torch.tensor([[1, 4, 49]])
    config = ao.IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=ao.PerAxis(0))
    ao.quantize_(model, config, filter_fn=lambda module, name: isinstance(module, nn.Embedding))
    ir = forge.from_torch(exported(model, index))
    assert weights(ir) == {(50, 64): "int8"}
    agree(ir.get_inference_function()(index.numpy()), model(index), rtol=0)
