"""Affine quantization: parameters that span data, and codes against loops of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from forge.compose import affine
from forge.compose.affine import Spread
from forge.errors import OpAttributeUnimplemented
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from tests.ops.compose.support import build, run

X = np.random.default_rng(3).uniform(-3, 5, (4, 6)).astype(np.float32)


def test_codes_span_the_data_and_0() -> None:
    def compose(g: Composer, x: Value) -> list[Value]:
        low, high = affine.range_with_zero(g, x, (0, 1), False)
        return [*affine.asymmetric_parameters(g, low, high, 0, 255, 1e-9), affine.symmetric_scale(g, low, high, -127, 127, 1e-9)]

    scale, zero_point, around = run(compose, X)
    codes = np.round(X / scale) + zero_point
    assert codes.min() == 0 and 254 <= codes.max() <= 256
    assert abs(around - 5 / 127) < 0.01


@pytest.mark.parametrize(("block_size", "blocks"), [((4, 6), ()), ((1, 6), (4,)), ((1, 3), (4, 2))])
def test_what_parameters_are_spread_over(block_size: tuple[int, int], blocks: tuple[int, ...]) -> None:
    scales = np.random.default_rng(4).uniform(0.1, 1, blocks).astype(np.float32)

    def compose(g: Composer, x: Value, scale: Value) -> Value:
        spread = affine.blocks(g, x, block_size)
        scaled = g.call("multiply", x, spread.over(g, affine.inverse(g, scale), x))
        return affine.dequantize(g, affine.quantize(g, scaled, None, spread, "int8", -7, 7), scale, None, spread)

    (got,) = run(compose, X, scales)
    full = scales.repeat(3, 1) if len(blocks) == 2 else scales.reshape(*blocks, *[1] * (2 - len(blocks)))
    np.testing.assert_allclose(got, np.clip(np.round(X / full), -7, 7) * full, rtol=1e-6)


def test_rounded_rows_are_near() -> None:
    (got,) = run(affine.rounded_rows, X)
    step = (np.maximum(X.max(1), 0) - np.minimum(X.min(1), 0)) / 255
    assert np.all(np.abs(got - X) <= step[:, None] * 1.001)


def test_zero_points_are_integers() -> None:
    with pytest.raises(OpAttributeUnimplemented, match="whole numbers"):
        build(lambda g, z: [v for v in [affine.whole_zero_point(g, z, "int8", Spread())] if v], [np.float32(0.5)])
