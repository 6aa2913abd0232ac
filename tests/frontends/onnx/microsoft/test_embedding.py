"""Embeddings of com.microsoft."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.errors import OpAttributeInvalid
from forge.frontends.onnx import import_model
from tests.frontends.onnx.microsoft.support import check, floats, ints, node_model

IDS, SEGMENT_IDS = ints(0, 0, 9, (2, 5), np.int32), ints(1, 0, 1, (2, 5), np.int32)
WORDS, POSITIONS, SEGMENTS = floats(0, 10, 8), floats(1, 7, 8), floats(2, 2, 8)
GAMMA, BETA = floats(3, 8), floats(4, 8)
MASK = np.array([[1, 1, 0, 1, 0], [2, 1, 1, 0, 0]], np.int32)

SIDES = [(SEGMENT_IDS, SEGMENTS), (None, None)]


@pytest.mark.parametrize(("segment_ids", "segments"), SIDES)
@pytest.mark.parametrize("mask", [MASK, None])
@pytest.mark.parametrize("position_ids", [None, ints(5, 0, 6, (2, 5), np.int32), ints(5, 0, 6, (1, 5), np.int32)])
def test_embed_layer_norm(segment_ids: Any, segments: Any, mask: Any, position_ids: Any) -> None:
    inputs = [IDS, segment_ids, WORDS, POSITIONS, segments, GAMMA, BETA, mask, position_ids]
    check("EmbedLayerNormalization", inputs, {"epsilon": 1e-3}, outputs=(True, True, True), symbolic=(2, 5))


def test_segment_without_table_is_refused() -> None:
    proto = node_model("EmbedLayerNormalization", [IDS, SEGMENT_IDS, WORDS, POSITIONS, None, GAMMA, BETA], outputs=(True, True))
    with pytest.raises(OpAttributeInvalid, match=r"input 4 \(segment_embedding\) is absent"):
        import_model(proto)


def codes(seed: int, *shape: int) -> np.ndarray:
    return ints(seed, 0, 255, shape, np.uint8)


@pytest.mark.parametrize("with_segments", [True, False])
@pytest.mark.parametrize("mask", [MASK, None])
def test_quantized_embed_layer_norm(with_segments: bool, mask: Any) -> None:
    def kept(x: Any) -> Any:
        return x if with_segments else None

    tables = [codes(0, 10, 8), codes(1, 7, 8), kept(codes(2, 2, 8)), codes(3, 8), codes(4, 8)]
    scales: list[Any] = [np.float32(0.01 * i) for i in range(1, 6)]
    zero_points: list[Any] = [np.uint8(100 + i) for i in range(5)]
    scales[2], zero_points[2] = kept(scales[2]), kept(zero_points[2])
    inputs = [IDS, kept(SEGMENT_IDS), *tables, mask, *scales, *zero_points]
    check("QEmbedLayerNormalization", inputs, outputs=(True, True), symbolic=(2, 5))
