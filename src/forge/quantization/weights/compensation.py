"""Weights whose roundings make up for one another in the results of their layer.

Scales stay those of rounding to the nearest; the codes are those of GPTQ (``rounding.compensated``), from what the layers read in
the float model. A layer gets them if they lose clearly less on samples that they were not made from.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from forge import dtypes
from forge.ir.graph import Module
from forge.progress import Progress
from forge.quantization.observed import gram
from forge.quantization.observed.calibration import Sample
from forge.quantization.places.layers import Layer, is_depthwise
from forge.quantization.weights.codes import Weight
from forge.quantization.weights.rounding import Fit, Steps, compensated, joined

CHECKED = 4
"""One sample in this many is held out: what is gained is measured on these."""
GAIN = 0.9
"""Of the squared error of rounding to the nearest, the share that may be left at most."""
ROWS_PER_COLUMN, MIN_ROWS = 4, 8192
"""Rows of what a layer reads, of all samples, that are enough: for each column of its weight, and in all."""
MAX_DEPTH = 3072
"""Time grows with the cube of the depth: it is that of the second dense layer of BERT-base."""


def compensated_weights(module: Module, nearest: Mapping[Layer, Weight], samples: Sequence[Sample],
                        progress: Progress | None = None) -> dict[Layer, Weight]:
    """Codes for weights of layers of ``module``, for those that gain.

    Args:
        nearest: the same, rounded to the nearest.
        progress: told how many layers are done.
    """
    found: dict[Layer, Weight] = {}
    numbers, total = itertools.count(1), sum(map(_is_tried, nearest))
    for batch in gram.batches(filter(_is_tried, nearest), itemsize=4) if len(samples) > 1 else ():
        known, held_out = _read(module, batch, samples)
        for layer, number in zip(batch, numbers):
            if progress is not None:
                progress("round weights", number, total)
            matrices, rows = known[gram.key_of(layer)], held_out[gram.key_of(layer)]
            if not np.isfinite(np.einsum("gkk->", matrices)):
                continue
            weight = _weight(layer, nearest[layer], matrices)
            before, after = (_loss(layer, w, rows) for w in (nearest[layer], weight))
            if after < GAIN * before:
                found[layer] = weight
    return found


def _is_tried(layer: Layer) -> bool:
    """Depthwise convolutions have few columns and a scale for each row: they gain nothing."""
    return gram.sums_windows(layer) and not is_depthwise(layer) and gram.depth_of(layer) <= MAX_DEPTH


def _read(module: Module, layers: Sequence[Layer], samples: Sequence[Sample]) -> tuple[dict[object, np.ndarray], ...]:
    """Of what layers read, by `gram.key_of`: Gram matrices ``[groups, K, K]``, and rows ``[groups, n, K]`` of those held out."""
    by_key = {gram.key_of(layer): layer for layer in layers}
    known: dict[object, np.ndarray] = {}
    held_out: dict[object, list[np.ndarray]] = {key: [] for key in by_key}
    for number, arrays in enumerate(gram.layer_inputs(module, layers, samples)):
        for key, layer in by_key.items():
            most = max(1, max(MIN_ROWS, ROWS_PER_COLUMN * gram.depth_of(layer)) // len(samples))
            for rows in gram.rows_of(layer, arrays[layer.inputs[0]], most):
                if number % CHECKED == 1:
                    held_out[key].append(rows)
                elif key in known:
                    known[key] += rows.swapaxes(1, 2) @ rows
                else:
                    known[key] = rows.swapaxes(1, 2) @ rows
    return known, {key: np.concatenate(several, axis=1) for key, several in held_out.items()}


def _weight(layer: Layer, nearest: Weight, matrices: np.ndarray) -> Weight:
    rows = _rows(nearest.axis, _constant(layer))
    least, most = dtypes.integer_range(str(nearest.codes.dtype))
    columns = [np.broadcast_to(np.reshape(0 if a is None else a, (-1, 1)), (len(rows), 1)) for a in (nearest.scale, nearest.zero)]
    scale, zero = (column.astype(np.float32) for column in columns)
    parts = []
    for part, matrix in zip(_parts(len(rows), len(matrices)), matrices):
        steps = Steps(scale[part], zero[part], -most if least < 0 else least, most)
        parts.append(compensated(rows[part], matrix, rows.shape[1], _given(steps)))
    shape = nearest.codes.shape
    moved = joined(parts).codes.reshape(shape[nearest.axis], *(n for k, n in enumerate(shape) if k != nearest.axis))
    codes = np.ascontiguousarray(np.moveaxis(moved, 0, nearest.axis)).astype(nearest.codes.dtype)
    return Weight(codes, nearest.scale, nearest.zero, nearest.axis)


def _given(steps: Steps) -> Fit:
    return lambda blocks, importance: steps


def _loss(layer: Layer, weight: Weight, data: np.ndarray) -> float:
    """The sum of squared errors of the results."""
    lost = _rows(weight.axis, weight.real - _constant(layer))
    groups, _, depth = data.shape
    return float(np.square(data @ lost.reshape(groups, -1, depth).swapaxes(1, 2)).sum(dtype=np.float64))


def _constant(layer: Layer) -> np.ndarray:
    assert layer.weight is not None and layer.weight.constant is not None
    return np.asarray(layer.weight.constant, np.float32)


def _rows(axis: int, array: np.ndarray) -> np.ndarray:
    moved = np.moveaxis(array, axis, 0)
    return moved.reshape(len(moved), -1)


def _parts(rows: int, groups: int) -> Iterator[slice]:
    yield from (slice(k * rows // groups, (k + 1) * rows // groups) for k in range(groups))
