"""Quantized models of torchao, and the operators that they consist of, next to eager torch."""

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
from forge.frontends.torch.exported import array_of  # noqa: E402

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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("sides", RANGES)
def test_parameters_of_rows(sides: str, dtype: Any) -> None:
    x = RANGES[sides].to(dtype)
    for choose in (CODES.choose_qparams_per_token, CODES.choose_qparams_per_token_asymmetric):
        infer = forge.from_torch(exported(Calls(lambda x: choose(x, torch.int8)), x)).get_inference_function()  # noqa: B023
        for found, wanted in zip(infer(array_of(x, "x")), choose(x, torch.int8), strict=True):
            np.testing.assert_array_equal(np.asarray(found, np.float64), wanted.double().numpy())


def test_rounding_to_integers_and_back() -> None:
    check(lambda x, s, z: CODES.fake_quant_per_channel(x, s, z, 1, -128, 127), data(6, 4, 5), SCALES, ZEROS)


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


def test_blocks_of_two_axes_are_left_to_torch() -> None:
    model = Calls(lambda q, s, z: AFFINE.dequantize_affine(q, (2, 4), s, z, torch.int8))
    program = exported(model, Q, torch.ones(2, 4), torch.zeros(2, 4))
    with pytest.raises(OpAttributeUnimplemented, match=r"block_size: got \[2, 4\].*supported: blocks of a known size along one"):
        import_model(program, decompose=False)
    check(lambda q, s, z: AFFINE.dequantize_affine(q, (2, 4), s, z, torch.int8), Q, data(2, 4), torch.zeros(2, 4))


def test_products() -> None:
    check(torch._int_mm, Q, Q.t().contiguous())
    check(torch.ops.aten._weight_int8pack_mm, data(3, 16), Q, SCALES, rtol=1e-5)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)).eval()


def weights(ir: forge.IRModule) -> dict[tuple[int, ...], str]:
    """Element types of the constants of two axes and more; of packed ones, those of their numbers."""
    nodes = list(next(iter(ir.graphs.values())).walk())
    unpacked = {n.operands[0]: n.result for n in nodes if n.op == "qnn.unpack"}
    constants = [v for n in nodes for v in n.operands if v is not None and v.constant is not None and v.rank > 1]
    return {v.shape: v.dtype for v in (unpacked.get(c, c) for c in constants)}


def next_to_torch(ir: forge.IRModule, model: Any, x: Any, tmp_path: Path) -> None:
    """The module, its file and its ONNX model give what torch does."""
    ir.save(tmp_path / "model.forge")
    again = forge.load(tmp_path / "model.forge")
    assert weights(again) == weights(ir)
    ir.to_onnx(tmp_path / "model.onnx")
    back = forge.from_onnx(tmp_path / "model.onnx")
    kept = [{s: d for s, d in weights(m).items() if d != "int8"} for m in (back, ir)]
    assert kept[0] == kept[1]
    for module in (ir, again, back):
        agree(module.get_inference_function()(x.numpy()), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"is_dynamic": True}, {"is_qat": True}])
def test_a_network_quantized_after_its_export(options: dict[str, bool], tmp_path: Path) -> None:
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
    "int4, limits of 3 bits": ao.IntxWeightOnlyConfig(weight_dtype=torch.int3, granularity=ao.PerGroup(32)),
    "int8, limits of 6 bits": ao.IntxWeightOnlyConfig(weight_dtype=torch.int6, granularity=ao.PerGroup(32)),
    "int4 weights by group and activations": ao.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=ao.PerGroup(32)),
}


def linear(config: str) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 96)).eval()
    ao.quantize_(model, CONFIGS[config])
    return model


@pytest.mark.parametrize("config", CONFIGS)
def test_quantized_parameters(config: str, tmp_path: Path) -> None:
    model, x = linear(config), data(3, 64)
    ir = forge.from_torch(exported(model, x))
    assert {d for s, d in weights(ir).items() if np.prod(s) > 1000} == {config[:4]}
    next_to_torch(ir, model, x, tmp_path)


@pytest.mark.parametrize("config", CONFIGS)
def test_quantized_parameters_with_a_dynamic_size(config: str) -> None:
    model, x = linear(config), data(5, 7, 64)
    ir = forge.from_torch(exported(model, x, dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=64)},)))
    assert str(ir.input_shapes[0]) == "(batch, 7, 64)"
    for part in (x, x[:2]):
        agree(ir.get_inference_function()(part.numpy()), model(part), rtol=1e-4, atol=1e-5)


def test_quantized_parameters_in_files(tmp_path: Path) -> None:
    """Weights of classes of torchao would be pickled; torch takes them apart before."""
    model, x = linear("int4 weights by group"), data(3, 64)
    program = exported(model, x)
    torch.export.save(program, tmp_path / "whole.pt2")
    with pytest.raises(ImportModelError, match=r"'0.weight' is pickled.*run_decompositions\(\{\}\)"):
        forge.from_torch(tmp_path / "whole.pt2")
    torch.export.save(program.run_decompositions({}), tmp_path / "parts.pt2")
    agree(forge.from_torch(tmp_path / "parts.pt2").get_inference_function()(x.numpy()), model(x), rtol=1e-4, atol=1e-5)


