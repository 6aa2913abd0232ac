"""Dropout."""

from __future__ import annotations

import numpy as np

from forge.compose.randomness import dropout as random_dropout
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.random.distributions import seed_of
from forge.frontends.onnx.registry import converts


@converts("Dropout", since=1)
def dropout_1(g: Context, x: Value, *, is_test: int | None = None, ratio: float = 0.5) -> list[Value | None]:
    """Inference, unless ``is_test`` is there and 0: exporters of models that are not in training leave it out."""
    if is_test is None or is_test:
        return _dropped(g, x)
    kept, mask = random_dropout(g, x, g.constant(ratio, "float32"), seed=seed_of(g, None))
    return [kept, g.cast(mask, x.dtype) if g.wants(1) else None]


@converts("Dropout", since=7)
def dropout_7(g: Context, x: Value, *, ratio: float = 0.5) -> list[Value | None]:
    return _dropped(g, x)


@converts("Dropout", since=12)
def dropout(
    g: Context, x: Value, ratio: Value | None = None, training_mode: Value | None = None, *, seed: int | None = None
) -> list[Value | None]:
    training, rate = g.array(training_mode), g.array(ratio)
    off = training_mode is None or (training is not None and not training.any())
    if not off and not (rate is not None and not rate.any()):
        rate_value = g.constant(0.5, "float32") if ratio is None else ratio
        out, mask = random_dropout(g, x, rate_value, seed=seed_of(g, seed), training=training_mode)
        return [out, mask if g.wants(1) else None]
    return _dropped(g, x)


def _dropped(g: Context, x: Value) -> list[Value | None]:
    """Inference: the data as it is, and a mask that keeps everything."""
    mask = None
    if g.wants(1):
        mask = g.call("broadcast_to", g.constant(np.array(True)), shape=x.shape)
        mask = mask if g.opset >= 10 else g.cast(mask, x.dtype)
    return [x, mask]
