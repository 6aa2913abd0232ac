"""Attention and MultiHeadAttention of com.microsoft."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from forge.errors import OpAttributeInvalid, OpAttributeUnimplemented
from forge.frontends.onnx import import_model
from tests.frontends.onnx.microsoft.support import check, floats, ints, node_model

BATCH, LENGTH, SIZE, HEADS, PAST = 2, 5, 12, 3, 6
X, WEIGHTS, BIAS = floats(0, BATCH, LENGTH, SIZE), floats(1, SIZE, 36) * np.float32(0.3), floats(2, 36)
STACKED = floats(9, 2, BATCH, HEADS, PAST, 4)
MASK = np.array([[1, 1, 1, 0, 0], [1, 0, 2, 1, -1]], np.int32)
OF_QUERIES = ints(6, 0, 1, (BATCH, LENGTH, LENGTH), np.int32) | np.eye(LENGTH, dtype=np.int32)
HEAD_BIAS = floats(8, BATCH, HEADS, LENGTH, LENGTH)


def check_attention(inputs: list[Any], attributes: dict[str, Any] | None = None, **options: Any) -> None:
    options = {"constant": (1, 2), "symbolic": (BATCH, LENGTH), "opt_level": 0, **options}
    check("Attention", inputs, {"num_heads": HEADS, **(attributes or {})}, **options)


MASKS = [
    None,
    np.array([3, 5], np.int32),
    np.array([3, 5, 1, 0], np.int32),
    np.array([3, 5, 0, 3, 8, 0, 3, 8], np.int32),
    MASK,
    OF_QUERIES,
]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(mask: Any, unidirectional: int) -> None:
    if mask is not None and mask.shape == (4,):
        mask = mask * [1, 1, not unidirectional, 0]
    mask = None if mask is None else mask.astype(np.int32)
    symbolic = (BATCH, LENGTH) if mask is None else ()
    check_attention([X, WEIGHTS, BIAS, mask], {"unidirectional": unidirectional}, symbolic=symbolic)


@pytest.mark.parametrize("mask", [MASK, OF_QUERIES])
def test_mask_of_symbols(mask: np.ndarray) -> None:
    check_attention([X, WEIGHTS, BIAS, mask])


@pytest.mark.parametrize("attributes", [{"scale": 0.7}, {"mask_filter_value": -1.0}, {"mask_filter_value": -3.4e38}])
def test_attributes(attributes: dict[str, Any]) -> None:
    check_attention([X, WEIGHTS, BIAS, MASK], attributes)


@pytest.mark.parametrize("bias", [HEAD_BIAS, HEAD_BIAS[:1], HEAD_BIAS[:, :1], HEAD_BIAS[:1, :1]])
def test_bias_of_scores(bias: np.ndarray) -> None:
    check_attention([X, WEIGHTS, BIAS, MASK, None, np.ascontiguousarray(bias)])


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("mask", [None, np.array([[0, 1] + [1] * 9, [1] * 11], np.int32), np.array([7, 9], np.int32)])
def test_past_and_present(mask: Any, unidirectional: int) -> None:
    inputs = [X, WEIGHTS, BIAS, mask, STACKED]
    attributes = {"unidirectional": unidirectional}
    check_attention(inputs, attributes, outputs=(True, True), symbolic=(PAST, LENGTH) if mask is None else ())


def test_present_without_past() -> None:
    check_attention([X, WEIGHTS, BIAS], outputs=(True, True))


def test_values_of_another_size() -> None:
    attributes = {"qkv_hidden_sizes": [12, 12, 18]}
    check_attention([X, floats(1, SIZE, 42) * np.float32(0.3), floats(2, 42)], attributes)


def test_attention_without_bias() -> None:
    """onnxruntime crashes; the meaning is a bias of zeros."""
    expected = import_model(node_model("Attention", [X, WEIGHTS, BIAS * 0], {"num_heads": HEADS}))
    assert expected.main.outputs[0].shape == (BATCH, LENGTH, SIZE)

    def oracle(x: np.ndarray, weights: np.ndarray, bias: Any) -> np.ndarray:
        query, key, value = (by_head(part) for part in np.split(x @ weights, 3, axis=-1))
        return joined(attended(query, key, value))

    check_attention([X, WEIGHTS, None], oracle=oracle, constant=(1,))


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X, WEIGHTS, BIAS], {"do_rotary": 1}, OpAttributeUnimplemented, "'do_rotary': got 1; supported: 0"),
    ([X, WEIGHTS, BIAS], {"past_present_share_buffer": 1}, OpAttributeUnimplemented, "past and present share a buffer"),
    ([X, WEIGHTS, BIAS], {"num_heads": 5}, OpAttributeInvalid, r"'num_heads': got 5 for hidden sizes \[12, 12, 12\]"),
    ([X, WEIGHTS, BIAS], {"qkv_hidden_sizes": [12, 12]}, OpAttributeInvalid, r"'qkv_hidden_sizes': got \[12, 12\] for 36"),
    ([X, WEIGHTS, BIAS, MASK[:, :3].copy()], {}, OpAttributeInvalid, "mask: got .*; expected 2x5"),
    ([X, WEIGHTS, BIAS, np.ones(3, np.int32)], {}, OpAttributeUnimplemented, "got 3 numbers for a batch of 2; expected"),
    ([X, WEIGHTS, BIAS, np.ones((2, 1, 9, 9), np.int32)], {}, OpAttributeUnimplemented, "mask: got .*; supported: ranks 1 to 3"),
    ([X, WEIGHTS, BIAS, None, STACKED[0]], {}, OpAttributeInvalid, "past: got .*; expected rank 5"),
]


@pytest.mark.parametrize(("inputs", "attributes", "kind", "message"), REFUSED)
def test_attention_is_refused(inputs: list[Any], attributes: dict[str, Any], kind: type[Exception], message: str) -> None:
    proto = node_model("Attention", inputs, {"num_heads": HEADS, **attributes})
    with pytest.raises(kind, match=f"'the_Attention' .*{message}"):
        import_model(proto)


QUERY, KEY, VALUE = floats(0, BATCH, LENGTH, SIZE), floats(1, BATCH, 7, SIZE), floats(2, BATCH, 7, 15)
BIASES = floats(3, SIZE + SIZE + 15)
PADDING = np.array([[1, 1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1, 1]], np.int32)
PAST_KEY, PAST_VALUE = floats(6, BATCH, HEADS, PAST, 4), floats(7, BATCH, HEADS, PAST, 4)
PRESENT = (True, True, True)


def check_heads(inputs: list[Any], attributes: dict[str, Any] | None = None, **options: Any) -> None:
    options = {"symbolic": (BATCH, LENGTH, 7), "opt_level": 0, **options}
    check("MultiHeadAttention", inputs, {"num_heads": HEADS, **(attributes or {})}, **options)


@pytest.mark.parametrize("bias", [None, BIASES])
@pytest.mark.parametrize("mask", [None, PADDING, np.array([3, 6], np.int32), ints(9, 0, 1, (2, 5, 7), np.int32) | np.int32(1)])
def test_cross_attention(bias: Any, mask: Any) -> None:
    check_heads([QUERY, KEY, VALUE, bias, mask], symbolic=() if mask is not None and mask.ndim == 1 else (BATCH, LENGTH, 7))


@pytest.mark.parametrize("mask", [None, PADDING])
@pytest.mark.parametrize("bias", [floats(5, 1, HEADS, 5, 7), floats(5, BATCH, HEADS, 5, 7)])
def test_bias_of_scores_of_heads(mask: Any, bias: np.ndarray) -> None:
    check_heads([QUERY, KEY, VALUE, None, mask, bias], {"scale": 0.3})


@pytest.mark.parametrize("mask", [None, PADDING])
def test_scores_as_output(mask: Any) -> None:
    check_heads([QUERY, KEY, VALUE, None, mask], outputs=(*PRESENT, True), declared={3: onnx.TensorProto.FLOAT})


def test_fused() -> None:
    check_heads([QUERY, KEY, VALUE, BIASES, PADDING], opt_level=3)
    check_attention([X, WEIGHTS, BIAS, MASK], {"unidirectional": 1}, opt_level=3, symbolic=())


def test_unidirectional() -> None:
    check_heads([QUERY, QUERY, KEY[:, :LENGTH].copy()], {"unidirectional": 1}, outputs=PRESENT)


@pytest.mark.parametrize("queries", [3, 5])
@pytest.mark.parametrize("bias", [None, floats(5, 1, HEADS, 5, 7)])
def test_unidirectional_of_unequal_lengths(queries: int, bias: np.ndarray | None) -> None:
    own = None if bias is None else bias[:, :, :queries].copy()
    check_heads([QUERY[:, :queries].copy(), KEY, VALUE, None, None, own], {"unidirectional": 1})
    check_heads([KEY, QUERY[:, :queries].copy(), QUERY[:, :queries].copy()], {"unidirectional": 1})


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("mask", [None, np.array([[1] * 11, [1] * 9 + [0, 0]], np.int32)])
def test_past_of_heads(unidirectional: int, mask: Any) -> None:
    inputs = [QUERY, QUERY, KEY[:, :LENGTH].copy(), None, mask, None, PAST_KEY, PAST_VALUE]
    symbolic = (PAST, LENGTH) if mask is None else ()
    check_heads(inputs, {"unidirectional": unidirectional}, outputs=PRESENT, symbolic=symbolic)


@pytest.mark.parametrize("bias", [None, floats(3, 36)])
def test_keys_of_another_layer(bias: Any) -> None:
    check_heads([QUERY, floats(1, BATCH, HEADS, 7, 4), floats(2, BATCH, HEADS, 7, 4), bias])


def by_head(x: np.ndarray) -> np.ndarray:
    return x.reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)


def joined(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1).astype(np.float32)


def attended(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    powers = np.exp(query @ key.swapaxes(2, 3) / np.sqrt(query.shape[-1]))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True) @ value)


@pytest.mark.parametrize("bias", [None, floats(3, 36)])
def test_all_packed(bias: Any) -> None:
    packed = floats(1, BATCH, LENGTH, HEADS, 3, 4)

    def oracle(packed: np.ndarray, key: None, value: None, bias: Any) -> np.ndarray:
        added = np.zeros((3, HEADS, 4)) if bias is None else bias.reshape(3, HEADS, 4)
        parts = [(packed[:, :, :, i] + added[i]).transpose(0, 2, 1, 3) for i in range(3)]
        return joined(attended(*parts))

    check_heads([packed, None, None, bias], oracle=oracle)


def test_keys_and_values_packed() -> None:
    def oracle(query: np.ndarray, packed: np.ndarray) -> np.ndarray:
        parts = [packed[:, :, :, i].transpose(0, 2, 1, 3) for i in range(2)]
        return joined(attended(by_head(query), *parts))

    check_heads([QUERY, floats(1, BATCH, 7, HEADS, 2, 4)], oracle=oracle)


HEADS_REFUSED: list[tuple[list[Any], dict[str, Any], tuple[bool, ...], type[Exception], str]] = [
    ([QUERY, KEY, VALUE, None, None, floats(5, 1, 3, 5, 7)], {}, (True,) * 4, OpAttributeUnimplemented, r"output 3 \(qk\)"),
    ([QUERY, KEY], {}, (True,), OpAttributeInvalid, "got query, key and value .*, none; expected"),
    ([QUERY, KEY, VALUE, *[None] * 5, np.array([4], np.int32)], {}, (True,), OpAttributeUnimplemented, "share a buffer"),
    ([QUERY, KEY[:, :, :9].copy(), VALUE], {}, (True,), OpAttributeInvalid, "expected equal last axes"),
]


@pytest.mark.parametrize(("inputs", "attributes", "outputs", "kind", "message"), HEADS_REFUSED)
def test_heads_are_refused(
    inputs: list[Any], attributes: dict[str, Any], outputs: tuple[bool, ...], kind: type[Exception], message: str
) -> None:
    proto = node_model("MultiHeadAttention", inputs, {"num_heads": HEADS, **attributes}, outputs=outputs)
    with pytest.raises(kind, match=f"'the_MultiHeadAttention' .*{message}"):
        import_model(proto)
