"""Other ways to quantize a model, tried: how near the outputs are, how large the model is, how long a call takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from forge.driver import CompiledModel, check_options, compile_module
from forge.driver.latency import measure
from forge.errors import OptionError
from forge.ir.graph import Module
from forge.progress import Progress
from forge.quantization.chosen.scheme import Scheme, written
from forge.quantization.chosen.sensitivity import Exclusion
from forge.quantization.observed.calibration import Sample
from forge.quantization.places.pairing import pairs_of
from forge.quantization.places.products import products
from forge.quantization.quantize import EXCLUDED, Quantized, quantize
from forge.quantization.reports.analysis import OutputSums
from forge.quantization.weights.codes import Weight
from forge_runtime import Runtime

MIN_GAIN = 0.5
"""In dB: less is no reason to leave a layer in float."""
MIN_ROUNDS, MAX_ROUNDS = 5, 40


@dataclass(frozen=True)
class Variant:
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
class Candidate:
    """Arguments that are others than those of the scheme, and layers to leave in float."""

    changes: Mapping[str, Any]
    excluded: tuple[int, ...] = ()

    def title(self, names: Mapping[int, str]) -> str:
        words = [written(name, value) for name, value in self.changes.items()]
        if self.excluded:
            words.append(written("exclude", [names[k] for k in self.excluded]))
        return (" " if words[0].startswith("--") else ", ").join(words)


def candidates(scheme: Scheme, exclusions: Sequence[Exclusion], layers: int) -> Iterator[Candidate]:
    """What is worth trying, the most promising first.

    Args:
        exclusions: as `sensitivity` finds them.
        layers: how many are quantized.
    """
    channels = {} if scheme.per_channel else {"per_channel": True}
    ranges = {} if scheme.calib_method == "mse" else {"calib_method": "mse"}
    lists = [e.numbers for e in exclusions if len(e.numbers) in (1, 2, 4, 8) and 2 * len(e.numbers) <= layers]
    found = [Candidate(channels), Candidate(channels, *lists[:1]), Candidate({}, *lists[:1]), Candidate({**channels, **ranges})]
    found += [Candidate(channels, numbers) for numbers in lists[1:]] + [Candidate(ranges)]
    found += [Candidate({"calib_method": m}) for m in ("minmax", "average", "percentile") if m != scheme.calib_method]
    if scheme.calib_method in ("average", "entropy", "percentile"):
        found.append(Candidate({"calib_guard": not scheme.calib_guard}))
    found.append(Candidate({"bias_correction": not scheme.bias_correction}))
    if scheme.kernel_dtype is None:
        other = "uint8" if scheme.activation_dtype == "int8" else "int8"
        found.append(Candidate({"activation_dtype": other, "kernel_dtype": "int8"}))
    seen: list[Candidate] = [Candidate({})]
    for candidate in found:
        if candidate not in seen:
            seen.append(candidate)
            yield candidate


@dataclass
class Trials:
    """Variants of one model, each compiled.

    Attributes:
        names: of layers, by number, as ``exclude`` takes them.
        weights: that were rounded with the fewest exclusions, by `Scheme.of_weights`.
    """

    real: Module
    scheme: Scheme
    names: Mapping[int, str]
    samples: Sequence[Sample]
    expected: Runtime
    variants: list[Variant]
    runtimes: list[Runtime]
    weights: dict[tuple[object, ...], Mapping[int, Weight]]

    @classmethod
    def of(cls, record: Quantized, samples: Sequence[Sample]) -> Trials:
        """With the float model, in float32 and if the CPU multiplies it in bfloat16, and the one that was quantized."""
        real, quantized, scheme = record.before, record.module, record.scheme
        names = {k: node.shown_name for k, node in enumerate(products(real.main))}
        compiled = _compiled(real)
        made = cls(real, scheme, names, samples, compiled.runtime(), [], [], {scheme.of_weights: record.weights})
        made._add(Variant("float32", None, (), 0, None, None, 0), compiled)
        if check_options().layouts.group_size("bfloat16", "bfloat16") > 1:
            made._add(Variant("bfloat16", None, (), 0, None, None, 0), _compiled(real, bfloat16=True))
        chosen = Variant("as quantized", {}, (), len(pairs_of(real, quantized)), None, None, 0, is_chosen=True)
        made._add(chosen, _compiled(quantized))
        return made

    def run(self, found: Iterator[Candidate], end: float, progress: Progress, most: int = 12) -> None:
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

    def _try(self, candidate: Candidate) -> None:
        try:
            scheme, kept = replace(self.scheme, **candidate.changes), dict.fromkeys(candidate.excluded, EXCLUDED)
            made = quantize(self.real, scheme, kept, self.weights.get(scheme.of_weights))
        except OptionError:
            return
        if candidate.excluded == ():
            self.weights.setdefault(scheme.of_weights, made.weights)
        count = len(pairs_of(self.real, made.module))
        excluded = [self.names[k] for k in candidate.excluded]
        arguments = {**candidate.changes, **({"exclude": excluded} if excluded else {})}
        title = candidate.title(self.names)
        self._add(Variant(title, arguments, candidate.excluded, count, None, None, 0), _compiled(made.module))

    def _add(self, variant: Variant, compiled: CompiledModel) -> None:
        runtime = compiled.runtime()
        sums = OutputSums.of(self.real)
        for sample in self.samples:
            sums.add(_run(self.expected, sample), _run(runtime, sample))
        size = compiled.weights.size + sum(map(len, compiled.objects))
        self.variants.append(replace(variant, sqnr=sums.sqnr, agreement=sums.agreement, bytes=size))
        self.runtimes.append(runtime)

    def timed(self, seconds: float) -> list[Variant]:
        """The variants with the times of calls, which take turns for about ``seconds``."""
        sample = self.samples[0]
        calls = {str(k): _call(runtime, sample) for k, runtime in enumerate(self.runtimes)}
        start = time.perf_counter()
        for call in calls.values():
            call()
        once = max(time.perf_counter() - start, 4e-3 * len(calls))
        rounds = max(MIN_ROUNDS, min(MAX_ROUNDS, int(seconds / (2 * once))))
        found = measure(calls, rounds)
        return marked_best([replace(v, seconds=found[str(k)].median) for k, v in enumerate(self.variants)])


def _compiled(module: Module, bfloat16: bool = False) -> CompiledModel:
    return compile_module(module, check_options(bfloat16=bfloat16), name="variant")


def _run(runtime: Runtime, sample: Sample) -> Any:
    return runtime.run([sample[name] for name in runtime.input_names])


def _call(runtime: Runtime, sample: Sample) -> Callable[[], object]:
    arrays = [sample[name] for name in runtime.input_names]
    return lambda: runtime.run(arrays)


def marked_best(variants: Sequence[Variant]) -> list[Variant]:
    """The same, with `Variant.is_best` set."""
    return [replace(v, is_best=not any(_beats(other, v) for other in variants)) for v in variants]


def _beats(one: Variant, other: Variant) -> bool:
    pairs = list(zip(_costs(one), _costs(other)))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _costs(variant: Variant) -> tuple[float, float, float]:
    return -(variant.sqnr if variant.sqnr is not None else 0.0), variant.bytes, variant.seconds
