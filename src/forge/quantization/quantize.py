"""A float model becomes a quantized one."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from forge.driver import check_options, optimized_graph
from forge.driver.compilation import bind_params
from forge.errors import OptionError
from forge.ir.edits import journal
from forge.ir.edits.dead_code import remove_dead
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.quantized import is_quantized
from forge.ir.saved import hashing
from forge.ir.saved.statistics import Statistics
from forge.progress import Progress
from forge.quantization.chosen.scheme import Scheme
from forge.quantization.observed.calibration import KEPT_SAMPLES, Observer, Sample
from forge.quantization.observed.ranges import Codes, codes_of, joined, range_of
from forge.quantization.places import insertion, recurrent
from forge.quantization.places.layers import Excluded, Layer, Sites, is_depthwise, layer_of, layers_of, left_out, sites_of
from forge.quantization.places.products import is_recurrent, products
from forge.quantization.weights import correction, equalization
from forge.quantization.weights.codes import Weight, quantized_weight
from forge.quantization.weights.compensation import compensated_weights

STAGE, STAGE_OF_ROWS = "to_integers", "pack_blocks"


@dataclass
class Plan:
    """How the layers of ``graph`` are quantized.

    Attributes:
        statistics: of values of the graph.
        static: layers whose data have ranges that are known.
        dynamic: layers whose data get theirs in each call.
        left: reasons why layers stay in float, by layer.
        weights: of layers whose weights are not rounded to the nearest, by layer.
        recurrent: recurrent layers, and whether they round their data.
    """

    graph: Graph
    scheme: Scheme
    statistics: Mapping[Value, Statistics]
    static: list[Layer] = field(default_factory=list)
    dynamic: list[Layer] = field(default_factory=list)
    left: dict[Layer, str] = field(default_factory=dict)
    weights: dict[Layer, Weight] = field(default_factory=dict)
    recurrent: dict[Node, bool] = field(default_factory=dict)

    @property
    def layers(self) -> list[Layer]:
        return [*self.static, *self.dynamic]


def statistics_of(module: Module) -> dict[Value, Statistics]:
    """What calibration knows of the values of ``main`` as they are now."""
    statistics = module.calibration.statistics
    if not statistics:
        return {}
    return {value: statistics[digest] for value, digest in hashing.value_digests(module).items() if digest in statistics}


def values_of(graph: Graph) -> list[Value]:
    """Inputs and results in order, which is the same in copies."""
    return [*graph.inputs, *(v for node in graph.nodes for v in node.results)]


def plan(graph: Graph, scheme: Scheme, statistics: Mapping[Value, Statistics], left: Mapping[int, str] | None = None) -> Plan:
    """How the layers of ``graph`` are quantized.

    Args:
        left: reasons why layers stay in float, by their number among `products`.

    Raises:
        OptionError: ``static``, and layers have no statistics; all are named.
    """
    made = Plan(graph, scheme, statistics)
    layers, numbers = layers_of(graph), {node: k for k, node in enumerate(products(graph))}
    sites = sites_of(layers)
    for layer in layers:
        reason, known = _missing(sites, statistics, layer), (left or {}).get(numbers[layer.node], "")
        if known:
            made.left[layer] = known
        elif not reason and scheme.quant_type != "dynamic":
            made.static.append(layer)
        elif scheme.quant_type == "static" or layer.weight is None:
            made.left[layer] = reason or "products of two activations have static ranges only"
        else:
            made.dynamic.append(layer)
    unknown = [layer.label for layer, reason in made.left.items() if reason.startswith(NO_STATISTICS)]
    if scheme.quant_type == "static" and unknown:
        names = ", ".join(unknown)
        raise OptionError(f"quantize: static: layers without statistics: {names}; calibrate the model first, or give calib_data")
    return made


NO_STATISTICS = "no statistics of"
EXCLUDED = "excluded"


def _missing(sites: Sites, statistics: Mapping[Value, Statistics], layer: Layer) -> str:
    """Why there are no static ranges for the data of a layer."""
    for value in (v for values in sites.of[layer] for source in values for v in sites.groups[source]):
        found = statistics.get(value)
        if found is None or not found.calls:
            return f"{NO_STATISTICS} {value.label}"
        if not found.is_finite:
            return f"{value.label} is not finite in a sample"
    return ""


def apply(made: Plan) -> None:
    """Quantizes ``made.graph``, in place."""
    scheme, graph = made.scheme, made.graph
    weights = {layer: made.weights.get(layer) or weight_of(layer, scheme) for layer in made.layers if layer.weight is not None}
    sites = sites_of(made.static)
    insertion.Insertion(graph, sites, codes_by_value(made, sites), weights, scheme.bias_dtype or "int32").run()
    for layer in made.dynamic:
        insertion.round_at_run_time(graph, layer, scheme.activation_dtype)
    recurrent.replace(graph, made.recurrent.items())
    graph.sort()
    remove_dead(graph)


def codes_by_value(made: Plan, sites: Sites) -> dict[Value, Codes]:
    """Of the values that are rounded."""
    found: dict[Value, Codes] = {}
    for value, group in sites.groups.items():
        if value not in found and all(v in made.statistics for v in group):
            statistics = joined([made.statistics[v] for v in group])
            found_range = range_of(statistics, made.scheme.calib_method, made.scheme.calib_guard)
            codes = codes_of(found_range, made.scheme.activation_dtype, made.scheme.symmetric)
            found.update(dict.fromkeys(group, codes))
    return found


def weight_of(layer: Layer, scheme: Scheme) -> Weight:
    weight = layer.weight
    assert weight is not None and weight.constant is not None and layer.axis is not None
    per_channel = scheme.per_channel or is_depthwise(layer)
    return quantized_weight(np.asarray(weight.constant), layer.axis, scheme.weights, per_channel)


@dataclass
class Quantized:
    """A quantized module.

    Attributes:
        before: what it was made of, with ``params`` as constants.
        real: the same with its channels equalized.
        left: reasons why layers stay in float, by label.
        weights: those that are not rounded to the nearest, by number of the layer among `products`.
    """

    module: Module
    before: Module
    real: Module
    scheme: Scheme
    left: dict[str, str]
    weights: Mapping[int, Weight]

    def __post_init__(self) -> None:
        self._fingerprint = hashing.fingerprint(self.module)

    def is_of(self, module: Module) -> bool:
        """Whether ``module`` is what was made then."""
        return hashing.fingerprint(module) == self._fingerprint


def quantize(module: Module, scheme: Scheme, kept: Mapping[int, str] | None = None,
             weights: Mapping[int, Weight] | None = None, progress: Progress | None = None) -> Quantized:
    """A quantized copy of ``module``.

    Args:
        kept: reasons why layers stay in float, by their number among `products`.
        weights: `Quantized.weights` of the same module, with a scheme that differs in nothing that weights depend on, and with at
            least these layers quantized; None: they are computed.
        progress: told how many weights are rounded.

    Raises:
        OptionError: as `plan`, or it is quantized already.
    """
    if any(is_quantized(node) for node in module.main.walk()):
        raise OptionError("quantize: the model is quantized already; expected a float model: reload() or load it again")
    base = module.copy()
    statistics = dict(zip(values_of(base.main), map(statistics_of(module).get, values_of(module.main))))
    known = {value: s for value, s in statistics.items() if s is not None}
    bind_params(base.main)
    kept = {**excluded(base.main, scheme.exclude), **(kept or {})}
    before = base.copy()
    if scheme.equalize:
        equalization.equalize(base.main, known, scheme.per_channel)
        _count_again(base, scheme, known)
    samples = module.calibration.samples
    cells = recurrent.choices(base, scheme, kept, samples)
    planned = functools.partial(_planned, base, scheme, known, cells.rounds_data)
    found, made = planned(kept)
    reasons = {**kept, **declined(found, made)}
    if len(reasons) > len(kept):
        found, made = planned(reasons)
    weighted = _weighted(made)
    if weights is None:
        weights = _compensated(base, scheme, weighted, samples, progress) if scheme.gptq else {}
    weights = {k: weight for k, weight in weights.items() if k in weighted}
    if weights:
        found, made = planned(reasons, weights)
    if scheme.bias_correction and samples and weighted:
        deltas = correction.corrections(base, found, weighted, samples[:KEPT_SAMPLES])
        found, made = planned(reasons, weights, deltas)
    _keep_statistics(base, known, found)
    left = {layer.label: reason for layer, reason in made.left.items()}
    left |= {products(base.main)[k].label: reason for k, reason in cells.left.items()}
    return Quantized(found, before, base, scheme, left, weights)


def _count_again(base: Module, scheme: Scheme, known: dict[Value, Statistics]) -> None:
    """Histograms, on the samples that calibration kept, of values whose channels were equalized, for methods that cut by them."""
    lost = {v: s.channel_axis for v, s in known.items() if s.calls and not s.histogram.counts.any()}
    samples = base.calibration.samples
    if not lost or not samples or scheme.calib_method == "minmax" or scheme.calib_method == "average" and scheme.calib_guard:
        return
    observer = Observer.of(base, lost)
    for sample in samples:
        observer.add(sample)
    for value, found in observer.found.items():
        known[value] = replace(known[value], calls=found.calls, low_sum=found.low_sum, high_sum=found.high_sum,
                               histogram=found.histogram)


def excluded(graph: Graph, exclude: Sequence[Excluded]) -> dict[int, str]:
    """Why layers stay in float that are excluded, by their number among `products`; raises as `left_out`."""
    found = left_out(graph, exclude, [node for node in graph.nodes if layer_of(node) is not None or is_recurrent(node)])
    return {k: EXCLUDED for k, node in enumerate(products(graph)) if node in found}


def _compensated(base: Module, scheme: Scheme, numbers: Sequence[int], samples: Sequence[Sample],
                 progress: Progress | None) -> dict[int, Weight]:
    """Weights that are better than those rounded to the nearest, by number of the layer."""
    layers = {layer: k for k, layer in _numbered(layers_of(base.main)).items() if k in numbers}
    nearest = {layer: weight_of(layer, scheme) for layer in layers}
    return {layers[layer]: weight for layer, weight in compensated_weights(base, nearest, samples, progress).items()}


def _keep_statistics(base: Module, known: Mapping[Value, Statistics], found: Module) -> None:
    """``base`` has statistics by the digests of its values; ``found`` those that are still of its own."""
    digests = hashing.value_digests(base)
    base.calibration = replace(base.calibration, statistics={digests[value]: s for value, s in known.items() if value in digests})
    present = set(hashing.value_digests(found).values())
    kept = {digest: s for digest, s in base.calibration.statistics.items() if digest in present}
    found.calibration = replace(base.calibration, statistics=kept)


def _planned(base: Module, scheme: Scheme, statistics: Mapping[Value, Statistics], cells: Mapping[int, bool],
             left: Mapping[int, str], weights: Mapping[int, Weight] = MappingProxyType({}),
             deltas: Mapping[int, np.ndarray] = MappingProxyType({}),
             ) -> tuple[Module, Plan]:
    """A quantized copy.

    Args:
        cells: recurrent layers, as `recurrent.Choices.rounds_data` has them.
        weights: those that are not rounded to the nearest.
        deltas: what is added to biases.
    """
    changed = base.copy()
    known = dict(zip(values_of(base.main), values_of(changed.main), strict=True))
    moved = {known[value]: s for value, s in statistics.items()}
    made = plan(changed.main, scheme, moved, left)
    made.recurrent = {products(changed.main)[k]: rounds_data for k, rounds_data in cells.items()}
    layers = _numbered(made.layers)
    made.weights = {layers[k]: weight for k, weight in weights.items()}
    for number, delta in deltas.items():
        layer = layers[number]
        biased = correction.add_to_bias(layer, delta)
        if layer.result in moved:
            moved[biased] = moved[layer.result]
    apply(made)
    return changed, made


def _numbered(layers: Iterable[Layer]) -> dict[int, Layer]:
    """Layers of one graph by their number among `products`."""
    by_node = {layer.node: layer for layer in layers}
    graph = next((node.graph for node in by_node), None)
    nodes = [] if graph is None else products(graph)
    return {k: by_node[node] for k, node in enumerate(nodes) if node in by_node}


def _weighted(made: Plan) -> list[int]:
    """Numbers of the layers that have weights."""
    return [k for k, layer in _numbered(made.layers).items() if layer.weight is not None]


def declined(module: Module, made: Plan) -> dict[int, str]:
    """Why layers would be computed with real numbers between conversions, by their number among `products`.

    Layers whose data have a scale for each row are the next stage's.
    """
    numbers = {node: k for k, node in enumerate(products(made.graph))}
    static, dynamic = ({numbers[layer.node] for layer in layers} for layers in (made.static, made.dynamic))
    found = {k: reason for k, reason in _left(module, STAGE).items() if k in static | dynamic}
    if found.keys() & dynamic:
        rows = _left(module, STAGE_OF_ROWS)
        found = {k: rows.get(k, "") or reason for k, reason in found.items() if k in static or k in rows}
    return {k: reason or "no kernel for integers" for k, reason in sorted(found.items())}


def _left(module: Module, stage: str) -> dict[int, str]:
    """Products that are there after a stage as they were before, and why."""
    marked = module.copy()
    marks = {f"product {k}": k for k, _ in enumerate(products(marked.main))}
    for mark, node in zip(marks, products(marked.main)):
        node.origin = (*node.origin, mark)
    with journal.recorded() as kept:
        optimized = optimized_graph(marked, check_options(), stop_after=stage)
    reasons = {a.node.origin[-1]: a.reason for a in kept.declined() if a.stage == stage and a.node.origin}
    left = [n.origin[-1] for n in optimized.nodes if n.origin and n.origin[-1] in marks]
    return {marks[mark]: reasons.get(mark, "") for mark in left}
