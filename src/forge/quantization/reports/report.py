"""All that is known of how a model was quantized: what it loses and where, what it takes, and what else could be done."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from forge import files
from forge.driver.layer_times import by_number, in_turns, marked, way
from forge.errors import OptionError
from forge.progress import Progress
from forge.quantization.chosen import rounding_errors, sensitivity, variants
from forge.quantization.chosen.rounding_errors import RoundedValue, WeightErrors
from forge.quantization.chosen.scheme import QuantizationScheme, written
from forge.quantization.chosen.sensitivity import Exclusion, LayerSensitivity, Sensitivity
from forge.quantization.chosen.variants import MIN_GAIN, ModelVariant, Proposal, Trials
from forge.quantization.observed.calibration import Sample
from forge.quantization.places.pairing import LayerPair, pairs_of
from forge.quantization.places.products import products
from forge.quantization.quantize import QuantizedModule
from forge.quantization.reports.analysis import LayerError, OutputError, analyse, is_near
from forge.quantization.reports.check import nothing_text
from forge.target import Target

FORMAT = 1
ENDINGS = (".html", ".json")
SHOWN = 10
"""Layers that a printed report shows."""
TIMED_SHARE = 0.15
"""Of the seconds of a report: for the times of layers, and for those of variants."""
NOT_SLOWER = 1.05
"""What an integer layer may take, next to the fastest other way, before leaving it in float is suggested."""


def record_of(ir: Any) -> QuantizedModule:
    """Returns what a module keeps of how it was quantized.

    Raises:
        OptionError: it was not, or has changed since.
    """
    kept: QuantizedModule | None = getattr(ir, "_quantization", None)
    if kept is None:
        raise OptionError("quantization_report: got a module that `quantize` did not make; expected one after ir.quantize(...)")
    if not kept.is_of(ir.mod):
        raise OptionError("quantization_report: got a module that has changed since `quantize`; expected it as it was then")
    return dataclasses.replace(kept, module=ir.mod)


@dataclass(frozen=True)
class LayerRow:
    """A quantized layer.

    Attributes:
        error: its own, in dB.
        only, without: of the outputs, in dB, if it alone is quantized, and if all other layers are; None: not measured.
        weight: what rounding its weight loses, by scales.
        seconds: in float32, bfloat16 and int8, where they were measured.
        values: positions in `Report.values` of what it reads.
        advice: what would bring it nearer.
    """

    number: int
    label: str
    name: str
    operator: str
    shapes: str
    error: LayerError
    only: float | None
    without: float | None
    weight: WeightErrors | None
    seconds: Mapping[str, float]
    values: tuple[int, ...]
    advice: str

    @property
    def size_text(self) -> str:
        return "-" if self.weight is None else f"{self.weight.bytes:,} \N{RIGHTWARDS ARROW} {self.weight.code_bytes:,}"


@dataclass(frozen=True)
class Suggestion:
    """``gain`` of the worst output in dB; ``measured``: by a model that was quantized so, else by one with switches."""

    text: str
    gain: float
    measured: bool


@dataclass(frozen=True)
class Report:
    """A quantized model next to the float one, and to others.

    Attributes:
        layers: those that were quantized, in order.
        left: reasons why others stayed real, by label.
        values: what is rounded, with histograms.
        exclusions: outputs if more and more layers stay in float, as `Sensitivity` has them.
        variants: what was tried; the first are not quantized.
        samples: how many were run.
    """

    name: str
    scheme: Mapping[str, Any]
    outputs: tuple[OutputError, ...]
    layers: tuple[LayerRow, ...]
    left: Mapping[str, str]
    values: tuple[RoundedValue, ...]
    exclusions: tuple[Exclusion, ...]
    variants: tuple[ModelVariant, ...]
    suggestions: tuple[Suggestion, ...]
    samples: int
    threads: int
    cpu: str

    @property
    def worst(self) -> list[LayerRow]:
        """Layers, those that cost the outputs most first."""
        return sorted(self.layers, key=lambda row: (-(row.without if row.without is not None else 0), row.error.alone))

    @property
    def chosen(self) -> ModelVariant | None:
        """The model as it was quantized, if variants were tried."""
        return next((v for v in self.variants if v.is_chosen), None)

    @property
    def warnings(self) -> list[str]:
        """No quantized layer; outputs that are far from those of the float model, with the layers that cost most."""
        if not self.layers:
            return [nothing_text(self.left)]
        far = [o for o in self.outputs if not is_near(o.sqnr, o.agreement)]
        found = [f"output {o.name}: {decibel_text(o.sqnr)} dB, arg max agrees: {share_text(o.agreement)}" for o in far]
        if not found:
            return []
        costly = [f"{row.label}{f' ({row.advice})' if row.advice else ''}" for row in self.worst[:3]]
        return [*found, f"the layers that cost most: {'; '.join(costly)}"]

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as ``json`` writes it."""
        content: dict[str, Any] = json.loads(json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, allow_nan=False))
        return content

    def to_html(self) -> str:
        """Returns one page that loads nothing."""
        from forge.quantization.reports.page import page

        return page(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a page (``.html``) or JSON (``.json``), whole or not at all.

        Raises:
            OptionError: the path has another ending, or is none; OutputPathError: it cannot be written.
        """
        with files.writing("quantization_report", path):
            ending = Path(path).suffix.lower()
            if ending not in ENDINGS:
                raise OptionError(f"quantization_report: got {os.fspath(path)!r}; expected a path that ends in .html or .json")
            with files.replacing(Path(path)) as stream:
                stream.write(self.text(ending).encode())

    def text(self, ending: str) -> str:
        """Returns the text of the file with this ending."""
        return self.to_html() if ending == ".html" else json.dumps(self.to_json(), indent=1) + "\n"

    def _repr_html_(self) -> str:
        from forge.quantization.reports.page import frame

        return frame(self)

    def __repr__(self) -> str:
        return f"<Report: {len(self.layers)} quantized layers, {len(self.variants)} variants; print, save(path)>"

    def __str__(self) -> str:
        text = io.StringIO()
        console = Console(file=text, width=120, highlight=False, markup=False, emoji=False, force_jupyter=False)
        console.print(f"{len(self.layers)} quantized layers, the worst first (signal to noise in dB, of {self.samples} samples)")
        console.print(self._table())
        left = [f"stays in float: {label}: {reason}" for label, reason in self.left.items()]
        for line in [*left, *self.lines()]:
            console.print(line, soft_wrap=True)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def lines(self) -> list[str]:
        """Returns the lines of a printed report after its table."""
        outputs = [f"output {o.name}: {decibel_text(o.sqnr)} dB, arg max agrees: {share_text(o.agreement)}" for o in self.outputs]
        return outputs + [f"warning: {text}" for text in self.warnings] + [f"suggestion: {s.text}" for s in self.suggestions]

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for column in ("layer", "in the model", "alone", "weight", "data", "output without"):
            table.add_column(column, justify="left" if column == "layer" else "right", overflow="fold")
        for row in self.worst[:SHOWN]:
            table.add_row(row.label, *self.cells(row))
        return table

    def cells(self, row: LayerRow) -> list[str]:
        """Returns the decibels of a layer: in the model, alone, by its weight, by its data; and of the outputs without it."""
        error = row.error
        return [*map(decibel_text, (error.cumulative, error.alone, error.weight, error.data, row.without))]


def decibel_text(number: float | None) -> str:
    """Writes decibels with one digit; "-" where they are not known."""
    return "-" if number is None else f"{number:.1f}"


def share_text(share: float | None) -> str:
    """Writes a share in per cent; "-" where it is not known."""
    return "-" if share is None else f"{100 * share:.1f} %"


def make_report(
    record: QuantizedModule, samples: Sequence[Sample], *, name: str = "model", seconds: float = 60.0, threads: int = 1,
    tries: bool = True, progress: Progress = lambda phase, done, total: None,
) -> Report:
    """Runs samples through the quantized model and the float one, and tries others.

    Args:
        seconds: when to stop trying; what a report has in any case (errors and sensitivity of layers, of one sample at least) may
            take longer.
        tries: measure variants and times.

    Raises:
        OptionError: no sample is given; CompileError: an operator cannot be compiled.
    """
    if not samples:
        raise OptionError("quantization_report: got no sample; calibrate keeps some in memory; after loading, pass data")
    real, quantized, scheme, options = record.real, record.module, record.scheme, record.options
    end = time.perf_counter() + seconds
    pairs = pairs_of(real, quantized)
    errors = analyse(real, quantized, samples, options, tick=partial(progress, "errors"))
    found = Sensitivity((), (), 0)
    if pairs:
        found = sensitivity.sensitivity(real, quantized, samples, options, seconds / 4, partial(progress, "sensitivity"))
    values = rounding_errors.rounded_values(real, pairs, scheme)
    tried: list[ModelVariant] = []
    times: dict[str, dict[int, float]] = {}
    if tries:
        trials = Trials(record, samples)
        order = variants.candidates(scheme, _worth(found, len(pairs)), len(pairs))
        trials.run(order, end - 2 * TIMED_SHARE * seconds, progress)
        tried = trials.timed(TIMED_SHARE * seconds)
        times = layer_times(record, samples[0], threads, TIMED_SHARE * seconds)
    rows = tuple(_row(*facts, scheme, times, values) for facts in zip(pairs, errors.layers, found.layers, strict=True))
    suggestions = _suggestions(tried, found, rows)
    return Report(
        name, scheme.describe(), errors.outputs, rows, dict(record.left), tuple(values), found.exclusions, tuple(tried),
        suggestions, errors.samples, threads, cpu_text(options.target))


def cpu_text(target: Target) -> str:
    """Names the CPU and its features that decide how fast integers are."""
    notable = target.isa.notable
    return f"{target.cpu} with {', '.join(notable)}" if notable else target.cpu


def _worth(found: Sensitivity, layers: int) -> list[Exclusion]:
    """Exclusions, until one more layer gains too little, or none of the ``layers`` would be quantized."""
    kept, before = [], found.exclusions[0].sqnr if found.exclusions else None
    for exclusion in found.exclusions[1:]:
        if len(exclusion.numbers) >= layers or before is None or exclusion.sqnr is None or exclusion.sqnr < before + MIN_GAIN:
            break
        kept.append(exclusion)
        before = exclusion.sqnr
    return kept


def layer_times(record: QuantizedModule, sample: Sample, threads: int, seconds: float) -> dict[str, dict[int, float]]:
    """Measures the seconds that each layer takes, by way."""
    real, quantized = marked(record.real, products), marked(record.module, products)
    ways = {"float32": (real, False), "int8": (quantized, False)}
    if record.options.layouts.group_size("bfloat16", "bfloat16") > 1:
        ways["bfloat16"] = (real, True)
    made = {name: way(module, dataclasses.replace(record.options, bfloat16=narrow), sample, threads)
            for name, (module, narrow) in ways.items()}
    return {name: by_number(made[name], best) for name, best in in_turns(made, seconds).items()}


def _row(pair: LayerPair, error: LayerError, own: LayerSensitivity, scheme: QuantizationScheme,
         times: Mapping[str, Mapping[int, float]], values: Sequence[RoundedValue]) -> LayerRow:
    weight = rounding_errors.weight_errors(pair, scheme)
    reads = tuple(k for k, value in enumerate(values) if pair.number in value.readers)
    shapes = " x ".join(str(v.shape) for v in pair.real.operands[:2] if v is not None)
    return LayerRow(
        pair.number, pair.label, pair.name, pair.real.op, shapes, error, own.only, own.without, weight,
        {name: seconds[pair.number] for name, seconds in times.items() if pair.number in seconds}, reads,
        _advice(error, weight, [values[k] for k in reads]))


def _advice(error: LayerError, weight: WeightErrors | None, reads: Sequence[RoundedValue]) -> str:
    """Says what would make the larger part of the error smaller, by the errors of rounding themselves."""
    if weight is not None and error.weight is not None and error.weight < error.data:
        gain = weight.per_channel - weight.sqnr
        return f"{written('per_channel', True)}: the weight {gain:+.1f} dB" if gain > MIN_GAIN else ""
    gains = {method: min(v.methods[method] - v.sqnr for v in reads) for method in (reads[0].methods if reads else ())}
    best = max(gains, key=lambda m: gains[m], default="")
    return f"{written('calib_method', best)}: the data {gains[best]:+.1f} dB" if best and gains[best] > MIN_GAIN else ""


def _suggestions(tried: Sequence[ModelVariant], sets: Sensitivity, rows: Sequence[LayerRow]) -> tuple[Suggestion, ...]:
    """Suggestions, the one that gains most first."""
    found = [_of_variant(variant, tried) for variant in tried if variant.arguments]
    if not any(v.excluded for v in tried):
        found += [_of_exclusion(exclusion, sets.exclusions[0], rows) for exclusion in _worth(sets, len(rows))[:3]]
    better = sorted((s for s in found if s is not None and s.gain >= MIN_GAIN), key=lambda s: -s.gain)
    return (*better, *filter(None, map(_of_times, rows if len(rows) > 1 else ())))


def _of_variant(variant: ModelVariant, tried: Sequence[ModelVariant]) -> Suggestion | None:
    chosen = next(v for v in tried if v.is_chosen)
    if variant.sqnr is None or chosen.sqnr is None:
        return None
    parts = [f"outputs {variant.sqnr - chosen.sqnr:+.1f} dB"]
    if variant.agreement is not None and chosen.agreement is not None:
        parts.append(f"arg max {100 * (variant.agreement - chosen.agreement):+.1f} points")
    if chosen.seconds:
        parts.append(f"latency {100 * (variant.seconds / chosen.seconds - 1):+.0f} %")
    parts.append(f"size {100 * (variant.bytes / chosen.bytes - 1):+.0f} %")
    return Suggestion(f"{variant.title}: {', '.join(parts)}", variant.sqnr - chosen.sqnr, True)


def _of_exclusion(exclusion: Exclusion, before: Exclusion, rows: Sequence[LayerRow]) -> Suggestion | None:
    if exclusion.sqnr is None or before.sqnr is None:
        return None
    names = {row.number: row.name for row in rows}
    title = Proposal({}, exclusion.numbers).title(names)
    gain = exclusion.sqnr - before.sqnr
    return Suggestion(f"{title}: outputs {gain:+.1f} dB", gain, False)


def _of_times(row: LayerRow) -> Suggestion | None:
    others = {name: s for name, s in row.seconds.items() if name != "int8"}
    if "int8" not in row.seconds or not others:
        return None
    fastest = min(others, key=lambda name: others[name])
    if row.seconds["int8"] <= NOT_SLOWER * others[fastest] + 2e-6:
        return None
    times = f"{1e6 * row.seconds['int8']:.0f} us as integers, {1e6 * others[fastest]:.0f} us in {fastest}"
    return Suggestion(f"{written('exclude', [row.name])}: {times}", 0.0, True)
