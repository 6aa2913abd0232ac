"""Mixtures of experts in com.microsoft: as onnxruntime's kernels for CPUs compute them, or else as its schema says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.driver import check_options, compile_module
from forge.errors import OpAttributeInvalid, OpAttributeUnimplemented
from forge.frontends.onnx import import_model
from tests import guard_runtime
from tests.frontends.onnx.microsoft.support import agree, check, floats, ints, node_model
from tests.frontends.onnx.support import evaluate, onnxruntime_outputs

EXPERTS, HIDDEN, INNER, TOKENS = 5, 32, 48, 7
SWIGLU = {"activation_type": "swiglu", "swiglu_fusion": 1}
LIMITED = {**SWIGLU, "activation_alpha": 1.3, "activation_beta": 0.5, "swiglu_limit": 0.75}


def rows_of(tokens: int, dtype: Any = np.float32) -> list[np.ndarray]:
    return [floats(0, tokens, HIDDEN, dtype=dtype), floats(1, tokens, EXPERTS, dtype=dtype)]


def plain(fused: int = 1, tokens: int = TOKENS, third: bool = False, bias: bool = True, dtype: Any = np.float32) -> list[Any]:
    """Operands of MoE."""
    def weight(seed: int, units: int, depth: int) -> list[Any]:
        own = floats(seed, EXPERTS, units, depth) / np.sqrt(depth)
        return [own.astype(dtype), floats(seed + 1, EXPERTS, units, dtype=dtype) if bias else None]

    operands = [*rows_of(tokens, dtype), *weight(2, fused * INNER, HIDDEN), *weight(4, HIDDEN, INNER)]
    return [*operands, *weight(6, INNER, HIDDEN)] if third else operands


def codes(
    bits: int = 4, block: int = 0, zeros: bool = False, fused: int = 1, tokens: int = TOKENS, third: bool = False,
    second: int = 0, dtype: Any = np.float32,
) -> list[Any]:
    """Operands of QMoE; ``second``: the bits of fc2, where they are others."""
    def weight(seed: int, units: int, depth: int, bits: int) -> list[Any]:
        shape = (EXPERTS, units, depth // block) if block else (EXPERTS, units)
        scale = np.abs(floats(seed + 1, *shape)) / (40 << (bits - 4) if bits > 2 else 10)
        packed = (*shape[:-1], -(-shape[-1] * bits // 8))
        points = ints(seed + 3, 0, 255, packed, np.uint8) if zeros else None
        return [ints(seed, 0, 255, (EXPERTS, units, depth * bits // 8), np.uint8), scale.astype(dtype),
                floats(seed + 2, EXPERTS, units, dtype=dtype), points]

    parts = [weight(2, fused * INNER, HIDDEN, bits), weight(12, HIDDEN, INNER, second or bits)]
    parts.append(weight(22, INNER, HIDDEN, bits) if third else [None] * 4)
    return [*rows_of(tokens, dtype), *(v for part in parts for v in part[:3]), *(part[3] for part in parts)]


def constants(operands: list[Any]) -> tuple[int, ...]:
    return tuple(k for k, v in enumerate(operands) if k > 1 and v is not None)


@pytest.mark.parametrize("attributes", [
    {"k": 2}, {}, {"k": 2, "normalize_routing_weights": 1}, {"k": 5, "activation_type": "gelu"},
    {"k": 2, "activation_type": "silu"}, {"k": 2, "activation_type": "identity"},
])
def test_experts(attributes: dict[str, Any]) -> None:
    operands = plain()
    check("MoE", operands, attributes, constant=constants(operands), symbolic=(TOKENS,))


@pytest.mark.parametrize("attributes", [SWIGLU, LIMITED, {**LIMITED, "swiglu_limit": 0.0}])
def test_gated_experts(attributes: dict[str, Any]) -> None:
    operands = plain(fused=2)
    check("MoE", operands, {"k": 2, **attributes}, constant=constants(operands))


@pytest.mark.parametrize("tokens", [0, 1])
def test_few_tokens(tokens: int) -> None:
    operands = plain(tokens=tokens)
    oracle = None if tokens else lambda *_: np.zeros((0, HIDDEN), np.float32)
    check("MoE", operands, {"k": 2}, constant=constants(operands), oracle=oracle)


def test_a_batch_of_sequences_of_run_time_weights() -> None:
    operands = plain(bias=False)
    x, scores = floats(0, 2, 3, HIDDEN), floats(1, 6, EXPERTS)
    check("MoE", [x, scores, *operands[2:]], {"k": 2}, symbolic=(3,), constant=(4,), opt_level=0)


@pytest.mark.parametrize("op", ["MoE", "QMoE"])
def test_of_equal_scores_the_last_are_chosen(op: str) -> None:
    operands = plain() if op == "MoE" else codes()
    operands[1] = np.round(operands[1])
    check(op, operands, {"k": 2}, constant=constants(operands))


QUANTIZED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a scale for each row": ({}, {}), "and zero points": ({"zeros": True}, {}),
    "2 bits": ({"bits": 2}, {}), "2 bits, zero points": ({"bits": 2, "zeros": True}, {}),
    "2 bits in blocks": ({"bits": 2, "block": 16, "zeros": True}, {"accuracy_level": 4}),
    "8 bits": ({"bits": 8}, {}), "8 bits, zero points": ({"bits": 8, "zeros": True}, {}),
    "blocks": ({"block": 16}, {"normalize_routing_weights": 1}), "blocks, zero points": ({"block": 16, "zeros": True}, {}),
    "gelu": ({"block": 16}, {"activation_type": "gelu"}), "swiglu": ({"fused": 2, "block": 16}, SWIGLU),
    "with limits": ({"fused": 2}, LIMITED), "a token": ({"block": 16, "tokens": 1}, {}),
    "rounded": ({"block": 16}, {"accuracy_level": 4}), "rounded, 8 bits": ({"bits": 8, "block": 16}, {"accuracy_level": 1}),
    "rounded, zero points": ({"block": 16, "zeros": True}, {"accuracy_level": 4}),
    "a rounded token": ({"block": 16, "tokens": 1, "bits": 8, "zeros": True}, {}),
}


def quantized(name: str) -> tuple[list[Any], dict[str, Any]]:
    sizes, attributes = QUANTIZED[name]
    return codes(**sizes), {"k": 2, "expert_weight_bits": sizes.get("bits", 4), "block_size": sizes.get("block", 0), **attributes}


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_experts(name: str) -> None:
    operands, attributes = quantized(name)
    symbolic = (TOKENS,) if len(operands[0]) == TOKENS else ()
    check("QMoE", operands, attributes, constant=constants(operands), symbolic=symbolic, opt_level=0)


@pytest.mark.parametrize("mcpu", ["native", "x86-64", "x86-64-v3"])
@pytest.mark.parametrize("name", QUANTIZED)
def test_packed_experts(name: str, mcpu: str) -> None:
    """Weights stay packed in the module and in what is compiled."""
    operands, attributes = quantized(name)
    model = node_model("QMoE", operands, attributes, constant=constants(operands))
    ir, expected = forge.from_onnx(model), onnxruntime_outputs(model, *operands[:2])
    held = {id(v): v.constant for node in ir.main.nodes for v in node.operands if v is not None and v.constant is not None}
    assert not any(v.size >= EXPERTS * HIDDEN * INNER and v.dtype == np.float32 for v in held.values())
    agree("interpreter", evaluate(ir.mod, *operands[:2]), expected)
    compiled = compile_module(ir.mod, check_options(target=f"llvm -mcpu={mcpu}"), use_cache=False)
    agree(mcpu, guard_runtime.run(compiled, ir.mod.main, operands[:2]), expected)
    arrays = [array for _, array in compiled.weights.entries]
    assert not any(array.size >= EXPERTS * HIDDEN * INNER and array.dtype == np.float32 for array in arrays)


def test_float16() -> None:
    operands = codes(block=16, dtype=np.float16)
    check("QMoE", operands, {"k": 2, "block_size": 16}, constant=constants(operands))


def test_codes_of_run_time() -> None:
    """The data are not rounded, as onnxruntime's kernel does not."""
    operands = codes(block=16, zeros=True, tokens=2)
    check("QMoE", operands, {"k": 2, "block_size": 16, "accuracy_level": 4}, opt_level=0)


