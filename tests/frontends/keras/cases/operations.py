"""Operations of ``keras.ops``: many in one model, each an output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.frontends.keras.case import Case, called, integers, normal

UNARY = (
    "absolute arctan arcsinh ceil cos cosh exp expm1 floor isfinite isinf isnan negative relu relu6 sigmoid sign "
    "sin sinh square tan tanh softplus softsign silu log_sigmoid hard_sigmoid hard_silu selu gelu tanh_shrink "
    "hard_tanh leaky_relu elu celu glu soft_shrink hard_shrink softmax log_softmax sparsemax sparse_plus "
    "sparse_sigmoid squareplus erf conj real trunc round ravel zeros_like ones_like logical_not sort argsort cumsum "
    "cumprod sum prod mean var std max min any all argmax argmin logsumexp count_nonzero average nansum nanmean "
    "nanmax nanmin nanstd nanvar nanprod normalize")
POSITIVE = "log log10 log1p log2 sqrt rsqrt reciprocal arccosh"
UNIT = "arccos arcsin arctanh erfinv"
OF_INTEGERS = "absolute negative exp sqrt sum mean prod max square argmax sin sign floor cumsum"
BINARY = (
    "add subtract multiply divide maximum minimum power equal not_equal less less_equal greater greater_equal "
    "logical_and logical_or logical_xor floor_divide mod divide_no_nan isclose")
BITS = "bitwise_and bitwise_or bitwise_xor left_shift right_shift"


def elementwise(keras: Any) -> Iterator[Case]:
    ops = keras.ops
    x, p = normal(2, 3, 4), np.abs(normal(2, 3, 4)) + 1.1
    one = np.tanh(normal(2, 3, 4))
    i, j = integers(1, 7, 2, 3, 4), integers(1, 7, 2, 3, 4)
    for names, data, label in (
            (UNARY, x, "unary"), (POSITIVE, p, "positive"), (UNIT, one, "unit"), (OF_INTEGERS, i, "integers")):
        found = names.split()
        for k in range(0, len(found), 12):
            part = found[k : k + 12]
            yield called(keras, f"ops-{label}-{k}", lambda x, part=part: [getattr(ops, n)(x) for n in part], data)
    q = np.abs(normal(2, 3, 4)) + 1.1
    for label, a, b in (("floats", p, q), ("integers", i, j), ("mixed", i, q)):
        yield called(keras, f"ops-binary-{label}", lambda a, b: [getattr(ops, n)(a, b) for n in BINARY.split()], a, b)
    yield called(keras, "ops-binary-scalars", lambda a: [getattr(ops, n)(a, 2.0) for n in BINARY.split()], p)
    yield called(keras, "ops-bits", lambda a, b: [getattr(ops, n)(a, b) for n in BITS.split()], i, j)


def shapes(keras: Any) -> Iterator[Case]:
    ops = keras.ops
    x = normal(2, 3, 4)
    yield called(keras, "ops-moves", lambda x: [
        ops.reshape(x, (-1, 12)), ops.reshape(x, (-1, 2, 6)), ops.transpose(x, (0, 2, 1)), ops.swapaxes(x, 1, 2),
        ops.moveaxis(x, 1, -1), ops.expand_dims(x, (1, -1)), ops.squeeze(ops.expand_dims(x, 1), 1), ops.flip(x, axis=1),
        ops.rot90(x, k=1, axes=(1, 2)), ops.roll(x, 1, axis=1), ops.repeat(x, 2, axis=1), ops.tile(x, (1, 2, 1)),
        ops.pad(x, ((0, 0), (1, 2), (0, 1))), ops.pad(x, ((0, 0), (1, 2), (0, 1)), mode="reflect")], x)
    yield called(keras, "ops-joins", lambda x: [
        ops.concatenate([x, x], axis=1), ops.stack([x, x], axis=1), ops.hstack([x, x]), *ops.split(x, 2, axis=-1),
        *ops.split(x, [1, 3], axis=-1), *ops.array_split(x, 3, axis=-1), *ops.unstack(x, axis=1)], x)
    yield called(keras, "ops-indices", lambda x: [
        x[:, 1], x[:, :2, ::2], x[..., 0], x[:, None, 1:, -1], x[:, ::-1], ops.take(x, [0, 2],
            axis=1), ops.tril(x), ops.triu(x, 1),
        ops.diagonal(x, axis1=1, axis2=2), ops.trace(x, axis1=1, axis2=2), ops.diff(x, axis=1)], x)
    yield called(keras, "ops-choices", lambda x: [
        ops.clip(x, -0.5, 0.5), ops.cast(x, "int32"), ops.cast(x, "bool"), ops.where(x > 0, x, 0.0), *ops.top_k(x, 2),
        ops.one_hot(ops.cast(ops.abs(x), "int32"), 4), ops.full_like(x, 2.0), x + ops.arange(4, dtype="float32"),
        ops.digitize(x, np.array([-1.0, 0.0, 1.0]))], x)


def products(keras: Any) -> Iterator[Case]:
    ops = keras.ops
    x, image = normal(2, 3, 4), normal(2, 6, 8, 4)
    ones = np.ones((4, 5), np.float32)
    yield called(keras, "ops-products", lambda x: [
        ops.matmul(x, ops.transpose(x, (0, 2, 1))), ops.einsum("bij,bkj->bik", x, x), ops.einsum("...ij,...kj->...ik", x, x),
        ops.tensordot(x, ones, axes=1), ops.dot(x, ones), ops.cross(x[..., :3], x[..., 1:])], x)
    yield called(keras, "ops-reductions", lambda x: [
        ops.sum(x, axis=(1, 2), keepdims=True), ops.mean(x, axis=1), ops.max(x, axis=1, initial=1.0), ops.softmax(x, axis=1),
        *ops.moments(x, axes=[1]), ops.cumsum(x, axis=1), ops.normalize(x, order=1), ops.argsort(x, axis=1)], x)
    yield called(keras, "ops-fourier", lambda x: [*ops.rfft(x), *ops.fft((x, x)), *ops.fft2((x, x))], x)
    square = normal(2, 3, 3)
    square = (square @ square.transpose(0, 2, 1) + np.eye(3)).astype(np.float32)
    yield called(keras, "ops-matrices", lambda x: [
        ops.det(x), ops.inv(x), ops.cholesky(x), ops.solve(x, x)], square, accuracy=1e-4)
    kernels = [normal(3, 3, 4, 6), normal(3, 3, 4, 2), normal(1, 1, 8, 3), normal(3, 3, 5, 4)]
    yield called(keras, "ops-windows", lambda x: [
        ops.average_pool(x, 2, padding="same", strides=1), ops.conv(x, kernels[0], strides=2, padding="same"),
        ops.depthwise_conv(x, kernels[1]), ops.separable_conv(x, kernels[1], kernels[2]), ops.depth_to_space(x, 2),
        ops.space_to_depth(x, 2), ops.dot_product_attention(x, x, x), ops.dot_product_attention(x, x, x, is_causal=True),
        ops.image.resize(x, (4, 5)), ops.image.rgb_to_grayscale(x[..., :3]), ops.image.pad_images(x, 1, 2, 3, 4),
        ops.image.crop_images(x, 1, 2, 1, 2), ops.image.extract_patches(x, 2)], image)


GROUPS = (elementwise, shapes, products)
