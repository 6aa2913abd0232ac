"""Layers that `torch.ao.quantization` has quantized, in traces and scripts, next to eager torch."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.ao.quantization as tq  # noqa: E402
from torch import nn  # noqa: E402
from torch.ao.nn.quantized import FloatFunctional  # noqa: E402
from torch.nn import functional  # noqa: E402

import forge  # noqa: E402
from forge.errors import OpNotImplemented  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

IMAGE = torch.randn(2, 4, 10, 12, generator=torch.manual_seed(0))
ROWS = torch.randn(5, 16, generator=torch.manual_seed(1))


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The engine that packs and runs what a test quantizes by its configuration.

    qnnpack's configuration uses all 8 bits of activations; the other engine needs 7 without VNNI, where its sums of two
    products saturate at 16 bits.
    """
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = request.param
    yield request.param
    torch.backends.quantized.engine = before


class Between(nn.Module):
    """A function, or layers, between a quantization and a dequantization."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.quantize, self.dequantize = tq.QuantStub(), tq.DeQuantStub()
        self.layers = nn.ModuleList(layers)
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.dequantize(self.function(*self.layers, *map(self.quantize, inputs)))


def converted(model: nn.Module, *inputs: Any, engine: str = "x86") -> Any:
    model.eval().qconfig = tq.get_default_qconfig(engine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = tq.prepare(model)
        prepared(*inputs)
        return tq.convert(prepared)


def differing(model: Any, ir: forge.IRModule, *inputs: Any) -> tuple[float, float]:
    """The part of the results that differ from torch's, and by how many steps of the last scale at most."""
    expected = model(*inputs).detach().numpy()
    got = ir.get_inference_function()(*[t.numpy() for t in inputs])
    steps = np.unique(np.abs(np.diff(np.unique(expected))).round(7))
    step = float(steps[steps > 0].min()) if (steps > 0).any() else 1.0
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    return float(np.mean(np.abs(got - expected) > step / 4)), float(np.abs(got - expected).max() / step)


def check(model: Any, *inputs: Any, part: float = 0.01, **options: Any) -> forge.IRModule:
    """Nearly all results are torch's, and the others the integers next to them."""
    ir = forge.from_torch(torch.jit.trace(model, inputs, check_trace=False), through_onnx=False, **options)
    found, steps = differing(model, ir, *inputs)
    assert found <= part
    assert steps <= 1.01
    return ir


def constants(ir: forge.IRModule) -> dict[str, tuple[Any, str]]:
    operands = [v for node in next(iter(ir.graphs.values())).walk() for v in node.operands if v is not None]
    return {v.name: (v.shape, v.dtype) for v in operands if v.constant is not None and v.rank}


