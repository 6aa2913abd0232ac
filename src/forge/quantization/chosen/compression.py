"""Weights become integers of few bits; what the layers read stays in float."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from forge.driver.compilation import bind_params
from forge.errors import OptionError, option
from forge.ir.edits.dead_code import remove_dead
from forge.ir.graph import Graph, Module
from forge.options import CompileOptions
from forge.quantization.chosen.compressible import Holder, holders, holds_zeros, replace
from forge.quantization.observed import gram
from forge.quantization.observed.calibration import Sample
from forge.quantization.places.layers import Excluded, exclusions
from forge.quantization.weights import activation_scales
from forge.quantization.weights.activation_scales import Rescaled
from forge.quantization.weights.rounding import Rounded, compensated, energy, fit_steps, joined, nearest

BITS = (2, 4, 8)
SCHEMES = ("rtn", "awq", "gptq")
REAL = 32
"""Bits of a weight that stays as it is."""
MAX_SAMPLES = 256 << 20
"""Bytes of samples that are used."""


@dataclass(frozen=True, kw_only=True)
class CompressionScheme:
    """The arguments of `IRModule.compress`, checked.

    Raises:
        OptionError: which argument, what was given, what is expected.
    """

    bits: int = 4
    group: int | None = 32
    scheme: str | None = None
    size: float | None = None
    symmetric: bool = False
    exclude: tuple[Excluded, ...] = ()
    embeddings: int = 8
    convolutions: bool = False

    def __post_init__(self) -> None:
        _check("bits", self.bits, type(self.bits) is int and self.bits in BITS, "2, 4 or 8")
        _check("scheme", self.scheme, self.scheme in (*SCHEMES, None), "'rtn', 'awq' or 'gptq'")
        is_known = type(self.embeddings) is int and self.embeddings in (0, *BITS)
        _check("embeddings", self.embeddings, is_known, "2, 4 or 8, or 0 to leave tables in float")
        for name in ("symmetric", "convolutions"):
            _check(name, getattr(self, name), isinstance(getattr(self, name), bool), "True or False")
        is_group = self.group is None or type(self.group) is int and (self.group == -1 or self.group >= 1)
        _check("group", self.group, is_group, "a positive number of elements, or None for one scale for each row")
        is_number = type(self.size) in (int, float)
        is_size = self.size is None or is_number and self.size > 0 and (self.size <= 1 or self.size % 1 == 0)
        _check("size", self.size, is_size, "a number of bytes, a share of the present one (above 0, at most 1), or None")

    @property
    def block(self) -> int | None:
        return None if self.group == -1 else self.group

    def choices(self, kind: str) -> tuple[int, ...]:
        """Returns the bits that codes of a weight of this kind may have, the fewest first."""
        least = self.bits
        if kind == "table" and self.embeddings:
            least = self.embeddings if self.size is None else min(self.bits, self.embeddings)
        return tuple(b for b in BITS if b == least or b == 8)

    @classmethod
    def of(cls, **arguments: Any) -> CompressionScheme:
        return cls(**arguments | {"exclude": exclusions(arguments.get("exclude", ()))})


def _check(name: str, value: Any, is_good: bool, expected: str) -> None:
    if not is_good:
        raise OptionError(f"compress: {option(name)}: got {value!r}; expected {expected}")


@dataclass(frozen=True)
class CompressedWeight:
    """A weight after `IRModule.compress`.

    Attributes:
        label: the layer that reads it.
        kind: product, table, recurrent or convolution.
        bits: of a code; 32: it stays in float.
        group: elements that share a scale; 0: it stays in float.
        scheme: the one that gave the codes: ``rtn`` where another was asked for and gave no smaller error.
        sqnr: signal to noise in dB, of the layer's results on the samples; without samples, and for tables and recurrent layers,
            of the weight. Infinite where nothing is lost.
        reason: why it stays in float, where that was not chosen for its accuracy.
    """

    label: str
    kind: str
    bits: int
    group: int
    scheme: str
    bytes_before: int
    bytes_after: int
    sqnr: float
    reason: str = ""


@dataclass(frozen=True)
class Compressed:
    """The result of `IRModule.compress`; ``print`` shows a table.

    Attributes:
        bytes_before, bytes_after: of all constants of the model.
    """

    weights: tuple[CompressedWeight, ...]
    bytes_before: int
    bytes_after: int

    COLUMNS = ("layer", "kind", "bits", "group", "scheme", "bytes before", "bytes after", "SQNR dB", "reason")

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells of the table."""
        return [(w.label, w.kind, str(w.bits), str(w.group or ""), w.scheme, str(w.bytes_before), str(w.bytes_after),
                 f"{w.sqnr:.1f}" if np.isfinite(w.sqnr) else "", w.reason) for w in self.weights]

    def __str__(self) -> str:
        cells = [self.COLUMNS, *self.rows]
        widths = [max(len(row[k]) for row in cells) for k in range(len(self.COLUMNS))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cells]
        share = self.bytes_after / max(1, self.bytes_before)
        return "\n".join([*lines, f"weights: {self.bytes_before} bytes before, {self.bytes_after} after ({share:.0%})"])


