"""Weights whose roundings make up for one another in the results of their layer.

Scales stay those of rounding to the nearest; the codes are those of GPTQ (``rounding.compensated``), from what the layers read in
the float model. A layer gets them if they lose clearly less on samples that they were not made from.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from forge import dtypes
from forge.ir.graph import Module
from forge.options import CompileOptions
from forge.progress import Progress
from forge.quantization.observed import gram
from forge.quantization.observed.calibration import Sample
from forge.quantization.places.layers import FloatLayer, is_depthwise
from forge.quantization.weights.channels import from_rows, rows_of
from forge.quantization.weights.codes import QuantizedWeight
from forge.quantization.weights.rounding import Fit, Steps, compensated, joined

CHECKED = 4
"""One sample in this many is held out: what is gained is measured on these."""
GAIN = 0.9
"""Of the squared error of rounding to the nearest, the share that may be left at most."""
ROWS_PER_COLUMN, MIN_ROWS = 4, 8192
"""Rows of what a layer reads, of all samples, that are enough: for each column of its weight, and in all."""
MAX_DEPTH = 3072
"""Time grows with the cube of the depth: it is that of the second dense layer of BERT-base."""


def compensated_weights(
    module: Module, nearest: Mapping[FloatLayer, QuantizedWeight], samples: Sequence[Sample], options: CompileOptions,
    progress: Progress | None = None,
) -> dict[FloatLayer, QuantizedWeight]:
    """Rounds weights of layers of ``module`` so that errors make up for one another; returns those that gain.

    Args:
        nearest: the same weights, rounded to the nearest.
        options: of the model that computes what the layers read.
        progress: told how many layers are done.
    """
    found: dict[FloatLayer, QuantizedWeight] = {}
    numbers, total = itertools.count(1), sum(map(_is_tried, nearest))
    for batch in gram.batches(filter(_is_tried, nearest), itemsize=4) if len(samples) > 1 else ():
        known, held_out = _read(module, batch, samples, options)
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


def _is_tried(layer: FloatLayer) -> bool:
    """Depthwise convolutions have few columns and a scale for each row: they gain nothing."""
    return gram.sums_windows(layer) and not is_depthwise(layer) and layer.depth <= MAX_DEPTH


def _read(
    module: Module, layers: Sequence[FloatLayer], samples: Sequence[Sample], options: CompileOptions
) -> tuple[dict[object, np.ndarray], ...]:
    """Runs samples; by `gram.key_of`: Gram matrices ``[groups, K, K]``, and rows ``[groups, n, K]`` of those held out."""
    by_key = {gram.key_of(layer): layer for layer in layers}
    known: dict[object, np.ndarray] = {}
    held_out: dict[object, list[np.ndarray]] = {key: [] for key in by_key}
    for number, arrays in enumerate(gram.layer_inputs(module, layers, samples, options)):
        for key, layer in by_key.items():
            most = max(1, max(MIN_ROWS, ROWS_PER_COLUMN * layer.depth) // len(samples))
            data = arrays[layer.inputs[0]]
            if number % CHECKED == 1:
                held_out[key] += gram.rows_of(layer, data, most)
            else:
                known[key] = known.get(key, np.float32(0)) + gram.gram_matrix(layer, data, most)
    return known, {key: np.concatenate(several, axis=1) for key, several in held_out.items()}


def _weight(layer: FloatLayer, nearest: QuantizedWeight, matrices: np.ndarray) -> QuantizedWeight:
    rows = rows_of(np.asarray(layer.array, np.float32), nearest.axis)
    least, most = dtypes.integer_range(str(nearest.codes.dtype))
    columns = [np.broadcast_to(np.reshape(0 if a is None else a, (-1, 1)), (len(rows), 1)) for a in (nearest.scale, nearest.zero)]
    steps = [np.split(column.astype(np.float32), len(matrices)) for column in columns]
    parts = []
    for part, scale, zero, matrix in zip(np.split(rows, len(matrices)), *steps, matrices):
        given = Steps(scale, zero, -most if least < 0 else least, most)
        parts.append(compensated(part, matrix, rows.shape[1], _given(given)))
    codes = from_rows(joined(parts).codes, nearest.codes.shape, nearest.axis).astype(nearest.codes.dtype)
    return replace(nearest, codes=codes)


def _given(steps: Steps) -> Fit:
    return lambda blocks, importance: steps


def _loss(layer: FloatLayer, weight: QuantizedWeight, data: np.ndarray) -> float:
    """The sum of squared errors of the results."""
    lost = rows_of(weight.real - np.asarray(layer.array, np.float32), weight.axis)
    groups, _, depth = data.shape
    return float(np.square(data @ lost.reshape(groups, -1, depth).swapaxes(1, 2)).sum(dtype=np.float64))