@pytest.mark.parametrize("normalize", [0, 1])
def test_shares_of_their_own(normalize: int) -> None:
    operands = codes()
    weights = floats(30, TOKENS, EXPERTS)
    weights[0], weights[1] = 0, -1
    operands.append(weights)
    check("QMoE", operands, {"k": 2, "normalize_routing_weights": normalize}, constant=constants(operands)[:-1])


def real(weight: np.ndarray, scale: np.ndarray, bits: int) -> np.ndarray:
    numbers = np.stack([weight >> place & (1 << bits) - 1 for place in range(0, 8, bits)], -1)
    return (numbers.reshape(*weight.shape[:2], -1).astype(np.float64) - (1 << (bits - 1))) * scale[..., None]


def by_schema(k: int, act: Any, x: np.ndarray, scores: np.ndarray, *parts: Any) -> np.ndarray:
    """A mixture of experts with (weight, bias) pairs fc1, fc2 and perhaps fc3; shares are a softmax of the chosen scores."""
    out = np.zeros(x.shape)
    for t, row in enumerate(x):
        chosen = np.argsort(-scores[t])[:k]
        shares = np.exp(scores[t][chosen].astype(np.float64))
        for e, share in zip(chosen, shares / shares.sum()):
            first, second, *third = ([w[e].astype(np.float64), b[e]] for w, b in parts)
            inner = act(first[0] @ row + first[1], *(w @ row + b for w, b in third))
            out[t] += share * (second[0] @ inner + second[1])
    return out.astype(x.dtype)


