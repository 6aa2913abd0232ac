"""Models as exporters and quantizers write them: imported, compiled and compared with onnxruntime."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from forge.driver import compile_module
from forge.frontends.onnx import import_model
from tests.frontends.onnx.support import example, model, onnxruntime_outputs

QUANTUM_SHARE = 0.02
"""Elements of a quantized network that may be off: roundings at half a step go either way."""


def compiled_outputs(path: Path | onnx.ModelProto, *inputs: np.ndarray) -> list[np.ndarray]:
    module = import_model(path)
    runtime = compile_module(module, use_cache=False).runtime()
    names = [v.name for v in module.main.inputs]
    results = runtime(**dict(zip(names, inputs, strict=True)))
    return [results] if len(module.main.outputs) == 1 else list(results)


def check(path: Path, *inputs: np.ndarray, tolerance: float = 1e-4, exceptions: float = 0.0) -> None:
    """Compares with onnxruntime; a share of ``exceptions`` may be off by more than ``tolerance`` of the largest element."""
    for ours, theirs in zip(compiled_outputs(path, *inputs), onnxruntime_outputs(onnx.load(path), *inputs), strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        far = np.abs(ours - theirs) > tolerance * np.abs(theirs).max()
        assert np.mean(far) <= exceptions


def convolutional() -> onnx.ModelProto:
    graph = """g (float[N, 3, 8, 8] x) => (float[N, 5] y) {
        a = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(x, w1, b1)
        b = Relu(a)
        c = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(b)
        d = Conv<kernel_shape=[1, 1]>(c, w2)
        e = Add(c, d)
        f = GlobalAveragePool(e)
        h = Flatten(f)
        y = Gemm<transB=1>(h, w3, b3)
    }"""
    weights: dict[str, Any] = {"w1": example(1, 8, 3, 3, 3), "b1": example(2, 8), "w2": example(3, 8, 8, 1, 1),
                               "w3": example(4, 5, 8), "b3": example(5, 5)}
    return model(graph, opset=17, **weights)


class Calibration:
    """Gives inputs to onnxruntime's quantizer."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._inputs: Iterator[dict[str, np.ndarray]] = iter([{"x": example(k, *shape)} for k in range(4)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._inputs, None)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("quantized") / "plain.onnx"
    onnx.save(convolutional(), path)
    return path


@pytest.mark.parametrize("format_name", ["QDQ", "QOperator"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_static_quantization(plain: Path, tmp_path: Path, format_name: str, per_channel: bool) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    path = tmp_path / "quantized.onnx"
    kind = quantization.QuantFormat[format_name]
    with contextlib.redirect_stdout(io.StringIO()):
        quantization.quantize_static(plain, path, Calibration((2, 3, 8, 8)), quant_format=kind, per_channel=per_channel)
    check(path, example(9, 4, 3, 8, 8), tolerance=0.02, exceptions=QUANTUM_SHARE)


def test_dynamic_quantization(plain: Path, tmp_path: Path) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    path = tmp_path / "quantized.onnx"
    quantization.quantize_dynamic(plain, path)
    assert any(n.op_type in ("MatMulInteger", "ConvInteger") for n in onnx.load(path).graph.node)
    check(path, example(9, 4, 3, 8, 8), tolerance=0.02, exceptions=QUANTUM_SHARE)


def networks() -> dict[str, Any]:
    """Modules of torch with an input each."""
    import torch
    from torch import nn

    class Recurrent(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(6, 8, num_layers=2, batch_first=True, bidirectional=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0]

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return {
        "transformer": (nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (2, 5, 16)),
        "convolutional": (nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.SiLU(),
                                        nn.ConvTranspose2d(8, 4, 2, stride=2), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
                                        nn.Linear(16, 3), nn.GELU()), (2, 3, 9, 9)),
        "recurrent": (Recurrent(), (2, 5, 6)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("name", ["transformer", "convolutional", "recurrent"])
def test_dynamo_exports_of_torch(tmp_path: Path, name: str, is_dynamic: bool) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    network, shape = networks()[name]
    path = tmp_path / "model.onnx"
    shapes = ({0: torch.export.Dim("batch", min=1, max=64)},) if is_dynamic else None
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(network.eval(), (torch.randn(*shape),), path, dynamo=True, dynamic_shapes=shapes)
    batch = 3 if is_dynamic else shape[0]
    x = example(1, batch, *shape[1:])
    check(path, x)
    (first, *_) = compiled_outputs(path, x)
    np.testing.assert_allclose(first, network(torch.from_numpy(x)).detach().numpy(), rtol=1e-3, atol=1e-5)


def renamed(proto: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    for node, name in zip(proto.graph.node, names, strict=True):
        node.name = name
    return proto


@pytest.mark.parametrize("names", [[""] * 8, ["same"] * 8])
def test_nodes_without_names_of_their_own(names: list[str]) -> None:
    x = example(9, 2, 3, 8, 8)
    (ours,), (theirs,) = compiled_outputs(renamed(convolutional(), names), x), onnxruntime_outputs(convolutional(), x)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_initializers_among_the_inputs_and_dead_branches(tmp_path: Path) -> None:
    proto = convolutional()
    for tensor in proto.graph.initializer:
        proto.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    for op, operand, result in (("Exp", "b", "dead_1"), ("Abs", "dead_1", "dead_2")):
        proto.graph.node.append(onnx.helper.make_node(op, [operand], [result]))
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    assert [v.name for v in import_model(path).main.inputs] == ["x"]
    (ours,) = compiled_outputs(path, example(9, 2, 3, 8, 8))
    (theirs,) = compiled_outputs(convolutional(), example(9, 2, 3, 8, 8))
    np.testing.assert_array_equal(ours, theirs)
