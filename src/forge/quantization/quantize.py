"""A float model becomes a quantized one."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from forge.driver import optimized_graph
from forge.driver.compilation import bind_params
from forge.errors import OptionError
from forge.ir.edits import journal
from forge.ir.edits.dead_code import remove_dead
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ir.quantized import is_quantized
from forge.ir.saved import hashing
from forge.ir.saved.statistics import Statistics
from forge.options import CompileOptions
from forge.progress import Progress
from forge.quantization.chosen.scheme import QuantizationScheme
from forge.quantization.observed.calibration import KEPT_SAMPLES, Observer
from forge.quantization.observed.ranges import AffineCodes, choice_of, codes_of, joined
from forge.quantization.places import insertion, recurrent
from forge.quantization.places.layers import FloatLayer, Sites, excluded, is_depthwise, numbered_layers, sites_of
from forge.quantization.places.products import products
from forge.quantization.weights import correction, equalization
from forge.quantization.weights.codes import QuantizedWeight, quantized_weight
from forge.quantization.weights.compensation import compensated_weights

STAGE, STAGE_OF_ROWS = "to_integers", "pack_blocks"
NO_STATISTICS = "no statistics of"


@dataclass
class QuantizationPlan:
    """Choices for the layers of a graph, by their number among `products`.

    Attributes:
        layers: those that are quantized.
        dynamic: those of them whose data get their ranges in each call; the ranges of the others are known.
        left: reasons why other layers stay in float.
    """

    layers: dict[int, FloatLayer] = field(default_factory=dict)
    dynamic: set[int] = field(default_factory=set)
    left: dict[int, str] = field(default_factory=dict)

    @property
    def weighted(self) -> dict[int, FloatLayer]:
        """The quantized layers that have weights."""
        return {k: layer for k, layer in self.layers.items() if layer.weight is not None}


def statistics_of(module: Module) -> dict[Value, Statistics]:
    """Returns what calibration knows of the values of ``main`` as they are now."""
    statistics = module.calibration.statistics
    if not statistics:
        return {}
    return {value: statistics[digest] for value, digest in hashing.value_digests(module).items() if digest in statistics}


def plan(
    graph: Graph, scheme: QuantizationScheme, statistics: Mapping[Value, Statistics], left: Mapping[int, str]
) -> QuantizationPlan:
    """Decides how the layers of ``graph`` are quantized.

    Args:
        left: reasons why layers stay in float, by number.

    Raises:
        OptionError: ``static``, and layers have no statistics; all are named.
    """
    made, layers = QuantizationPlan(), numbered_layers(graph)
    sites = sites_of(layers.values())
    for number, layer in layers.items():
        reason, known = _missing(sites, statistics, layer), left.get(number, "")
        if known:
            made.left[number] = known
        elif not reason and scheme.quant_type != "dynamic":
            made.layers[number] = layer
        elif scheme.quant_type == "static" or layer.weight is None:
            made.left[number] = reason or "products of two activations have static ranges only"
        else:
            made.layers[number] = layer
            made.dynamic.add(number)
    unknown = [layers[k].label for k, reason in made.left.items() if reason.startswith(NO_STATISTICS)]
    if scheme.quant_type == "static" and unknown:
        names = ", ".join(unknown)
        raise OptionError(f"quantize: static: layers without statistics: {names}; calibrate the model first, or give calib_data")
    return made


def _missing(sites: Sites, statistics: Mapping[Value, Statistics], layer: FloatLayer) -> str:
    """Why there are no static ranges for the data of a layer."""
    for value in (v for values in sites.of[layer] for source in values for v in sites.groups[source]):
        found = statistics.get(value)
        if found is None or not found.calls:
            return f"{NO_STATISTICS} {value.label}"
        if not found.is_finite:
            return f"{value.label} is not finite in a sample"
    return ""


def codes_by_value(scheme: QuantizationScheme, statistics: Mapping[Value, Statistics], sites: Sites) -> dict[Value, AffineCodes]:
    """Returns codes for the values that are rounded, if they have statistics."""
    found: dict[Value, AffineCodes] = {}
    for value, group in sites.groups.items():
        if value not in found and all(v in statistics for v in group):
            choice = choice_of(joined([statistics[v] for v in group]), scheme.calib_method, scheme.calib_guard)
            found.update(dict.fromkeys(group, codes_of(choice.range, scheme.activation_dtype, scheme.symmetric)))
    return found


def weight_of(layer: FloatLayer, scheme: QuantizationScheme) -> QuantizedWeight:
    """Rounds the weight of a layer to the nearest codes."""
    assert layer.axis is not None
    return quantized_weight(layer.array, layer.axis, scheme.weights, scheme.per_channel or is_depthwise(layer))


@dataclass
class QuantizedModule:
    """A quantized module.

    Attributes:
        before: the float module that it was made of, with ``params`` as constants.
        real: the same with its channels equalized.
        options: of the compilation that it was made for.
        left: reasons why layers stay in float, by label.
        weights: those that are not rounded to the nearest, by number of the layer among `products`.
    """

    module: Module
    before: Module
    real: Module
    scheme: QuantizationScheme
    options: CompileOptions
    left: dict[str, str]
    weights: Mapping[int, QuantizedWeight]

    def __post_init__(self) -> None:
        self._fingerprint = hashing.fingerprint(self.module)

    def is_of(self, module: Module) -> bool:
        """Returns whether ``module`` is what was made then."""
        return hashing.fingerprint(module) == self._fingerprint


def quantize(
    module: Module, scheme: QuantizationScheme, options: CompileOptions, kept: Mapping[int, str] | None = None,
    weights: Mapping[int, QuantizedWeight] | None = None, progress: Progress | None = None,
) -> QuantizedModule:
    """Returns a quantized copy of ``module``.

    Args:
        options: of the compilation that it is for: layers that have no kernel for integers there stay in float, and models
            that measure losses are compiled so.
        kept: reasons why layers stay in float, by their number among `products`.
        weights: `QuantizedModule.weights` of the same module, with a scheme that differs in nothing that weights depend on, and
            with at least these layers quantized; None: they are computed.
        progress: told how many weights are rounded.

    Raises:
        OptionError: as `plan`, or it is quantized already.
    """
    if any(is_quantized(node) for node in module.main.walk()):
        raise OptionError("quantize: the model is quantized already; expected a float model: reload() or load it again")
    base = module.copy()
    statistics = dict(zip(base.main.values(), map(statistics_of(module).get, module.main.values())))
    known = {value: s for value, s in statistics.items() if s is not None}
    bind_params(base.main)
    kept = {**excluded(base.main, scheme.exclude), **(kept or {})}
    before = base.copy()
    if scheme.equalize:
        equalization.equalize(base.main, known, scheme.per_channel)
        _count_again(base, scheme, known, options)
    samples = module.calibration.samples
    cells = recurrent.choices(base, scheme, kept, samples, options)
    made = functools.partial(_quantized, base, scheme, known, cells.rounds_data)
    found, chosen = made(kept)
    reasons = {**kept, **declined(found, chosen, options)}
    if len(reasons) > len(kept):
        found, chosen = made(reasons)
    if weights is None:
        weights = _compensated(base, scheme, chosen.weighted, options, progress) if scheme.gptq else {}
    weights = {k: weight for k, weight in weights.items() if k in chosen.weighted}
    if weights:
        found, chosen = made(reasons, weights)
    if scheme.bias_correction and samples and chosen.weighted:
        deltas = correction.corrections(base, found, list(chosen.weighted), samples[:KEPT_SAMPLES], options)
        found, chosen = made(reasons, weights, deltas)
    _keep_statistics(base, known, found)
    left = {products(base.main)[k].label: reason for k, reason in {**chosen.left, **cells.left}.items()}
    return QuantizedModule(found, before, base, scheme, options, left, weights)


def _count_again(base: Module, scheme: QuantizationScheme, known: dict[Value, Statistics], options: CompileOptions) -> None:
    """Histograms, on the samples that calibration kept, of values whose channels were equalized, for methods that cut by them."""
    lost = {v: s.channel_axis for v, s in known.items() if s.calls and not s.histogram.counts.any()}
    samples = base.calibration.samples
    if not lost or not samples or scheme.calib_method == "minmax" or scheme.calib_method == "average" and scheme.calib_guard:
        return
    observer = Observer(base, lost, options)
    for sample in samples:
        observer.add(sample)
    for value, found in observer.found.items():
        known[value] = replace(known[value], calls=found.calls, low_sum=found.low_sum, high_sum=found.high_sum,
                               histogram=found.histogram)


def _compensated(base: Module, scheme: QuantizationScheme, numbers: Collection[int], options: CompileOptions,
                 progress: Progress | None) -> dict[int, QuantizedWeight]:
    """Weights that are better than those rounded to the nearest, by number of the layer."""
    layers = {layer: k for k, layer in numbered_layers(base.main).items() if k in numbers}
    nearest = {layer: weight_of(layer, scheme) for layer in layers}
    found = compensated_weights(base, nearest, base.calibration.samples, options, progress)
    return {layers[layer]: weight for layer, weight in found.items()}


def _keep_statistics(base: Module, known: Mapping[Value, Statistics], found: Module) -> None:
    """``base`` has statistics by the digests of its values; ``found`` those that are still of its own."""
    digests = hashing.value_digests(base)
    base.calibration = replace(base.calibration, statistics={digests[value]: s for value, s in known.items() if value in digests})
    present = set(hashing.value_digests(found).values())
    kept = {digest: s for digest, s in base.calibration.statistics.items() if digest in present}
    found.calibration = replace(base.calibration, statistics=kept)


def _quantized(
    base: Module, scheme: QuantizationScheme, statistics: Mapping[Value, Statistics], cells: Mapping[int, bool],
    left: Mapping[int, str], weights: Mapping[int, QuantizedWeight] | None = None, deltas: Mapping[int, np.ndarray] | None = None,
) -> tuple[Module, QuantizationPlan]:
    """A quantized copy.

    Args:
        cells: recurrent layers, as `RecurrentChoices.rounds_data` has them.
        weights: those that are not rounded to the nearest.
        deltas: added to biases.
    """
    changed = base.copy()
    graph, known = changed.main, dict(zip(base.main.values(), changed.main.values(), strict=True))
    moved = {known[value]: s for value, s in statistics.items()}
    made, nodes = plan(graph, scheme, moved, left), products(graph)
    for number, delta in (deltas or {}).items():
        result = made.layers[number].result
        biased = correction.add_to_bias(made.layers[number], delta)
        if result in moved:
            moved[biased] = moved[result]
    codes = {layer: (weights or {}).get(k) or weight_of(layer, scheme) for k, layer in made.weighted.items()}
    sites = sites_of(layer for k, layer in made.layers.items() if k not in made.dynamic)
    insertion.convert(graph, sites, codes_by_value(scheme, moved, sites), codes, scheme.bias_dtype or "int32")
    for number in made.dynamic:
        insertion.round_at_run_time(graph, made.layers[number], scheme.activation_dtype)
    recurrent.replace(graph, [(nodes[k], rounds_data) for k, rounds_data in cells.items()])
    graph.sort()
    remove_dead(graph)
    return changed, made


def declined(module: Module, made: QuantizationPlan, options: CompileOptions) -> dict[int, str]:
    """Returns why layers would be computed with real numbers between conversions, by their number among `products`.

    Layers whose data have a scale for each row are the next stage's.
    """
    found = {k: reason for k, reason in _left(module, STAGE, options).items() if k in made.layers}
    if found.keys() & made.dynamic:
        rows = _left(module, STAGE_OF_ROWS, options)
        found = {k: rows.get(k, "") or reason for k, reason in found.items() if k not in made.dynamic or k in rows}
    return {k: reason or "no kernel for integers" for k, reason in sorted(found.items())}


def _left(module: Module, stage: str, options: CompileOptions) -> dict[int, str]:
    """Products that are there after a stage as they were before, and why."""
    marked = module.copy()
    marks = {f"product {k}": k for k, _ in enumerate(products(marked.main))}
    for mark, node in zip(marks, products(marked.main)):
        node.origin = (*node.origin, mark)
    with journal.recorded() as kept:
        optimized = optimized_graph(marked, options, stop_after=stage)
    reasons = {a.node.origin[-1]: a.reason for a in kept.declined() if a.stage == stage and a.node.origin}
    left = [n.origin[-1] for n in optimized.nodes if n.origin and n.origin[-1] in marks]
    return {marks[mark]: reasons.get(mark, "") for mark in left}
