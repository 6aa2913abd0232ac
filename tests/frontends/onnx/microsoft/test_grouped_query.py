"""GroupQueryAttention and RotaryEmbedding of com.microsoft."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from forge.errors import OpAttributeInvalid, OpAttributeUnimplemented
from forge.frontends.onnx import import_model
from tests.frontends.onnx.microsoft.support import check, evaluate, floats, ints, node_model, onnxruntime_outputs, same

COS, SIN = floats(1, 20, 8), floats(2, 20, 8)
POSITIONS = ints(3, 0, 19, (2, 5))


@pytest.mark.parametrize("x", [floats(0, 2, 5, 48), floats(0, 2, 3, 5, 16)])
@pytest.mark.parametrize("positions", [POSITIONS, np.array([3])])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary(x: np.ndarray, positions: np.ndarray, interleaved: int) -> None:
    attributes = {"interleaved": interleaved}
    check("RotaryEmbedding", [x, positions, COS, SIN], attributes, symbolic=(2, 5), constant=(2, 3), opt_level=0)


@pytest.mark.parametrize("x", [floats(0, 2, 5, 72), floats(0, 2, 3, 5, 24)])
def test_rotary_of_a_part(x: np.ndarray) -> None:
    attributes = {"num_heads": 3, "rotary_embedding_dim": 16}
    check("RotaryEmbedding", [x, POSITIONS, COS, SIN], attributes, symbolic=(5,), opt_level=0)


def test_rotary_reads_no_scale() -> None:
    check("RotaryEmbedding", [floats(0, 2, 5, 48), POSITIONS, COS, SIN], {"scale": 2.0}, opt_level=0)


ROTARY_REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"is_packed_batching": 1}, OpAttributeUnimplemented, "'is_packed_batching': got 1; supported: 0"),
    ({"rotary_embedding_dim": 8}, OpAttributeInvalid, "'num_heads': got 0 with rotary_embedding_dim"),
]


@pytest.mark.parametrize(("attributes", "kind", "message"), ROTARY_REFUSED)
def test_rotary_is_refused(attributes: dict[str, Any], kind: type[Exception], message: str) -> None:
    proto = node_model("RotaryEmbedding", [floats(0, 2, 5, 48), POSITIONS, COS, SIN], attributes)
    with pytest.raises(kind, match=f"'the_RotaryEmbedding' .*{message}"):
        import_model(proto)


HEADS, GROUPS, WIDTH = 4, 2, 16
OUTPUTS = (True, True, True)
QUERY, NEW_KEY, NEW_VALUE, PAST_KEY, PAST_VALUE, ENDS, TOTAL, COSINES, SINES, PLACES, BIAS, SINK = range(12)


def inputs_of(length: int, past: int | None, ends: list[int], total: int, **others: np.ndarray | None) -> list[Any]:
    """Inputs of a call with ``length`` new keys after a buffer of ``past``; ``ends`` are the positions of the last ones."""
    batch = len(ends)
    new = [floats(seed, batch, length, heads * WIDTH) for seed, heads in enumerate((HEADS, GROUPS, GROUPS))]
    cached = [None if past is None else floats(seed, batch, GROUPS, past, WIDTH) for seed in (3, 4)]
    names = ("cos", "sin", "places", "bias", "sink")
    return [*new, *cached, np.array(ends, np.int32), np.array([total], np.int32), *(others.get(n) for n in names)]


def check_groups(inputs: list[Any], attributes: dict[str, Any] | None = None, **options: Any) -> None:
    while inputs[-1] is None:
        inputs.pop()
    heads = {"num_heads": HEADS, "kv_num_heads": GROUPS, **(attributes or {})}
    check("GroupQueryAttention", inputs, heads, outputs=OUTPUTS, **{"opt_level": 0, **options})


CALLS: list[tuple[int, int | None, list[int], int]] = [
    (5, None, [4, 4], 5),  # a first call
    (5, 0, [4, 4], 5),  # with an empty cache
    (5, 9, [4, 4], 5),  # with room in the cache
    (1, 6, [6, 6], 7),  # a step
    (1, 6, [6, 3], 7),  # where one of the batch is shorter
    (1, 9, [6, 3], 7),  # with room in the cache
    (3, 6, [8], 9),  # several keys after a past
    (3, 12, [8], 9),
]


@pytest.mark.parametrize(("length", "past", "ends", "total"), CALLS)
@pytest.mark.parametrize(("constant", "rotates"), [((), True), ((TOTAL,), False)])
def test_calls(length: int, past: int | None, ends: list[int], total: int, constant: tuple[int, ...], rotates: bool) -> None:
    inputs = inputs_of(length, past, ends, total, cos=COS, sin=SIN) if rotates else inputs_of(length, past, ends, total)
    symbolic = (length, past) if past and length > 1 and not constant else ()
    check_groups(inputs, {"do_rotary": int(rotates)}, constant=constant, symbolic=symbolic)


OPTIONS: list[dict[str, Any]] = [
    {"local_window_size": 2},
    {"softcap": 2.0},
    {"scale": 0.2},
    {"smooth_softmax": 1},
    {"smooth_softmax": 1, "softcap": 2.0, "local_window_size": 3},
]


@pytest.mark.parametrize("attributes", OPTIONS)
@pytest.mark.parametrize("call", [CALLS[0], CALLS[3]])
def test_options(attributes: dict[str, Any], call: tuple[int, int | None, list[int], int]) -> None:
    check_groups(inputs_of(*call), attributes)


@pytest.mark.parametrize("call", [CALLS[0], CALLS[4], CALLS[7]])
@pytest.mark.parametrize("window", [-1, 2])
def test_sink(call: tuple[int, int | None, list[int], int], window: int) -> None:
    check_groups(inputs_of(*call, sink=floats(7, HEADS)), {"local_window_size": window})


@pytest.mark.parametrize("call", [*CALLS[:2], *CALLS[3:]])
@pytest.mark.parametrize("sink", [None, floats(7, HEADS)])
def test_queries_that_see_all_valid_keys(call: tuple[int, int | None, list[int], int], sink: np.ndarray | None) -> None:
    check_groups(inputs_of(*call, sink=sink), {"causal": 0})


def test_bias() -> None:
    check_groups(inputs_of(*CALLS[0], bias=floats(5, 2, HEADS, 5, 5)))
    check_groups(inputs_of(*CALLS[0], bias=floats(5, 1, 1, 5, 5)), {"smooth_softmax": 1})
    check_groups(inputs_of(*CALLS[5], bias=floats(5, 2, HEADS, 1, 7)))


def test_rotary_in_other_forms() -> None:
    check_groups(inputs_of(*CALLS[0], cos=COS, sin=SIN), {"do_rotary": 1, "rotary_interleaved": 1})
    check_groups(inputs_of(*CALLS[4], cos=COS, sin=SIN, places=np.array([[6], [3]])), {"do_rotary": 1})


def test_packed() -> None:
    packed = floats(0, 2, 5, (HEADS + 2 * GROUPS) * WIDTH)
    check_groups([packed, None, None, None, None, np.array([4, 4], np.int32), np.array([5], np.int32)], symbolic=(5,))


def test_padding_of_a_first_call() -> None:
    """Queries after the valid keys of their sample are not compared: they have no meaning."""
    inputs = inputs_of(5, None, [4, 2], 5, cos=COS, sin=SIN)[:9]
    fed = [x for x in inputs if x is not None]
    attributes = {"num_heads": HEADS, "kv_num_heads": GROUPS, "do_rotary": 1}
    proto = node_model("GroupQueryAttention", inputs, attributes, outputs=OUTPUTS)
    found, wanted = evaluate(import_model(proto), *fed), onnxruntime_outputs(proto, *fed)
    np.testing.assert_allclose(found[0][0], wanted[0][0], atol=1e-5)
    np.testing.assert_allclose(found[0][1, :3], wanted[0][1, :3], atol=1e-5)
    np.testing.assert_allclose(found[1], wanted[1], atol=1e-5)


def test_norms_of_heads() -> None:
    """onnxruntime has them on other devices only; here it gets heads that are normalized before."""
    weights = floats(8, WIDTH), floats(9, WIDTH)
    inputs = inputs_of(*CALLS[0])
    normed = list(inputs)
    for place, weight in enumerate(weights):
        parts = inputs[place].reshape(2, 5, -1, WIDTH)
        root = np.sqrt((parts**2).mean(axis=-1, keepdims=True) + 1e-6)
        normed[place] = (parts / root * weight).reshape(inputs[place].shape).astype(np.float32)
    attributes = {"num_heads": HEADS, "kv_num_heads": GROUPS}
    fed = [x for x in normed if x is not None]
    expected = onnxruntime_outputs(node_model("GroupQueryAttention", normed[:7], attributes, outputs=OUTPUTS), *fed)
    proto = node_model("GroupQueryAttention", [*inputs, None, None, *weights], attributes, outputs=OUTPUTS)
    same(import_model(proto), [x for x in [*inputs, *weights] if x is not None], expected, opt_level=0)


def test_symbols_of_a_decoder() -> None:
    """The total is the size of an attention mask, as exporters write it; the present is as long."""
    proto = node_model(
        "GroupQueryAttention", inputs_of(*CALLS[3])[:7], {"num_heads": HEADS, "kv_num_heads": GROUPS}, outputs=OUTPUTS,
        symbolic=(6,), constant=(TOTAL,),
    )
    del proto.graph.initializer[:]
    proto.graph.input.append(onnx.helper.make_tensor_value_info("mask", onnx.TensorProto.INT64, [2, "total"]))
    nodes = onnx.parser.parse_graph("g (int64[2, t] mask) => (int32 x6) { s = Shape<start = 1>(mask) x6 = Cast<to = 6>(s) }").node
    proto.graph.node.insert(0, nodes[1])
    proto.graph.node.insert(0, nodes[0])
    module = import_model(proto)
    assert "total" in str(module.main.outputs[1].shape[2])
    fed = [x for x in inputs_of(*CALLS[3])[:6] if x is not None] + [np.ones((2, 7), np.int64)]
    same(module, fed, onnxruntime_outputs(proto, *fed), opt_level=3)


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"num_heads": 3}, OpAttributeInvalid, "'num_heads': got 3; expected a multiple of kv_num_heads, 2"),
    ({"k_quant_type": "PER_TENSOR"}, OpAttributeUnimplemented, "'k_quant_type': got 'PER_TENSOR'; supported: 'NONE'"),
    ({"sliding_window_cache": 1}, OpAttributeUnimplemented, "'sliding_window_cache': got 1; supported: 0"),
    ({"qk_output": 1}, OpAttributeUnimplemented, "'qk_output': got 1; supported: 0"),
    ({"causal": 0, "local_window_size": 2}, OpAttributeInvalid, "'local_window_size': got 2 with causal 0; expected -1"),
    ({"do_rotary": 1}, OpAttributeInvalid, "cos_cache or sin_cache is absent"),
]


@pytest.mark.parametrize(("attributes", "kind", "message"), REFUSED)
def test_is_refused(attributes: dict[str, Any], kind: type[Exception], message: str) -> None:
    proto = node_model("GroupQueryAttention", inputs_of(*CALLS[0])[:7], {"num_heads": 4, "kv_num_heads": 2, **attributes})
    with pytest.raises(kind, match=f"'the_GroupQueryAttention' .*{message}"):
        import_model(proto)