def silu(x: Any, alpha: float = 1.0) -> Any:
    return x / (1 + np.exp(-alpha * x))


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def halves(x: Any) -> list[Any]:
    return np.split(x, 2)


SCHEMA: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "fc3 gates": ({"third": True}, {"activation_type": "silu"}, lambda x, up: silu(x) * up),
    "swiglu of fc3": ({"third": True}, {"activation_type": "swiglu"}, lambda x, up: silu(x) * up),
    "swiglu of halves": ({"fused": 2}, {**SWIGLU, "swiglu_fusion": 2}, lambda x: silu(halves(x)[0]) * halves(x)[1]),
    "geglu": ({"fused": 2}, {"activation_type": "geglu", "swiglu_fusion": 1}, lambda x: gelu(x[::2]) * x[1::2]),
    "relu2": ({}, {"activation_type": "relu2"}, lambda x: np.maximum(x, 0) ** 2),
    "a late limit": (
        {"fused": 2}, {**SWIGLU, "swiglu_limit": 0.5, "swiglu_limit_after_activation": 1, "activation_beta": 1.0},
        lambda x: np.minimum(silu(x[::2]), 0.5) * (np.clip(x[1::2], -0.5, 0.5) + 1),
    ),
}
"""What onnxruntime has kernels for GPUs of only."""


@pytest.mark.parametrize(("sizes", "attributes", "act"), SCHEMA.values(), ids=SCHEMA)
def test_by_the_schema(sizes: dict[str, Any], attributes: dict[str, Any], act: Any) -> None:
    operands = plain(**sizes)

    def oracle(x: np.ndarray, scores: np.ndarray, *parts: Any) -> np.ndarray:
        return by_schema(2, act, x, scores, *zip(parts[::2], parts[1::2]))

    own = {"k": 2, "normalize_routing_weights": 1, **attributes}
    check("MoE", operands, own, constant=constants(operands), oracle=oracle)


def test_projections_of_several_widths() -> None:
    operands = codes(bits=4, second=8, third=True)

    def oracle(x: np.ndarray, scores: np.ndarray, *parts: Any) -> np.ndarray:
        weights = [(real(w, s, bits), b) for (w, s, b), bits in zip((parts[:3], parts[3:6], parts[6:9]), (4, 8, 4))]
        return by_schema(2, lambda x, up: np.maximum(x, 0) * up, x, scores, *weights)

    check("QMoE", operands, {"k": 2, "fc2_expert_weight_bits": 8}, constant=constants(operands), oracle=oracle)


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"k": 0}, OpAttributeInvalid, "'k': got 0; expected 1 to 5"),
    ({"k": 6}, OpAttributeInvalid, "'k': got 6; expected 1 to 5"),
    ({"use_sparse_mixer": 1}, OpAttributeUnimplemented, "'use_sparse_mixer': got 1"),
    ({"activation_type": "tanh"}, OpAttributeUnimplemented, "'activation_type': got 'tanh'; supported: relu, "),
    ({"activation_type": "swiglu"}, OpAttributeInvalid, "got 'swiglu' and 0 without fc3"),
    ({**SWIGLU, "swiglu_fusion": 3}, OpAttributeInvalid, "fc1_experts_weights: got .*; expected 5x96x16"),
    ({"quant_type": "fp8"}, OpAttributeUnimplemented, "'quant_type': got 'fp8'"),
    ({"weights_prepacked": 1}, OpAttributeUnimplemented, "'weights_prepacked': got 1"),
    ({"expert_weight_bits": 3}, OpAttributeUnimplemented, "got 3 for fc1; supported: 2, 4, 8"),
    ({"expert_weight_bits": 8}, OpAttributeInvalid, "fc1_experts_weights: got .*; expected 5x24x32"),
    ({"block_size": 24}, OpAttributeInvalid, "'block_size': got 24; expected a power of 2"),
    ({"block_size": 32}, OpAttributeInvalid, "fc1_scales: got .*; expected 5x48x1"),
    ({"block_size": 64}, OpAttributeInvalid, "'block_size': got 64; expected one that divides the depth of fc1, 32"),
]