def test_quantized_parameters_as_inputs() -> None:
    module = import_model(exported(linear("int4 weights by group"), data(3, 64)), keep_params_as_input=True)
    assert {a.shape: str(a.dtype) for a in module.params.values() if a.ndim == 2} == {
        (32, 64): "int8", (32, 2): "float32", (96, 32): "int8", (96, 1): "float32"}


def test_quantized_rows_of_an_embedding() -> None:
    model, index = nn.Sequential(nn.Embedding(50, 64)).eval(), torch.tensor([[1, 4, 49]])
    config = ao.IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=ao.PerAxis(0))
    ao.quantize_(model, config, filter_fn=lambda module, name: isinstance(module, nn.Embedding))
    ir = forge.from_torch(exported(model, index))
    assert weights(ir) == {(50, 64): "int8"}
    agree(ir.get_inference_function()(index.numpy()), model(index), rtol=0)


class Packed(nn.Module):
    """A product with a weight of four bits that torch packs when the module is made."""

    def __init__(self, rows: int, group: int, dtype: Any, zeros: bool) -> None:
        super().__init__()
        codes = torch.randint(0, 16, (rows, 128), dtype=torch.int32, generator=torch.manual_seed(rows))
        self.register_buffer("weight", torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1))
        self.register_buffer("parameters_", torch.rand(128 // group, rows, 2).mul(torch.tensor([1.0, zeros])).to(dtype))
        self.group = group

    def forward(self, x: Any) -> Any:
        return torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.weight, self.group, self.parameters_)


@pytest.mark.parametrize(("rows", "group", "dtype", "zeros", "rtol"), [
    (64, 32, torch.float32, True, 1e-5), (16, 64, torch.float32, True, 1e-5), (240, 128, torch.float32, False, 1e-5),
    (96, 32, torch.bfloat16, True, 1e-2), (112, 32, torch.float16, True, 1e-3),
])  # fmt: skip
def test_packed_weights_of_four_bits(rows: int, group: int, dtype: Any, zeros: bool, rtol: float, tmp_path: Path) -> None:
    model, x = Packed(rows, group, dtype, zeros), data(5, 128).to(dtype)
    ir = forge.from_torch(exported(model, x))
    assert weights(ir)[(rows, 128)] == "int4"
    ir.save(tmp_path / "model.forge")
    again = forge.load(tmp_path / "model.forge")
    assert weights(again) == weights(ir)
    ir.to_onnx(tmp_path / "model.onnx")
    back = forge.from_onnx(tmp_path / "model.onnx")
    assert weights(back)[(rows, 128)] == "int4"
    expected = model(x)
    for module in (ir, again, back):
        array = array_of(x, "x")
        agree(module.get_inference_function()(array), expected, rtol=rtol, atol=rtol * float(expected.abs().max()))


def test_a_weight_of_four_bits_that_the_model_packs() -> None:
    codes = torch.randint(0, 16, (48, 64), dtype=torch.int32, generator=torch.manual_seed(0))
    parameters = torch.rand(2, 48, 2)

    def product(x: Any) -> Any:
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
        return torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, 32, parameters)

    x = data(3, 64)
    ir = forge.from_torch(exported(Calls(product), x))
    agree(ir.get_inference_function()(x.numpy()), product(x), rtol=1e-5, atol=1e-4)
    late = Calls(lambda x, w: torch.ops.aten._weight_int4pack_mm_for_cpu(x, w, 32, parameters))
    with pytest.raises(OpAttributeUnimplemented, match="mat2: got a tensor that is computed at run time; supported: constants"):
        forge.from_torch(exported(late, x, torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)), through_onnx=False)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("block", [64, 32])
def test_products_with_rows_rounded_to_eight_bits(block: int, bias: bool) -> None:
    codes = torch.randint(0, 256, (48, 32), dtype=torch.uint8, generator=torch.manual_seed(0))
    scales, offsets = torch.rand(48, 64 // block), torch.rand(48) if bias else None
    pack, product = torch.ops.aten._dyn_quant_pack_4bit_weight, torch.ops.aten._dyn_quant_matmul_4bit

    def late(x: Any) -> Any:
        return product(x, pack(codes, scales, offsets, block, 64, 48), block, 64, 48)

    x = torch.cat([data(4, 64), data(1, 64).abs(), torch.zeros(1, 64), -data(1, 64).abs()])
    packed = pack(codes, scales, offsets, block, 64, 48)
    for function in (late, lambda x: product(x, packed, block, 64, 48)):
        ir = forge.from_torch(exported(Calls(function), x))
        assert weights(ir)[(48, 64)] == "int4"
        agree(ir.get_inference_function()(x.numpy()), late(x), rtol=1e-5, atol=1e-4)
