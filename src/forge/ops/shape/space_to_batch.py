"""Blocks of space moved to the batch and back: space_to_batch_nd, batch_to_space_nd."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, te
from forge.ops.core.inference import fail, required
from forge.ops.core.lowering import injective, row_major, unravel
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Conditions, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value
from forge.ops.core.window_geometry import padded_read

Pairs = tuple[tuple[int, int], ...]


def _check(op: str, data: Value, blocks: Sequence[int], pairs: Pairs, what: str) -> None:
    if not blocks or any(b < 1 for b in blocks) or len(blocks) >= data.rank:
        raise fail(op, "attribute block_shape", tuple(blocks), f"1 to {max(data.rank - 1, 0)} positive numbers")
    if len(pairs) != len(blocks) or any(p < 0 for pair in pairs for p in pair):
        raise fail(op, f"attribute {what}", pairs, f"{len(blocks)} pairs of numbers that are not negative")


def _divisible(op: str, extent: Dim, divisor: int, what: str) -> None:
    if isinstance(extent, int) and extent % divisor:
        raise fail(op, what, extent, f"a multiple of {divisor}")


def _divides(extent: Dim, divisor: int, what: str) -> list[tuple[Expr, str]]:
    known = isinstance(extent, int) or dims.equal(dims.floormod(extent, divisor), 0)
    return required(known, lambda: (te.dim(extent) % divisor).eq(0), f"{what} is {extent}; expected a multiple of {divisor}")


@dataclass(frozen=True)
class SpaceToBatchAttrs:
    block_shape: tuple[int, ...]
    paddings: Pairs
    pad_value: float = 0.0


@register
class SpaceToBatch(Op[SpaceToBatchAttrs]):
    """Every ``block_shape``-th element of the padded dimensions 1, 2 .. of data as a batch of its own, blocks in row-major order.

    out[o * N + n, p.., ..] = padded[n, p * block + o.., ..]
    """

    name = "nn.space_to_batch_nd"
    data = Operand()
    kind = Kind.INJECTIVE

    def _padded(self, data: Value, attrs: SpaceToBatchAttrs) -> list[Dim]:
        return [d + a + b for d, (a, b) in zip(data.shape[1:], attrs.paddings, strict=False)]

    def infer(self, attrs: SpaceToBatchAttrs, data: Value) -> Types:
        _check(self.name, data, attrs.block_shape, attrs.paddings, "paddings")
        padded = self._padded(data, attrs)
        for k, (extent, block) in enumerate(zip(padded, attrs.block_shape, strict=True)):
            _divisible(self.name, extent, block, f"padded dimension {k + 1}")
        space = [dims.floordiv(e, b) for e, b in zip(padded, attrs.block_shape, strict=True)]
        return [TensorType((data.shape[0] * math.prod(attrs.block_shape), *space, *data.shape[1 + len(space) :]), data.dtype)]

    def reference(self, attrs: SpaceToBatchAttrs, data: Array) -> Arrays:
        count = len(attrs.block_shape)
        pads = [(0, 0), *attrs.paddings, *[(0, 0)] * (data.ndim - 1 - count)]
        padded = np.pad(data, pads, constant_values=np.asarray(attrs.pad_value).astype(data.dtype))
        parts = [
            padded[(slice(None), *(slice(o, None, b) for o, b in zip(offset, attrs.block_shape, strict=True)))]
            for offset in np.ndindex(*attrs.block_shape)
        ]
        return [np.concatenate(parts)]

    def lower(self, attrs: SpaceToBatchAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        count = len(attrs.block_shape)
        overhang = [False, *(pair != (0, 0) for pair in attrs.paddings), *[False] * (data.ndim - 1 - count)]

        def body(i: Sequence[Expr]) -> Expr:
            offsets = unravel(i[0] // data.shape[0], [te.const(b) for b in attrs.block_shape])
            space = [
                x * b + o - before
                for x, b, o, (before, _) in zip(i[1:], attrs.block_shape, offsets, attrs.paddings, strict=False)
            ]
            return padded_read(data, [i[0] % data.shape[0], *space, *i[1 + count :]], overhang, attrs.pad_value)

        return [injective(self.name, results[0], body)]

    def requires(self, attrs: SpaceToBatchAttrs, results: TensorTypes, data: Value) -> Conditions:
        found: list[tuple[Expr, str]] = []
        for k, (extent, block) in enumerate(zip(self._padded(data, attrs), attrs.block_shape, strict=True)):
            found += _divides(extent, block, f"padded dimension {k + 1}")
        return found


@dataclass(frozen=True)
class BatchToSpaceAttrs:
    block_shape: tuple[int, ...]
    crops: Pairs


@register
class BatchToSpace(Op[BatchToSpaceAttrs]):
    """The inverse of space_to_batch_nd; ``crops`` elements are then removed from both ends of the dimensions 1, 2 .."""

    name = "nn.batch_to_space_nd"
    data = Operand()
    kind = Kind.INJECTIVE

    def infer(self, attrs: BatchToSpaceAttrs, data: Value) -> Types:
        _check(self.name, data, attrs.block_shape, attrs.crops, "crops")
        blocks = math.prod(attrs.block_shape)
        _divisible(self.name, data.shape[0], blocks, "dimension 0")
        sizes = zip(data.shape[1:], attrs.block_shape, attrs.crops, strict=False)
        space = [d * b - first - last for d, b, (first, last) in sizes]
        for k, extent in enumerate(space):
            if isinstance(extent, int) and extent < 0:
                raise fail(self.name, "attribute crops", attrs.crops, f"at most the size of dimension {k + 1}")
        shape = (dims.floordiv(data.shape[0], blocks), *space, *data.shape[1 + len(space) :])
        return [TensorType(shape, data.dtype)]

    def reference(self, attrs: BatchToSpaceAttrs, data: Array) -> Arrays:
        count, batch = len(attrs.block_shape), len(data) // math.prod(attrs.block_shape)
        sizes = [d * b for d, b in zip(data.shape[1:], attrs.block_shape, strict=False)]
        out = np.zeros((batch, *sizes, *data.shape[1 + count :]), data.dtype)
        for number, offset in enumerate(np.ndindex(*attrs.block_shape)):
            places = (slice(None), *(slice(o, None, b) for o, b in zip(offset, attrs.block_shape, strict=True)))
            out[places] = data[number * batch : (number + 1) * batch]
        return [out[(slice(None), *(slice(a, n - b) for (a, b), n in zip(attrs.crops, sizes, strict=True)))]]

    def lower(self, attrs: BatchToSpaceAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        count, batch = len(attrs.block_shape), te.dim(results[0].shape[0])
        blocks = [te.const(b) for b in attrs.block_shape]

        def body(i: Sequence[Expr]) -> Expr:
            space = [x + first for x, (first, _) in zip(i[1:], attrs.crops, strict=False)]
            number = row_major([x % b for x, b in zip(space, blocks, strict=True)], blocks)
            return data[(number * batch + i[0], *(x // b for x, b in zip(space, blocks, strict=True)), *i[1 + count :])]

        return [injective(self.name, results[0], body)]

    def requires(self, attrs: BatchToSpaceAttrs, results: TensorTypes, data: Value) -> Conditions:
        return _divides(data.shape[0], math.prod(attrs.block_shape), "dimension 0")
