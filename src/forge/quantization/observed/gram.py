"""Gram matrices of layers: sums of ``x x^T`` over what the rows of a weight are multiplied by, on samples.

For a convolution, x are the elements of a window in the order of the weight's (channels of one group, then the window).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from forge import dims, dtypes
from forge.errors import InputError
from forge.ir.edits.extract import extract
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ops.core.window_geometry import sliding_windows
from forge.ops.nn.convolution import Conv
from forge.ops.nn.matmul import Dense, Matmul
from forge.options import CompileOptions
from forge.quantization.observed.calibration import Sample
from forge.quantization.observed.trial import trial_of
from forge.quantization.places.layers import FloatLayer

MAX_BYTES = 256 << 20
"""Of the matrices that are summed in one run over the samples; a larger one gets a run of its own."""
MAX_DEPTH = 11_585
"""A matrix of this depth has 1 GiB."""
CHUNK = 1 << 23
"""Elements of windows that are copied at a time."""


def sums_windows(layer: FloatLayer) -> bool:
    """Returns whether ``layer`` has Gram matrices: a dense layer or a convolution, of a depth that memory allows."""
    return layer.weight is not None and bool(Conv.of(layer.node) or Dense.of(layer.node) or Matmul.of(layer.node)) \
        and layer.depth <= MAX_DEPTH


def batches(layers: Iterable[FloatLayer], itemsize: int = 8) -> Iterator[list[FloatLayer]]:
    """Yields layers whose matrices have at most `MAX_BYTES` together, or one layer; those of the same inputs stay together."""
    by_input: dict[tuple[Value, bool], list[FloatLayer]] = {}
    for layer in layers:
        by_input.setdefault((layer.inputs[0], Conv.of(layer.node) is not None), []).append(layer)
    batch: list[FloatLayer] = []
    held = 0
    for same in by_input.values():
        size = max(itemsize * layer.groups * layer.depth**2 for layer in same)
        if batch and held + size > MAX_BYTES:
            yield batch
            batch, held = [], 0
        batch, held = batch + same, held + size
    if batch:
        yield batch


def gram_matrices(
    module: Module, layers: Sequence[FloatLayer], samples: Iterable[Sample], options: CompileOptions
) -> dict[FloatLayer, np.ndarray]:
    """Computes the Gram matrices ``[groups, K, K]`` of layers in float64; dense layers of the same inputs share one array.

    Args:
        layers: of ``module.main``, with `sums_windows`.
        options: of the model that computes what the layers read.

    Raises:
        InputError: no sample is given, or an input of a layer is not finite.
    """
    found: dict[object, np.ndarray] = {}
    by_key = {key_of(layer): layer for layer in layers}
    for arrays in layer_inputs(module, layers, samples, options):
        for key, layer in by_key.items():
            product = gram_matrix(layer, arrays[layer.inputs[0]])
            if not np.isfinite(np.einsum("gkk->", product)):
                raise InputError(f"samples: the input of {layer.label} is not finite; expected finite numbers")
            found[key] = found[key] + product if key in found else product.astype(np.float64)
    if not found and layers:
        raise InputError("samples: got none; expected one or more")
    return {layer: found[key_of(layer)] for layer in layers}


def key_of(layer: FloatLayer) -> object:
    """Returns what is equal for layers that read the same rows."""
    return layer if Conv.of(layer.node) else layer.inputs[0]


def layer_inputs(
    module: Module, layers: Sequence[FloatLayer], samples: Iterable[Sample], options: CompileOptions
) -> Iterator[Mapping[Value, np.ndarray]]:
    """Yields the arrays that layers of ``main`` read, for each sample."""
    values = list(dict.fromkeys(layer.inputs[0] for layer in layers))
    made = [v for v in values if v not in module.main.inputs]
    run = None
    if made:
        observed = module.with_main(extract(module.main, made))
        observed.params = {k: a for k, a in module.params.items() if k in {v.name for v in observed.main.inputs}}
        run = trial_of(observed, options, "layer_inputs")
    for sample in samples:
        given = {**_empty_states(module.main, sample), **module.params, **sample}
        results = [] if run is None else run(given)
        yield {**{v: np.asarray(given[v.name]) for v in values if v not in made}, **dict(zip(made, results))}


def _empty_states(graph: Graph, sample: Sample) -> dict[str, np.ndarray]:
    """States that samples lack: zeros, of sizes that only states have none."""
    missing = [v for v in graph.inputs if v.name in graph.states and v.name not in sample]
    sizes: dict[str, int] = {}
    for value in graph.inputs if missing else ():
        if value.name in sample:
            solved = (dims.solve(d, n) for d, n in zip(value.shape, np.shape(sample[value.name])) if not isinstance(d, int))
            sizes.update(pair for pair in solved if pair is not None)
    return {v.name: np.zeros([_size(d, sizes) for d in v.shape], dtypes.numpy_dtype(v.dtype)) for v in missing}


def _size(dim: dims.Dim, sizes: Mapping[str, int]) -> int:
    return int(dims.evaluate(dim, {**dict.fromkeys(dims.symbols(dim), 0), **sizes}))


def gram_matrix(layer: FloatLayer, data: np.ndarray, most: int | None = None) -> np.ndarray:
    """Returns ``[groups, K, K]``, float32, for the input of a layer; ``most`` as of `rows_of`."""
    total = np.zeros((layer.groups, layer.depth, layer.depth), np.float32)
    for rows in rows_of(layer, data, most):
        total += np.matmul(rows.swapaxes(1, 2), rows)
    return total


def rows_of(layer: FloatLayer, data: np.ndarray, most: int | None = None) -> Iterator[np.ndarray]:
    """Yields ``[groups, n, K]``, the vectors that each row of the weight is multiplied by, in parts.

    Args:
        data: the layer's input.
        most: of convolutions, windows at distances are taken, of other layers rows, so that there are about as many.
    """
    conv = Conv.of(layer.node)
    if conv is not None:
        yield from _windows(conv, data, layer.groups, layer.depth, most)
        return
    rows = np.asarray(data, np.float32).reshape(1, -1, layer.depth)
    yield rows[:, :: 1 if most is None else max(1, rows.shape[1] // most)]


def _windows(conv: Conv, data: np.ndarray, groups: int, depth: int, most: int | None) -> Iterator[np.ndarray]:
    """Yields the windows ``[groups, positions, K]`` of one element of the batch, or of a part of it, after another."""
    shape = conv.shape(data.shape, conv.weight.shape, conv.attrs)
    axes = range(2, data.ndim)
    counts = [tap.positions(data.shape[axis]) for axis, tap in zip(axes, shape.taps)]
    view = sliding_windows(np.asarray(data, np.float32), axes, shape.taps, counts, conv.attrs.pad_value)
    spatial = len(shape.taps)
    if most is not None:
        apart = max(1, int((len(data) * np.prod(counts) / most) ** (1 / spatial)))
        view = view[(slice(None), slice(None), *[slice(None, None, apart)] * spatial)]
        counts = list(view.shape[2 : 2 + spatial])
    step = max(1, CHUNK // max(1, groups * depth * int(np.prod(counts[1:]))))
    for image in view:
        for first in range(0, counts[0], step):
            part = image[:, first : first + step]
            by_group = part.reshape(groups, part.shape[0] // groups, *part.shape[1:])
            order = (0, *range(2, 2 + spatial), 1, *range(2 + spatial, 2 + 2 * spatial))
            yield by_group.transpose(order).reshape(groups, -1, depth)
