"""Other ways to quantize a model, tried: how near the outputs are, how large the model is, how long a call takes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from forge.driver import CompiledModel, compile_module
from forge.driver.latency import measure
from forge.errors import OptionError
from forge.ir.graph import Module
from forge.options import CompileOptions
from forge.progress import Progress
from forge.quantization.chosen.scheme import QuantizationScheme, written
from forge.quantization.chosen.sensitivity import Exclusion
from forge.quantization.observed.calibration import Sample
from forge.quantization.places.layers import EXCLUDED
from forge.quantization.places.pairing import pairs_of
from forge.quantization.places.products import products
from forge.quantization.quantize import QuantizedModule, quantize
from forge.quantization.reports.analysis import OutputSums
from forge_runtime import Runtime

MIN_GAIN = 0.5
"""In dB: a layer is not left in float for less."""
MIN_ROUNDS, MAX_ROUNDS = 5, 40


@dataclass(frozen=True)
class ModelVariant:
    """A float model, or quantized in one way.

    Attributes:
        title: what makes it another: arguments of ``quantize``, as they are written.
        arguments: the same, by name; of excluded layers, their names. None: it is not quantized.
        excluded: numbers of the layers that it leaves real besides those that all do.
        layers: how many are quantized.
        sqnr, agreement: of the worst output.
        bytes: code and weights.
        seconds: median of a call; 0: not measured.
        is_chosen: it is what was quantized.
        is_best: no other is as near, as small and as fast, and better in one of these.
    """

    title: str
    arguments: Mapping[str, Any] | None
    excluded: tuple[int, ...]
    layers: int
    sqnr: float | None
    agreement: float | None
    bytes: int
    seconds: float = 0.0
    is_chosen: bool = False
    is_best: bool = False


@dataclass(frozen=True)
class Proposal:
    """Arguments that are others than those of the scheme, and layers to leave in float."""

    changes: Mapping[str, Any]
    excluded: tuple[int, ...] = ()

    def title(self, names: Mapping[int, str]) -> str:
        words = [written(name, value) for name, value in self.changes.items()]
        if self.excluded:
            words.append(written("exclude", [names[k] for k in self.excluded]))
        return (" " if words[0].startswith("--") else ", ").join(words)


def candidates(scheme: QuantizationScheme, exclusions: Sequence[Exclusion], layers: int) -> Iterator[Proposal]:
    """Yields what is worth trying, the most promising first.

    Args:
        exclusions: as `sensitivity` finds them.
        layers: how many are quantized.
    """
    channels = {} if scheme.per_channel else {"per_channel": True}
    ranges = {} if scheme.calib_method == "mse" else {"calib_method": "mse"}
    lists = [e.numbers for e in exclusions if len(e.numbers) in (1, 2, 4, 8) and 2 * len(e.numbers) <= layers]
    found = [Proposal(channels), Proposal(channels, *lists[:1]), Proposal({}, *lists[:1]), Proposal({**channels, **ranges})]
    found += [Proposal(channels, numbers) for numbers in lists[1:]] + [Proposal(ranges)]
    found += [Proposal({"calib_method": m}) for m in ("minmax", "average", "percentile") if m != scheme.calib_method]
    if scheme.calib_method in ("average", "entropy", "percentile"):
        found.append(Proposal({"calib_guard": not scheme.calib_guard}))
    found.append(Proposal({"bias_correction": not scheme.bias_correction}))
    if scheme.kernel_dtype is None:
        other = "uint8" if scheme.activation_dtype == "int8" else "int8"
        found.append(Proposal({"activation_dtype": other, "kernel_dtype": "int8"}))
    seen: list[Proposal] = [Proposal({})]
    for candidate in found:
        if candidate not in seen:
            seen.append(candidate)
            yield candidate


class Trials:
    """Variants of one model, each compiled.

    Attributes:
        record: the model that they are compared with.
        names: of layers, by number, as ``exclude`` takes them.
        weights: that were rounded with the fewest exclusions, by `QuantizationScheme.of_weights`.
    """

    def __init__(self, record: QuantizedModule, samples: Sequence[Sample]) -> None:
        """Compiles the float model, in float32 and if the CPU multiplies it in bfloat16, and the one that was quantized."""
        real, options = record.before, record.options
        compiled = _compiled(real, options)
        self.record, self.samples, self.expected = record, samples, compiled.runtime()
        self.names = {k: node.shown_name for k, node in enumerate(products(real.main))}
        self.variants: list[ModelVariant] = []
        self.runtimes: list[Runtime] = []
        self.weights = {record.scheme.of_weights: record.weights}
        self._add("float32", compiled, real)
        if options.layouts.group_size("bfloat16", "bfloat16") > 1:
            self._add("bfloat16", _compiled(real, replace(options, bfloat16=True)), real)
        self._add("as quantized", _compiled(record.module, options), record.module, {}, is_chosen=True)

    def run(self, found: Iterator[Proposal], end: float, progress: Progress, most: int = 12) -> None:
        """Tries candidates until the time is over, each only if the time that the last one took is left."""
        took = 0.0
        for number, candidate in enumerate(found):
            start = time.perf_counter()
            if start + took > end or number >= most:
                break
            progress("variants", number, most)
            self._try(candidate)
            took = time.perf_counter() - start
        progress("variants", most, most)

    def _try(self, candidate: Proposal) -> None:
        record = self.record
        try:
            scheme, kept = replace(record.scheme, **candidate.changes), dict.fromkeys(candidate.excluded, EXCLUDED)
            made = quantize(record.before, scheme, record.options, kept, self.weights.get(scheme.of_weights))
        except OptionError:
            return
        if candidate.excluded == ():
            self.weights.setdefault(scheme.of_weights, made.weights)
        excluded = [self.names[k] for k in candidate.excluded]
        arguments = {**candidate.changes, **({"exclude": excluded} if excluded else {})}
        compiled = _compiled(made.module, record.options)
        self._add(candidate.title(self.names), compiled, made.module, arguments, candidate.excluded)

    def _add(self, title: str, compiled: CompiledModel, module: Module, arguments: Mapping[str, Any] | None = None,
             excluded: tuple[int, ...] = (), is_chosen: bool = False) -> None:
        real, runtime = self.record.before, compiled.runtime()
        sums = OutputSums.of(real)
        for sample in self.samples:
            sums.add(self.expected.run(sample), runtime.run(sample))
        found, size = sums.analysis(), compiled.weights.size + sum(map(len, compiled.objects))
        layers = len(pairs_of(real, module))
        self.variants.append(
            ModelVariant(title, arguments, excluded, layers, found.sqnr, found.agreement, size, is_chosen=is_chosen))
        self.runtimes.append(runtime)

    def timed(self, seconds: float) -> list[ModelVariant]:
        """Returns the variants with the times of calls, which take turns for about ``seconds``."""
        calls = {str(k): partial(runtime.run, self.samples[0]) for k, runtime in enumerate(self.runtimes)}
        start = time.perf_counter()
        for call in calls.values():
            call()
        once = max(time.perf_counter() - start, 4e-3 * len(calls))
        rounds = max(MIN_ROUNDS, min(MAX_ROUNDS, int(seconds / (2 * once))))
        found = measure(calls, rounds)
        return marked_best([replace(v, seconds=found[str(k)].median) for k, v in enumerate(self.variants)])


def _compiled(module: Module, options: CompileOptions) -> CompiledModel:
    return compile_module(module, options, name="variant")


def marked_best(variants: Sequence[ModelVariant]) -> list[ModelVariant]:
    """Returns the variants with `ModelVariant.is_best` set."""
    return [replace(v, is_best=not any(_beats(other, v) for other in variants)) for v in variants]


def _beats(one: ModelVariant, other: ModelVariant) -> bool:
    pairs = list(zip(_costs(one), _costs(other)))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _costs(variant: ModelVariant) -> tuple[float, float, float]:
    return -(variant.sqnr if variant.sqnr is not None else 0.0), variant.bytes, variant.seconds