LAYERS: dict[str, tuple[nn.Module, Any]] = {
    "linear": (nn.Linear(16, 7), ROWS),
    "linear without bias": (nn.Linear(16, 7, bias=False), ROWS),
    "conv1d": (nn.Conv1d(4, 6, 3, padding=1, stride=2), IMAGE[:, :, 0]),
    "conv2d": (nn.Conv2d(4, 6, 3, padding=(0, 1), stride=(2, 1), dilation=(1, 2)), IMAGE),
    "conv2d of groups": (nn.Conv2d(4, 8, 3, groups=2), IMAGE),
    "conv2d with reflections": (nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), IMAGE),
    "conv3d": (nn.Conv3d(4, 6, 2), IMAGE[:, :, None].repeat(1, 1, 3, 1, 1)),
    "hardswish": (nn.Hardswish(), IMAGE),
    "sigmoid": (nn.Sigmoid(), IMAGE),
    "tanh": (nn.Tanh(), IMAGE),
    "hardsigmoid": (nn.Hardsigmoid(), IMAGE),
    "relu6": (nn.ReLU6(), IMAGE * 4),
    "elu": (nn.ELU(1.3), IMAGE),
    "leaky relu": (nn.LeakyReLU(0.1), IMAGE),
    "batch norm": (nn.BatchNorm2d(4), IMAGE),
    "layer norm": (nn.LayerNorm(12), IMAGE),
    "group norm": (nn.GroupNorm(2, 4), IMAGE),
    "instance norm": (nn.InstanceNorm2d(4, affine=True), IMAGE),
    "max pool": (nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), IMAGE),
    "average pool": (nn.AvgPool2d(3), IMAGE),
    "adaptive average pool": (nn.AdaptiveAvgPool2d((2, 3)), IMAGE),
    "upsample": (nn.Upsample(scale_factor=2), IMAGE),
    "bilinear": (nn.UpsamplingBilinear2d(scale_factor=2), IMAGE),
    "dropout": (nn.Dropout(0.2), IMAGE),
    "pixel shuffle": (nn.PixelShuffle(2), IMAGE),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    layer, x = LAYERS[name]
    # means of four integers are in the middle of two, often
    check(converted(Between(lambda f, x: f(x), layer), x), x, part=0.2 if name == "adaptive average pool" else 0.01)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda f, x, y: f.add(x, y),
    "add_relu": lambda f, x, y: f.add_relu(x, y),
    "mul": lambda f, x, y: f.mul(x, y),
    "cat": lambda f, x, y: f.cat([x, y], 1),
    "add_scalar": lambda f, x, y: f.add_scalar(x, 0.7),
    "add_scalar, beyond the integers": lambda f, x, y: f.add_scalar(x, -9.0),
    "mul_scalar": lambda f, x, y: f.mul_scalar(x, 1.7),
    "mul_scalar, negative": lambda f, x, y: f.mul_scalar(x, -0.3),
    "shapes": lambda f, x, y: torch.flatten(x.permute(0, 2, 3, 1)[:, 1:].contiguous(), 1),
    "sizes": lambda f, x, y: x.reshape(x.shape[0], x.size(1) * x.shape[2], -1),
    "parts": lambda f, x, y: torch.cat(list(x.chunk(2, 1))[::-1], 1),
    "in place": lambda f, x, y: functional.relu_(x)[:, 1:],
    "hardtanh, padded": lambda f, x, y: functional.pad(functional.hardtanh(x), (1, 2)),
    "clamp": lambda f, x, y: torch.clamp(x, -0.5, 0.75),
    "mean": lambda f, x, y: x.mean([2, 3]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    inputs = (IMAGE.clone(), IMAGE.flip(2) * 1.5)  # "in place" writes into them while it is calibrated
    model = converted(Between(FUNCTIONS[name], FloatFunctional()), *inputs)
    check(model, *inputs)


class Direct(nn.Module):
    """An operator on quantized tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        q = torch.quantize_per_tensor(x, 0.02, 120, torch.quint8)
        return torch.dequantize(self.function(q))


MEAN, SPREAD = torch.linspace(-1, 1, 4), torch.linspace(0.5, 2, 4)
SLOPES = torch.quantize_per_tensor(SPREAD / 10, 0.01, 3, torch.quint8)

OPERATORS: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda q: torch.ops.quantized.softmax(q, 1, 1 / 256, 0),
    "threshold": lambda q: torch.ops.quantized.threshold(q, 0.31, -0.5),
    "clamp": lambda q: torch.ops.quantized.clamp(q, -0.5, 1.0),
    "celu": lambda q: torch.ops.quantized.celu(q, 0.03, 70, 1.5),
    "elu": lambda q: torch.ops.quantized.elu(q, 0.03, 70, 1.5, 0.9, 1.1),
    "cat_relu": lambda q: torch.ops.quantized.cat_relu([q, q], 2, 0.037, 3),
    "mul_relu": lambda q: torch.ops.quantized.mul_relu(q, q, 0.05, 3),
    "matmul": lambda q: torch.ops.quantized.matmul(q, q.transpose(2, 3), 0.4, 90),
    "add_scalar_relu": lambda q: torch.ops.quantized.add_scalar_relu(q, 0.5),
    "mul_scalar_relu": lambda q: torch.ops.quantized.mul_scalar_relu(q, -0.5),
    "batch_norm2d_relu": lambda q: torch.ops.quantized.batch_norm2d_relu(q, SPREAD, MEAN, MEAN, SPREAD, 1e-5, 0.03, 7),
    "max_pool2d": lambda q: torch.ops.quantized.max_pool2d(q, [2, 3], [2, 1], [1, 1], [1, 1], False),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    check(Direct(OPERATORS[name]), IMAGE)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quantize, self.dequantize = tq.QuantStub(), tq.DeQuantStub()
        self.first, self.norm, self.relu = nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        self.second, self.hardswish, self.sum = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.Hardswish(), FloatFunctional()
        self.last, self.tail = nn.Linear(8 * 5 * 6, 7), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.norm(self.first(self.quantize(x))))
        x = functional.max_pool2d(self.sum.add_relu(x, self.hardswish(self.second(x))), 2)
        return self.dequantize(self.tail(self.last(torch.flatten(x, 1))))


def network(engine: str = "x86") -> Any:
    torch.manual_seed(3)
    model = tq.fuse_modules(Network().eval(), [["first", "norm", "relu"], ["last", "tail"]])
    return converted(model, IMAGE, engine=engine)


WEIGHTS = {"first.weight": ((8, 4, 3, 3), "int8"), "second.weight": ((8, 4, 3, 3), "int8"), "last.weight": ((7, 240), "int8")}


@pytest.mark.parametrize("engine", ["x86", "qnnpack"], indirect=True)
def test_a_network(engine: str, tmp_path: Path) -> None:
    """From a trace, a script, a saved trace and the module itself; with the weights' bits, in files of both kinds, too."""
    model = network(engine)
    trace, script = torch.jit.trace(model, IMAGE), torch.jit.script(model)
    file = io.BytesIO()
    torch.jit.save(trace, file)
    file.seek(0)
    infos = [("x", tuple(IMAGE.shape))]
    modules = [forge.from_torch(trace), forge.from_torch(script, infos), forge.from_torch(model, infos),
               forge.from_torch(torch.jit.load(file), infos)]
    modules[0].save(tmp_path / "model.forge")
    modules[0].to_onnx(tmp_path / "model.onnx")
    modules.append(forge.load(tmp_path / "model.forge"))
    for ir in modules:
        assert ir.is_quantized
        assert {n: c for n, c in constants(ir).items() if n in WEIGHTS} == WEIGHTS
        assert constants(ir)["last.bias"][1] == "float32"
    modules.append(forge.from_onnx(tmp_path / "model.onnx"))
    images = [IMAGE, *torch.randn(4, *IMAGE.shape, generator=torch.manual_seed(5))]  # one has 14 results, too few for a share
    for ir in modules:
        found = [differing(model, ir, image) for image in images]
        assert np.mean([part for part, _ in found]) <= 0.1
        assert max(steps for _, steps in found) <= 1.01


def test_a_network_with_a_dynamic_size() -> None:
    model = network()
    ir = forge.from_torch(torch.jit.trace(model, IMAGE), [("x", ("batch", 4, 10, 12))])
    assert str(ir.input_shapes[0]) == "(batch, 4, 10, 12)"
    for x in (IMAGE, IMAGE[:1]):
        assert differing(model, ir, x)[1] <= 1.01


def test_biases_are_integers() -> None:
    model = network()
    ir = forge.from_torch(torch.jit.trace(model, IMAGE), keep_quantized_weight=True)
    found = constants(ir)
    assert {n: c for n, c in found.items() if n in WEIGHTS} == WEIGHTS
    assert sorted(shape for shape, dtype in found.values() if dtype == "int32") == [(7,), (8,), (8,)]
    assert differing(model, ir, IMAGE)[1] <= 1.01
    arrays = [[v.constant for v in n.operands if v is not None] for n in next(iter(ir.graphs.values())).walk()]
    (codes, steps) = next(a for a in arrays if a and a[0] is not None and a[0].dtype == np.int32)
    assert codes is not None
    assert steps is not None
    scale = float(model.quantize.scale) * model.first.weight().q_per_channel_scales().numpy()
    np.testing.assert_allclose(steps, scale, rtol=1e-6)
    np.testing.assert_array_equal(codes, np.rint(model.first.bias().detach().numpy() / scale))


def test_a_quantized_graph_module() -> None:
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5)).eval()
    prepared = prepare_fx(model, tq.get_default_qconfig_mapping("x86"), (IMAGE,))
    prepared(IMAGE)
    quantized = convert_fx(prepared)
    ir = check(quantized, IMAGE)
    assert sorted(dtype for shape, dtype in constants(ir).values() if len(shape) > 1) == ["int8", "int8"]


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
def test_dynamically_quantized_layers(dtype: Any) -> None:
    model = tq.quantize_dynamic(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval(), {nn.Linear}, dtype=dtype)
    ir = forge.from_torch(torch.jit.trace(model, ROWS))
    run = ir.get_inference_function()
    for x in (ROWS, ROWS.abs(), -ROWS.abs(), ROWS * 100 + 50, torch.zeros_like(ROWS)):
        np.testing.assert_allclose(run(x.numpy()), model(x).detach().numpy(), rtol=1e-4, atol=1e-4 * float(x.abs().max() + 1))
    assert {kind for shape, kind in constants(ir).values() if len(shape) == 2} == {"int8" if dtype is torch.qint8 else "float32"}


