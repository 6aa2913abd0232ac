"""Random numbers, and dropout."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from forge import dims
from forge.compose.randomness import dropout as random_dropout
from forge.frontends.converter import REQUIRED, forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype


def seed_of(g: Context, seed: float | None) -> int:
    if seed is None:
        return zlib.crc32(g.name.encode())
    return int(seed) if seed == int(seed) else int(np.float32(seed).view(np.uint32))


def _dtype(x: Value, dtype: int | None) -> str:
    return x.dtype if dtype is None else element_dtype(dtype, "attribute 'dtype'")


def _drawn(op: str) -> Callable[..., Value]:
    def convert(g: Context, *, shape: tuple[int, ...], dtype: int, seed: float | None, **parameters: float) -> Value:
        kind = element_dtype(dtype, "attribute 'dtype'")
        return g.call(op, out_shape=shape, out_dtype=kind, seed=seed_of(g, seed), **parameters)

    return convert


def _drawn_like(op: str) -> Callable[..., Value]:
    """Numbers in the shape of ``x``, which may be known only when that is computed."""

    def convert(g: Context, x: Value, *, dtype: int | None, seed: float | None, **parameters: float) -> Value:
        options: dict[str, Any] = {"out_dtype": _dtype(x, dtype), "seed": seed_of(g, seed), **parameters}
        if dims.is_static(*x.shape):
            return g.call(op, out_shape=x.shape, **options)
        return g.call(op, g.call("shape_of", x), out_shape=None, **options)

    return convert


for _name, _parameters in (("Normal", {"mean": 0.0, "scale": 1.0}), ("Uniform", {"high": 1.0, "low": 0.0})):
    _op, _options = f"random.{_name.lower()}", dict[str, Any](seed=None, **_parameters)
    converts(f"Random{_name}")(forwarding(_drawn(_op), 0, shape=REQUIRED, dtype=onnx.TensorProto.FLOAT, **_options))
    converts(f"Random{_name}Like")(forwarding(_drawn_like(_op), dtype=None, **_options))


@converts("Bernoulli", since=15)
def bernoulli(g: Context, x: Value, *, dtype: int | None = None, seed: float | None = None) -> Value:
    return g.call("random.bernoulli", x, out_dtype=_dtype(x, dtype), seed=seed_of(g, seed))


@converts("Multinomial", since=7)
def multinomial(
    g: Context, x: Value, *, dtype: int = onnx.TensorProto.INT32, sample_size: int = 1, seed: float | None = None
) -> Value:
    kind = element_dtype(dtype, "attribute 'dtype'")
    return g.call("random.multinomial", x, num_samples=sample_size, out_dtype=kind, seed=seed_of(g, seed))


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