@dataclass(frozen=True)
class Encoding:
    """A way to hold a weight; ``rounded`` is None for real numbers. ``error`` is relative to the squared sum of the results."""

    bits: int
    scheme: str
    bytes: int
    error: float
    rounded: Rounded | None = None


@dataclass
class _Encoder:
    """Candidates for the weights of a graph."""

    plan: CompressionScheme
    samples: Sequence[Sample]
    options: CompileOptions
    rescaled: Rescaled

    def encodings(self, holder: Holder, matrices: np.ndarray | None) -> list[Encoding]:
        """The smallest first; the last one is the weight as it is."""
        found: list[Encoding] = []
        for bits in self.plan.choices(holder.kind):
            group = holder.group(bits, self.plan.block)
            if group is not None and (self.plan.size is not None or not found):
                found.append(self._candidate(holder, bits, group, matrices))
        nbytes = holder.array.nbytes
        return [*(c for c in found if c.bytes < nbytes), Encoding(REAL, "", nbytes, 0.0)]

    def _candidate(self, holder: Holder, bits: int, group: int, matrices: np.ndarray | None) -> Encoding:
        rows = np.asarray(holder.rows, np.float32)
        is_plain = holder.kind in ("recurrent", "convolution") or not holds_zeros(holder, bits, group)
        fit = fit_steps(bits, self.plan.symmetric or is_plain)
        ways: dict[str, list[Rounded]] = {"rtn": [nearest(rows, group, fit)]}
        if matrices is not None and self.plan.scheme in ("awq", "gptq"):
            ways[self.plan.scheme] = self._better(rows, group, fit, matrices)
        reader = holder.readers[0][0]
        if reader in self.rescaled.nodes:
            ways["awq"] = [*ways.pop("rtn"), *ways.get("awq", [])]
        units = self.rescaled.results.get(reader, np.ones(1, np.float32))[:, None]
        measured = [(energy(units * (rows - made.real), matrices), scheme, made) for scheme, several in ways.items()
                    for made in several]
        least, scheme, made = min(measured, key=lambda m: m[0])
        signal = max(energy(units * rows, matrices), 1e-30)
        return Encoding(bits, scheme, holder.bytes(made, bits), least / signal, made)

    def _better(self, rows: np.ndarray, group: int, fit: Any, matrices: np.ndarray) -> list[Rounded]:
        """With what is known of the inputs."""
        found = []
        if len(matrices) == 1:
            found.append(nearest(rows, group, fit, np.diagonal(matrices[0]).astype(np.float32)))
        if self.plan.scheme == "gptq":
            parts = rows.reshape(len(matrices), -1, rows.shape[1])
            for by_size in (False, True):
                found.append(joined([compensated(p, m, group, fit, by_size) for p, m in zip(parts, matrices)]))
        return found


def compress(
    module: Module, plan: CompressionScheme, samples: Iterable[Sample] | None, options: CompileOptions
) -> tuple[Module, Compressed]:
    """Returns a compressed copy of ``module``, and what was done.

    Args:
        samples: None: those that calibration kept.
        options: of the models that compute what layers read.

    Raises:
        OptionError: the scheme needs samples, and there are none; or ``size`` cannot be reached.
    """
    used = _limited(module.calibration.samples if samples is None else samples)
    if plan.scheme is None:
        plan = dataclasses.replace(plan, scheme="gptq" if used else "rtn")
    if plan.scheme != "rtn" and not used:
        advice = f"give {option('calib_data')}, or calibrate the model first"
        raise OptionError(f"compress: {option('scheme')}: {plan.scheme!r} needs samples; got none; {advice}")
    changed = module.copy()
    bind_params(changed.main)
    before = constant_bytes(changed.main)
    rescaled = _rescale(changed, plan, used, options) if plan.scheme == "awq" else Rescaled()
    search = _Encoder(plan, used, options, rescaled)
    found = _holders(changed.main, plan)
    candidates = dict(_candidates(changed, search, [h for h in found if not h.reason]))
    limit = None if plan.size is None else plan.size if plan.size > 1 else plan.size * before
    chosen = choose(candidates, constant_bytes(changed.main), limit)
    result = [_described(h, candidates, chosen) for h in found]
    for holder, one in chosen.items():
        if one.rounded is not None:
            replace(changed.main, holder, one.rounded, one.bits)
    changed.main.sort()
    remove_dead(changed.main)
    return changed, Compressed(tuple(result), before, constant_bytes(changed.main))