@pytest.mark.parametrize("engine", ["qnnpack"], indirect=True)
def test_transposed_convolutions(engine: str) -> None:
    model = Between(lambda f, g, x: g(f(x)), nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), nn.ConvTranspose2d(6, 4, 2))
    check(converted(model, IMAGE, engine=engine), IMAGE)


def test_a_quantized_embedding() -> None:
    model = nn.Sequential(nn.Embedding(40, 8)).eval()
    model[0].qconfig = tq.float_qparams_weight_only_qconfig
    index = torch.tensor([[0, 3], [39, 7]])
    quantized = tq.convert(tq.prepare(model))
    ir = forge.from_torch(torch.jit.trace(quantized, index))
    np.testing.assert_allclose(ir.get_inference_function()(index.numpy()), quantized(index).numpy(), rtol=1e-5, atol=1e-6)
    assert ((40, 8), "uint8") in constants(ir).values()


def test_what_is_refused() -> None:
    quantize = tq.QuantStub
    with pytest.raises(OpNotImplemented, match=r"an output is a quantized tensor.*dequantize it in the model"):
        forge.from_torch(torch.jit.trace(converted(nn.Sequential(quantize()), ROWS), ROWS), through_onnx=False)
    sort = converted(Between(lambda f, x: torch.topk(x, 2)[0], nn.Identity()), ROWS)
    with pytest.raises(OpNotImplemented, match="operator aten::topk of quantized tensors is not supported; dequantize"):
        forge.from_torch(torch.jit.trace(sort, ROWS), through_onnx=False)
    layers = tq.quantize_dynamic(nn.Sequential(nn.LSTM(16, 3)).eval(), {nn.LSTM})
    with pytest.raises(OpNotImplemented, match="packed weights of class CellParamsBase; supported: those of linear layers"):
        forge.from_torch(torch.jit.trace(layers, ROWS[None]), through_onnx=False)
