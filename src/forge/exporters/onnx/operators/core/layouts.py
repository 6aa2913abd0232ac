"""Tensors of other layouts, which ONNX does not have, with their axes moved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.exporters.onnx.emitter import Emitter, Ref


def permutation(g: Emitter, source: str, target: str) -> list[int]:
    """The axes of ``source`` in the order of ``target``.

    Raises:
        OpNotImplemented: one of the layouts is blocked.
    """
    if sorted(source) != sorted(target) or not source.isalpha():
        raise g.unsupported(f"got layout {source}; ONNX has {target} only; export before the layouts of convolutions are changed")
    return [source.index(axis) for axis in target]


def moved(g: Emitter, x: Ref, source: str, target: str) -> Ref:
    """``x`` of layout ``source`` in layout ``target``."""
    return g.transpose(x, permutation(g, source, target))


def constant_transposed(g: Emitter, x: Ref, axes: Sequence[int]) -> Ref:
    """``x`` with its axes permuted; of a weight, a weight."""
    tensors = g.document.tensors
    if list(axes) == sorted(axes):
        return x
    if x.name in tensors:
        return g.add_tensor(np.transpose(tensors[x.name], axes), f"{x.name}_transposed")
    return g.op("Transpose", x, perm=list(axes))


def begins_and_ends(padding: Sequence[Dim], rank: int) -> list[Dim]:
    """Padding before all axes, then after them."""
    return [*padding, *padding] if len(padding) == rank else list(padding)


def padded(g: Emitter, x: Ref, padding: Sequence[Dim], value: int = 0) -> tuple[Ref, list[int]]:
    """``x`` with what must be computed of the padding of its spatial axes added, or is not 0, and what is left as numbers."""
    rank = len(padding) // 2
    if not value and dims.is_static(*padding) and all(p >= 0 for p in padding if isinstance(p, int)):
        return x, [int(p) for p in padding]  # type: ignore[arg-type]
    before, after = padding[:rank], padding[rank:]
    return g.op("Pad", x, g.dims([0, 0, *before, 0, 0, *after]), g.like(float(value), x)), [0] * len(padding)