def _limited(samples: Iterable[Sample]) -> list[Sample]:
    kept: list[Sample] = []
    held = 0
    for sample in samples:
        held += sum(a.nbytes for a in sample.values())
        if kept and held > MAX_SAMPLES:
            break
        kept.append(sample)
    return kept


def _holders(graph: Graph, plan: CompressionScheme) -> list[Holder]:
    found = holders(graph, plan.exclude, bool(plan.embeddings), plan.convolutions)
    for holder in found:
        if not holder.reason and all(holder.group(bits, plan.block) is None for bits in plan.choices(holder.kind)):
            holder.reason = f"a depth of {holder.rows.shape[1]}: quantized weights would not stay packed"
    return found


def _rescale(module: Module, plan: CompressionScheme, samples: Sequence[Sample], options: CompileOptions) -> Rescaled:
    products = [h for h in _holders(module.main, plan) if h.kind == "product" and not h.reason and len(h.readers) == 1]
    groups = {h.layers[0]: (bits, group) for h in products for bits in plan.choices(h.kind)[:1]
              if (group := h.group(bits, plan.block)) is not None and gram.sums_windows(h.layers[0])}
    done = Rescaled()
    for bits, group in dict.fromkeys(groups.values()):
        fit = fit_steps(bits, plan.symmetric)
        same = [layer for layer, found in groups.items() if found == (bits, group)]
        activation_scales.rescale(module, same, samples, options, partial(nearest, group=group, fit=fit), done)
    return done


def _candidates(module: Module, search: _Encoder, found: Sequence[Holder]) -> Iterator[tuple[Holder, list[Encoding]]]:
    known = found if search.samples else ()
    by_layer = {layer: holder for holder in known for layer in holder.layers if gram.sums_windows(layer)}
    sums: dict[Holder, np.ndarray] = {}
    waiting = {holder: len(holder.layers) for holder in found}
    for batch in gram.batches(by_layer):
        matrices = gram.gram_matrices(module, batch, search.samples, search.options)
        for layer in batch:
            holder = by_layer[layer]
            sums[holder] = sums[holder] + matrices[layer] if holder in sums else matrices[layer]
            waiting[holder] -= 1
            if not waiting[holder]:
                yield holder, search.encodings(holder, sums.pop(holder))
    for holder in found:
        if waiting[holder] or not holder.layers:
            yield holder, search.encodings(holder, None)


def choose(candidates: dict[Holder, list[Encoding]], total: int, limit: float | None) -> dict[Holder, Encoding]:
    """Chooses the first candidate of each weight, and within ``limit`` better ones: those that save most error for a byte.

    Args:
        total: bytes of all constants, uncompressed.

    Raises:
        OptionError: the smallest candidates are larger than ``limit``.
    """
    chosen = {holder: several[0] for holder, several in candidates.items()}
    if limit is None:
        return chosen
    size = total - sum(several[-1].bytes - several[0].bytes for several in candidates.values())
    if size > limit:
        advice = "what these bits and groups give; give a larger size, fewer bits or larger groups"
        raise OptionError(f"compress: {option('size')}: got {limit:.0f} bytes; expected at least {size}, {advice}")
    while True:
        steps = [((chosen[h].error - c.error) / (c.bytes - chosen[h].bytes), k, h, c)
                 for k, (h, several) in enumerate(candidates.items()) for c in several
                 if c.bytes > chosen[h].bytes and c.error < chosen[h].error and size + c.bytes - chosen[h].bytes <= limit]
        if not steps:
            return chosen
        _, _, holder, better = max(steps, key=lambda s: (s[0], -s[1]))
        size += better.bytes - chosen[holder].bytes
        chosen[holder] = better


def _described(holder: Holder, candidates: dict[Holder, list[Encoding]], chosen: dict[Holder, Encoding]) -> CompressedWeight:
    nbytes = holder.array.nbytes
    one = chosen.get(holder)
    if one is None or one.rounded is None:
        reason = holder.reason or ("" if len(candidates[holder]) > 1 else "quantized weights and scales are no smaller")
        return CompressedWeight(holder.label, holder.kind, REAL, 0, "", nbytes, nbytes, np.inf, reason)
    sqnr = float(-10 * np.log10(one.error)) if one.error > 0 else np.inf
    return CompressedWeight(holder.label, holder.kind, one.bits, one.rounded.group, one.scheme, nbytes, one.bytes, sqnr)


def constant_bytes(graph: Graph) -> int:
    """Counts the bytes of all constants; an array that several share counts once."""
    arrays = {id(v.constant): v.constant for node in graph.nodes for v in node.results if v.constant is not None}
    return sum(a.nbytes for a in arrays.values())
