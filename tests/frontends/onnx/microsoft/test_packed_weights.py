"""Weights of a few bits in com.microsoft."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import forge
from forge import dtypes
from forge.errors import OpAttributeInvalid, OpAttributeUnimplemented
from forge.frontends.onnx import import_model
from forge.frontends.onnx.tensors import element_code
from tests.frontends.onnx.microsoft.support import check, floats, ints, node_model, same

X_SHAPE = (3, 4)
SIZES = [(64, 10, 32), (50, 7, 16), (48, 5, 16)]


def inputs_of(bits: int, k: int, n: int, block: int, zeros: str, flat: bool) -> list[Any]:
    blocks = -(-k // block)
    codes = ints(1, 0, 255, (n, blocks, block * bits // 8), np.uint8)
    scales = np.abs(floats(2, n, blocks)) + np.float32(0.1)
    points: Any = {
        "none": None, "packed": ints(3, 0, 255, (n, -(-blocks * bits // 8)), np.uint8), "real": floats(4, n, blocks)
    }[zeros]
    if flat:
        scales, points = scales.ravel(), None if points is None else points.ravel()
    return [floats(0, *X_SHAPE, k), codes, scales, points, None, floats(5, n)]


@pytest.mark.parametrize(("k", "n", "block"), SIZES)
@pytest.mark.parametrize(("bits", "zeros"), [(2, "none"), (2, "packed"), (4, "none"), (4, "packed"), (4, "real"), (8, "packed")])
@pytest.mark.parametrize("flat", [False, True])
def test_matmul(k: int, n: int, block: int, bits: int, zeros: str, flat: bool) -> None:
    attributes = {"K": k, "N": n, "bits": bits, "block_size": block}
    constant = (1, 2, 5) if zeros == "none" else (1, 2, 3, 5)
    check("MatMulNBits", inputs_of(bits, k, n, block, zeros, flat), attributes, constant=constant, symbolic=(3,), opt_level=0)


def test_packed_matmul_is_a_dense_layer() -> None:
    """Constant weights are unpacked when the model is compiled."""
    inputs = inputs_of(4, 64, 10, 32, "packed", False)
    check("MatMulNBits", inputs, {"K": 64, "N": 10, "block_size": 32}, constant=(1, 2, 3, 5), symbolic=(3,))


def test_weights_of_run_time() -> None:
    check("MatMulNBits", inputs_of(4, 50, 7, 16, "packed", False), {"K": 50, "N": 7, "block_size": 16}, opt_level=0)


def test_groups_by_index() -> None:
    inputs = inputs_of(4, 64, 10, 32, "none", False)
    inputs[4] = ints(7, 0, 1, (64,), np.int32)
    check("MatMulNBits", inputs, {"K": 64, "N": 10, "block_size": 32}, constant=(1, 2, 4, 5), opt_level=0)


def test_accuracy_level() -> None:
    """What it asks for is the least accuracy; sums are of float32."""
    inputs = inputs_of(4, 64, 10, 32, "none", False)
    check("MatMulNBits", inputs, {"K": 64, "N": 10, "block_size": 32, "accuracy_level": 1}, opt_level=0)


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_data_of_8_bits(bits: int, opt_level: int) -> None:
    """At accuracy level 4 data are rounded, block by block; sums of integers are exact, here and there."""
    inputs = inputs_of(bits, 64, 10, 32, "packed", False)
    attributes = {"K": 64, "N": 10, "bits": bits, "block_size": 32, "accuracy_level": 4}
    module = check("MatMulNBits", inputs, attributes, constant=(1, 2, 3, 5), symbolic=(3,), opt_level=opt_level)
    assert any(node.op == "qnn.quantize" for node in module.main.nodes)


def test_weights_stay_packed() -> None:
    inputs = inputs_of(4, 64, 10, 32, "packed", False)
    module = import_model(node_model("MatMulNBits", inputs, {"K": 64, "N": 10, "block_size": 32}, constant=(1, 2, 3, 5)))
    (weight,) = [node for node in module.main.nodes if node.op == "qnn.unpack"]
    assert weight.operands[0].constant.nbytes == 64 * 10 // 2


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"bits": 9}, OpAttributeUnimplemented, "'bits': got 9; supported: 2, 3, 4, 5, 6, 7, 8"),
    ({"weight_prepacked": 1}, OpAttributeUnimplemented, "'weight_prepacked': got 1"),
    ({"block_size": 24}, OpAttributeInvalid, "block_size 24; expected"),
    ({"K": 65}, OpAttributeInvalid, "B: got .*; expected 10x3x16"),
]


@pytest.mark.parametrize(("attributes", "kind", "message"), REFUSED)
def test_matmul_is_refused(attributes: dict[str, Any], kind: type[Exception], message: str) -> None:
    inputs = inputs_of(4, 64, 10, 32, "none", False)
    with pytest.raises(kind, match=f"'the_MatMulNBits' .*{message}"):
        import_model(node_model("MatMulNBits", inputs, {"K": 64, "N": 10, "block_size": 32, **attributes}))


def stream(codes: np.ndarray, bits: int) -> np.ndarray:
    """Rows of codes as bytes: number by number, bit by bit, from the lowest one on."""
    rows = []
    for row in codes.reshape(-1, codes.shape[-1]):
        whole = sum(int(code) << (bits * k) for k, code in enumerate(row))
        rows.append(np.frombuffer(whole.to_bytes(-(-bits * len(row) // 8), "little"), np.uint8))
    return np.stack(rows)


@pytest.mark.parametrize(("k", "n", "block"), SIZES)
@pytest.mark.parametrize(("zeros", "level"), [("none", 0), ("packed", 0), ("real", 0), ("none", 4), ("packed", 4)])
@pytest.mark.parametrize("bits", [3, 5, 6, 7])
def test_widths_that_onnxruntime_refuses(bits: int, zeros: str, level: int, k: int, n: int, block: int) -> None:
    """As the schema says: a stream of bits. Codes of 3 are held in 4, others in 8. Data are not changed when they are rounded."""
    blocks, top = -(-k // block), (1 << bits) - 1
    codes, scales = ints(1, 0, top, (n, blocks, block), np.uint8), np.abs(floats(2, n, blocks)) + np.float32(0.1)
    points = floats(4, n, blocks) if zeros == "real" else ints(3, 0, top, (n, blocks), np.uint8)
    held = points if zeros == "real" else stream(points, bits) if zeros == "packed" else None
    middles = np.full((n, blocks), 1 << (bits - 1)) if held is None else points
    real = ((codes - middles.astype(np.float32)[..., None]) * scales[..., None]).reshape(n, -1)[:, :k]
    x = ints(0, -127, 127, (*X_SHAPE, k)).astype(np.float32)
    x[..., ::block] = 127
    attributes = {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": level}
    constant = (1, 2) if held is None else (1, 2, 3)
    module = check("MatMulNBits", [x, stream(codes, bits).reshape(n, blocks, -1), scales, held], attributes, constant=constant,
                   oracle=lambda x, *_: x @ real.T)
    assert [node.op for node in module.main.nodes].count("qnn.unpack") >= (bits == 3)


def test_such_widths_of_run_time_are_refused() -> None:
    inputs = [floats(0, 3, 64), ints(1, 0, 255, (10, 2, 12), np.uint8), np.abs(floats(2, 10, 2))]
    with pytest.raises(OpAttributeUnimplemented, match=r"inputs 1 and 3 \(B, zero_points\): got 3 bits that are not constant"):
        import_model(node_model("MatMulNBits", inputs, {"K": 64, "N": 10, "bits": 3, "block_size": 32}))


def test_groups_of_other_widths_are_refused() -> None:
    inputs = inputs_of(8, 64, 10, 32, "none", False)
    inputs[4] = ints(7, 0, 1, (64,), np.int32)
    with pytest.raises(OpAttributeUnimplemented, match=r"input 4 \(g_idx\): got one with 8 bits"):
        import_model(node_model("MatMulNBits", inputs, {"K": 64, "N": 10, "bits": 8, "block_size": 32}))


@pytest.mark.parametrize("quant_type", [0, 1])
@pytest.mark.parametrize(("k", "n", "block"), [(64, 10, 32), (33, 7, 16)])
def test_table(quant_type: int, k: int, n: int, block: int) -> None:
    codes = ints(1, 0, 255, (-(-k * n // 2),), np.uint8)
    scales = np.abs(floats(2, -(-k * n // block)))
    attributes = {"K": k, "N": n, "block_size": block, "quant_type": quant_type}
    check("MatMulBnb4", [floats(0, *X_SHAPE, k), codes, scales], attributes, constant=(1, 2), symbolic=(3,))


TABLE_REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"quant_type": 2}, OpAttributeInvalid, "'quant_type': got 2; expected 0"),
    ({"transB": 0}, OpAttributeUnimplemented, "got 0 and 0; supported: 0 and 1"),
    ({"K": 63}, OpAttributeInvalid, "B: got .*; expected 315 bytes"),
]


@pytest.mark.parametrize(("attributes", "kind", "message"), TABLE_REFUSED)
def test_table_is_refused(attributes: dict[str, Any], kind: type[Exception], message: str) -> None:
    inputs = [floats(0, 3, 64), ints(1, 0, 255, (320,), np.uint8), np.abs(floats(2, 20))]
    with pytest.raises(kind, match=f"'the_MatMulBnb4' .*{message}"):
        import_model(node_model("MatMulBnb4", inputs, {"K": 64, "N": 10, "block_size": 32, "quant_type": 0, **attributes}))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("with_zeros", [False, True])
@pytest.mark.parametrize("shape", [(6,), (6, 3)])
def test_gather(bits: int, with_zeros: bool, shape: tuple[int, ...]) -> None:
    data = ints(1, 0, 255, (*shape, 48 * bits // 8), np.uint8)
    scales = np.abs(floats(2, *shape, 3))
    zeros = ints(4, 0, 255, (*shape, 2 if bits == 4 else 3), np.uint8) if with_zeros else None
    attributes = {"bits": bits, "block_size": 16, "quantize_axis": len(shape)}
    indices = ints(3, 0, 5, (2, 5))
    check("GatherBlockQuantized", [data, indices, scales, zeros], attributes, constant=(0, 2, 3) if with_zeros else (0, 2))


def test_gather_is_refused() -> None:
    inputs = [ints(1, 0, 255, (6, 16), np.uint8), np.array([1]), np.abs(floats(2, 6, 2))]
    with pytest.raises(OpAttributeUnimplemented, match="got uint8 and 2 bits; supported: uint8 with 4 or 8 bits"):
        import_model(node_model("GatherBlockQuantized", inputs, {"bits": 2, "block_size": 16}))
    with pytest.raises(OpAttributeUnimplemented, match="got quantize_axis 0 and gather_axis 0; supported"):
        import_model(node_model("GatherBlockQuantized", inputs, {"block_size": 16, "quantize_axis": 0}))


@pytest.mark.parametrize("opset", [21, 25])
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_sub_byte_initializers(dtype: str, opset: int) -> None:
    """DequantizeLinear with blocks, as quantizers write it, stays packed, compiled as well, and is written as it came."""
    rng = np.random.default_rng(3)
    code = element_code(dtype)
    low, high = dtypes.integer_range(dtype)
    codes = rng.integers(low, high + 1, (64, 24))
    scale = rng.uniform(0.01, 0.1, (2, 24)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["w", "s"], ["r"], axis=0, block_size=32),
         helper.make_node("MatMul", ["x", "r"], ["y"])],
        "one", [helper.make_tensor_value_info("x", 1, [3, 64])], [helper.make_tensor_value_info("y", 1, [3, 24])],
        [helper.make_tensor("w", code, codes.shape, codes.ravel()), numpy_helper.from_array(scale, "s")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    x = floats(1, 3, 64)
    want = x @ (codes * np.repeat(scale, 32, 0)).astype(np.float32)
    ir = forge.from_onnx(model)
    (weight,) = [node.operands[0] for node in ir.main.nodes if node.op == "qnn.unpack"]
    assert weight.constant.nbytes == codes.size // 2
    same(ir.mod, [x], [want])
    written = ir.to_onnx(opset=opset)
    assert [t.data_type for t in written.graph.initializer if t.dims == [64, 24]] == [code]
    assert len(written.SerializeToString()) < codes.size