@pytest.mark.parametrize(("attributes", "kind", "message"), REFUSED)
def test_is_refused(attributes: dict[str, Any], kind: type[Exception], message: str) -> None:
    operands = codes()
    with pytest.raises(kind, match=f"'the_QMoE' .*{message}"):
        import_model(node_model("QMoE", operands, {"k": 2, **attributes}, constant=constants(operands)))


SHAPES: list[tuple[int, tuple[int, ...], str]] = [
    (0, (7, 33), "input: got .*; expected 7x32"), (0, (32,), "input: got .*; expected rank 2 or 3"),
    (1, (6, 5), "router_probs: got .*; expected 7x5"), (1, (7, 4), "router_probs: got .*; expected 7x5"),
    (2, (5, 48, 15), "fc1_experts_weights: got .*; expected 5x48x16"), (3, (5, 47), "fc1_scales: got .*; expected 5x48"),
    (4, (5, 47), "fc1_experts_bias: got .*; expected 5x48"), (5, (5, 32), "fc2_experts_weights: got .*; expected rank 3"),
    (11, (5, 25), "fc1_zero_points: got .*; expected 5x24"), (14, (7, 4), "router_weights: got .*; expected 7x5"),
]


@pytest.mark.parametrize(("place", "shape", "message"), SHAPES)
def test_shapes_are_refused(place: int, shape: tuple[int, ...], message: str) -> None:
    operands = [*codes(zeros=True), floats(9, TOKENS, EXPERTS)]
    operands[place] = np.zeros(shape, operands[place].dtype)
    with pytest.raises(OpAttributeInvalid, match=f"'the_QMoE' .*{message}"):
        import_model(node_model("QMoE", operands, {"k": 2}, constant=constants(operands)))


@pytest.mark.parametrize(("attributes", "fused", "third", "kind", "message"), [
    ({**SWIGLU, "swiglu_limit": -1.0}, 2, False, OpAttributeInvalid, "'swiglu_limit': got -1.0; expected a number from 0 on"),
    ({**SWIGLU, "swiglu_fusion": 3}, 2, False, OpAttributeInvalid, "'swiglu_fusion': got 3; expected 0, 1 or 2"),
    (SWIGLU, 2, True, OpAttributeInvalid, "got 'swiglu' and 1 with fc3"),
    ({"activation_type": "geglu"}, 1, True, OpAttributeInvalid, "got 'geglu' and 0 with fc3"),
])
def test_activations_are_refused(
    attributes: dict[str, Any], fused: int, third: bool, kind: type[Exception], message: str
) -> None:
    operands = plain(fused=fused, third=third)
    with pytest.raises(kind, match=f"'the_MoE' .*{message}"):
        import_model(node_model("MoE", operands, attributes))


def test_scales_of_other_types_are_refused() -> None:
    operands = [*codes(), *[None] * 1, np.ones(EXPERTS, np.float32)]
    with pytest.raises(OpAttributeUnimplemented, match="got global scales"):
        import_model(node_model("QMoE", operands, {"k": 2}))
    operands = codes()
    operands[6] = None
    with pytest.raises(OpAttributeInvalid, match="fc2_scales is absent"):
        import_model(node_model("QMoE", operands, {"k": 2}))
    operands = codes()
    operands[2] = operands[2].view(np.int8)
    with pytest.raises(OpAttributeInvalid, match=r"fc1_experts_weights: got .*int8.*; expected uint8"):
        import_model(node_model("QMoE", operands, {"k": 2}))


def test_files_hold_packed_weights(tmp_path: Path) -> None:
    operands, attributes = quantized("blocks, zero points")
    ir = forge.from_onnx(node_model("QMoE", operands, attributes, constant=constants(operands)))
    ir.save(tmp_path / "experts.forge")
    again = forge.load(tmp_path / "experts.forge")
    assert (tmp_path / "experts.forge").stat().st_size < EXPERTS * HIDDEN * INNER * 2 * 4
    np.testing.assert_array_equal(evaluate(again.mod, *operands[:2])[0], evaluate(ir.mod, *operands[:2])[0])
