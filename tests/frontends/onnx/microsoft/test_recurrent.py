"""DynamicQuantizeLSTM against onnxruntime with one thread, which rounds the states of all rows by one range."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from forge.driver import compile_module
from forge.errors import OpAttributeInvalid
from forge.frontends.onnx import import_model
from forge.kernels.cpu.rnn_rounded import MAX_LOCAL
from tests.frontends.onnx.microsoft.support import HAS_VNNI, check, floats, ints, node_model
from tests.frontends.onnx.support import onnxruntime_outputs

STEPS, INPUTS = 6, 5
WEIGHTS = (1, 2, 8, 9, 10, 11)


def codes(seed: int, dtype: Any, *shape: int) -> np.ndarray:
    """Without VNNI onnxruntime's products of uint8 and int8 saturate, unless int8 has 7 bits."""
    limits = np.iinfo(dtype)
    part = 1 if HAS_VNNI or dtype != np.int8 else 2
    return ints(seed, limits.min // part, limits.max // part, shape, dtype)


def operands(
    *present: str, hidden: int = 9, batch: int = 3, directions: int = 1, dtype: Any = np.int8, zero: int = 0,
    by_column: bool = False,
) -> list[np.ndarray | None]:
    """The twelve inputs; optional ones only if they are named."""
    state = directions, batch, hidden
    optional = {"bias": floats(3, directions, 8 * hidden) / 4, "lengths": np.resize([4, 1, 3, 5, 2], batch).astype(np.int32),
                "h0": np.tanh(floats(4, *state)), "c0": floats(5, *state), "peephole": floats(6, directions, 3 * hidden) / 4}
    shape = (directions, 4 * hidden) if by_column else (directions,)
    scales = [np.abs(floats(seed, *shape)) / 500 + np.float32(0.001) for seed in (7, 8)]
    point = np.full(shape, zero, dtype)
    return [floats(0, STEPS, batch, INPUTS), codes(1, dtype, directions, INPUTS, 4 * hidden),
            codes(2, dtype, directions, hidden, 4 * hidden), *(optional[n] if n in present else None for n in optional),
            scales[0], point, scales[1], point]


def run(inputs: list[np.ndarray | None], outputs: tuple[bool, ...] = (True, True, True), **options: Any) -> None:
    constant = options.pop("constant", WEIGHTS)
    direction = "bidirectional" if inputs[1].shape[0] == 2 else "forward"  # type: ignore[union-attr]
    attributes = {"hidden_size": inputs[2].shape[1], "direction": direction, **options.pop("attributes", {})}  # type: ignore[union-attr]
    check("DynamicQuantizeLSTM", inputs, attributes, outputs=outputs, constant=constant, **options)


@pytest.mark.parametrize(("dtype", "zero"), [(np.int8, 0), (np.int8, 5), (np.uint8, 128), (np.uint8, 90)])
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("opt_level", [0, 3])
def test_weights(dtype: Any, zero: int, by_column: bool, opt_level: int) -> None:
    """onnxruntime refuses zero points of int8 for each column."""
    zero = 0 if by_column and dtype == np.int8 else zero
    run(operands("bias", dtype=dtype, zero=zero, by_column=by_column), opt_level=opt_level)


@pytest.mark.parametrize("present", [(), ("h0", "c0"), ("bias", "lengths", "h0", "c0"), ("bias", "peephole")])
@pytest.mark.parametrize("directions", [1, 2])
def test_operands(present: tuple[str, ...], directions: int) -> None:
    run(operands(*present, directions=directions, by_column=directions == 2))


@pytest.mark.parametrize("attributes", [
    {"direction": "reverse"}, {"clip": 0.4}, {"input_forget": 1}, {"activations": ["HardSigmoid", "Softsign", "Relu"]},
])
def test_attributes(attributes: dict[str, Any]) -> None:
    run(operands("bias", "h0", "lengths"), attributes=attributes)


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_batches(batch: int) -> None:
    run(operands("bias", batch=batch, hidden=33), symbolic=(batch, STEPS) if batch > 1 else ())


def test_weights_that_arrive_at_run_time() -> None:
    run(operands("bias", dtype=np.uint8, zero=100, by_column=True), constant=())


@pytest.mark.parametrize("present", [("bias",), ("bias", "lengths", "h0")])
def test_states_of_ended_rows_count_where_steps_are_not_asked_for(present: tuple[str, ...]) -> None:
    run(operands(*present), outputs=(False, True, True))


def test_scales_that_do_not_fit_are_refused() -> None:
    inputs = operands()
    inputs[8] = floats(0, 1, 7)
    with pytest.raises(OpAttributeInvalid, match="one for each direction, or for each column"):
        import_model(node_model("DynamicQuantizeLSTM", inputs, {"hidden_size": 9}, constant=WEIGHTS))


@pytest.mark.parametrize("symbolic", [False, True])
def test_more_states_than_the_stack_holds(symbolic: bool) -> None:
    """They lie in the results. Copies of rows have the same range, so each is computed as it is among few."""
    few = operands("bias", "lengths", "h0", "c0", batch=5, hidden=33, directions=2)
    count = MAX_LOCAL // (5 * 33) + 1
    many = [*few]
    for place, axis in ((0, 1), (4, 0), (5, 1), (6, 1)):
        many[place] = np.concatenate([few[place]] * count, axis=axis)  # type: ignore[list-item]
    attributes = {"hidden_size": 33, "direction": "bidirectional"}
    found = []
    for inputs, sizes in ((few, ()), (many, (5 * count,) if symbolic else ())):
        proto = node_model("DynamicQuantizeLSTM", inputs, attributes, constant=WEIGHTS, symbolic=sizes, outputs=(True,) * 3)
        runtime = compile_module(import_model(proto), use_cache=False).runtime()
        found.append(runtime.run([inputs[k] for k in (0, 3, 4, 5, 6)]))
    for expected, got, axis in zip(*found, (2, 1, 1)):
        np.testing.assert_array_equal(got, np.concatenate([expected] * count, axis=axis))


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_quantized_network(tmp_path: Path, per_channel: bool) -> None:
    """Two layers of torch, as onnxruntime quantizes them."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    from onnxruntime.quantization import quantize_dynamic

    torch.manual_seed(1)  # no state of it lies next to a tie
    network = torch.nn.LSTM(12, 16, num_layers=2, bidirectional=True).eval()
    x = torch.randn(7, 1, 12)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(network, (x,), tmp_path / "float.onnx", dynamo=True)
    quantize_dynamic(tmp_path / "float.onnx", tmp_path / "made.onnx", per_channel=per_channel, reduce_range=not HAS_VNNI)
    proto = onnx.load(tmp_path / "made.onnx")
    assert [n.op_type for n in proto.graph.node].count("DynamicQuantizeLSTM") == 2
    module = import_model(proto)
    compiled = compile_module(module, use_cache=False)
    for got, want in zip(compiled.runtime()(x.numpy()), onnxruntime_outputs(proto, x.numpy()), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    rows = 4 * 16
    assert [a.dtype for _, a in compiled.weights.entries if a.size > 4 * rows * 2 and a.dtype.itemsize > 1] == []


@pytest.mark.parametrize("by_row", [False, True])
def test_layers_between_dequantized_weights(by_row: bool) -> None:
    """A standard LSTM whose weights QDQ nodes give."""
    w, r = codes(1, np.int8, 1, 32, 6), codes(2, np.int8, 1, 32, 8)
    scale = np.abs(floats(3, 32)) / 500 + np.float32(0.001) if by_row else np.array(0.004, np.float32)
    nodes = [helper.make_node("DequantizeLinear", [f"{n}q", "s"], [n], axis=1) for n in "wr"]
    nodes.append(helper.make_node("LSTM", ["x", "w", "r"], ["y", "h"], hidden_size=8))
    weights = [numpy_helper.from_array(a, n) for a, n in ((w, "wq"), (r, "rq"), (scale, "s"))]
    infos = [helper.make_tensor_value_info("x", 1, ("t", 2, 6))], [helper.make_tensor_value_info(n, 1, None) for n in "yh"]
    graph = helper.make_graph(nodes, "g", *infos, weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    x = floats(0, 5, 2, 6)
    compiled = compile_module(import_model(proto), use_cache=False)
    for got, want in zip(compiled.runtime()(x), onnxruntime_outputs(proto, x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert all(a.dtype.itemsize == 1 for _, a in compiled.weights.entries if a.size > 64)
