"""Two models, or one that is run in two ways, layer by layer on the same samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from forge.driver.feeds import random_inputs, specs_of
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.numerics.differences import Difference
from forge.numerics.matching import ValuePair, match, shapes_may_agree
from forge.numerics.sides import Side, side, source_way
from forge.options import CompileOptions
from forge.progress import Progress
from forge.samples import samples

THRESHOLDS = {"quantized": 20.0, "narrow": 40.0, "float": 60.0}
"""Decibels from which two values agree: a tenth, a hundredth and a thousandth of the signal may differ."""


@dataclass
class Row:
    """A layer or an output.

    Attributes:
        name, operator: of the first model.
        shape: of the first sample.
    """

    name: str
    operator: str
    shape: tuple[int, ...] = ()
    difference: Difference = field(default_factory=Difference)

    @property
    def sqnr(self) -> float:
        return self.difference.sqnr

    def add(self, expected: Any, found: Any) -> None:
        if not self.difference.elements:
            self.shape = tuple(np.shape(expected)) if isinstance(expected, np.ndarray) else ()
        self.difference.add(expected, found)


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`.

    Attributes:
        first, second: the models, and how they were run.
        layers: in the order of the first model.
        outputs: in their order.
        threshold: of the ratio of signal to noise, in dB: what is below it differs.
    """

    first: str
    second: str
    layers: tuple[Row, ...]
    outputs: tuple[Row, ...]
    samples: int
    threshold: float

    @property
    def divergence(self) -> Row | None:
        """The first layer, or else output, that differs."""
        return next((row for row in (*self.layers, *self.outputs) if row.sqnr < self.threshold), None)

    @property
    def agrees(self) -> bool:
        return self.divergence is None

    def as_dict(self) -> dict[str, Any]:
        """Returns the document that ``forge compare --json`` prints."""
        first = self.divergence
        return {
            "first": self.first, "second": self.second, "samples": self.samples, "threshold_db": self.threshold,
            "agrees": self.agrees, "divergence": None if first is None else first.name,
            "layers": [_row_dict(row) for row in self.layers], "outputs": [_row_dict(row) for row in self.outputs],
        }


def compare(
    a: Any, b: Any = None, data: Any = None, *, run_a: str | None = None, run_b: str | None = None,
    options_a: CompileOptions | None = None, options_b: CompileOptions | None = None,
    sizes: Mapping[str, int] | None = None, threshold: float | None = None, progress: Progress | None = None,
) -> Comparison:
    """Runs two models on the same samples and compares all values that both have.

    Args:
        a, b: each an `IRModule`, the path of a model, or an exported program of PyTorch. Without ``b``: the framework that ``a``
            comes from and compiled code of ``a``; where there is none, the interpreter and compiled code.
        data: what `forge.samples.samples` takes; None: random inputs, which are the same in each call.
        run_a, run_b: "compiled", "interpreter", "onnxruntime" (of an .onnx file) or "torch" (of a .pt2 file or an exported
            program); None: compiled.
        options_a, options_b: of the compilations; None: the defaults.
        sizes: of symbolic dimensions of random inputs; else 1.
        threshold: decibels of the ratio of signal to noise below which values differ; None: 20 where one of the models is
            quantized, 40 where one computes in 16 bits, else 60.

    Raises:
        OptionError: an argument is wrong; InputError: the data are. What the loaders and the compiler raise.
    """
    first, second = _sides(a, b, run_a, run_b, options_a, options_b)
    renamed = _renamed(first, second)
    pairs = match(first, second)
    runs = first.open([p.first.value for p in pairs], progress), second.open([p.second.value for p in pairs], progress)
    layers = [Row(p.name, p.operator) for p in pairs]
    outputs = [Row(name, _made_by(v)) for name, v in zip(first.graph.output_names, first.graph.outputs)]
    count = 0
    for sample in feeds(first.inputs, data, sizes, "compare"):
        other = {renamed[name]: value for name, value in sample.items()}
        _add(pairs, layers, outputs, runs[0](sample), runs[1](other))
        count += 1
    limit = _threshold(first, second) if threshold is None else threshold
    return Comparison(first.title, second.title, tuple(layers), tuple(outputs), count, limit)


def feeds(inputs: Sequence[Value], data: Any, sizes: Mapping[str, int] | None, where: str) -> Any:
    """Returns samples of ``data``, or one of random numbers where that is None."""
    specs = specs_of(inputs)
    if data is None:
        return iter([random_inputs(specs, sizes or {})])
    return samples(data, specs, where=f"{where}: data")


def _sides(
    a: Any, b: Any, run_a: str | None, run_b: str | None, options_a: CompileOptions | None, options_b: CompileOptions | None
) -> tuple[Side, Side]:
    if run_a is None and (b is None or _is_same(a, b)) and run_b in (None, "compiled") and options_a is None:
        way = a.way if isinstance(a, Side) else source_way(Path(a) if isinstance(a, str) else a) or "interpreter"
        return side(a, way, options_a), side(a if b is None else b, run_b, options_b)
    return side(a, run_a, options_a), side(a if b is None else b, run_b, options_b)


def _is_same(a: Any, b: Any) -> bool:
    return a is b or isinstance(a, str | Path) and isinstance(b, str | Path) and Path(a).absolute() == Path(b).absolute()


def _renamed(a: Side, b: Side) -> dict[str, str]:
    """Inputs of ``b`` by those of ``a``: of the same name, or else at the same place.

    Raises:
        OptionError: the models do not have the same inputs and outputs.
    """
    first, second = a.inputs, b.inputs
    names = [v.name for v in second]
    if len(first) != len(second) or len(a.graph.outputs) != len(b.graph.outputs):
        counts = [f"{len(s.inputs)} inputs and {len(s.graph.outputs)} outputs" for s in (a, b)]
        raise OptionError(f"compare: {b.name}: got {counts[1]}; expected {counts[0]}, as {a.name} has")
    by_name = {v.name: v for v in second} if {v.name for v in first} == set(names) else {}
    pairs = [(v, by_name.get(v.name, w)) for v, w in zip(first, second)]
    for v, w in pairs:
        if v.type != w.type and not (shapes_may_agree(v, w) and v.dtype == w.dtype):
            raise OptionError(f"compare: {b.name}: input {w.name!r}: got {w.type}; expected {v.type}, as {a.name} has")
    return {v.name: w.name for v, w in pairs}


def _add(
    pairs: Sequence[ValuePair], layers: Sequence[Row], outputs: Sequence[Row],
    first: tuple[list[Any], list[Any]], second: tuple[list[Any], list[Any]],
) -> None:
    for row, expected, found in zip(outputs, first[0], second[0], strict=True):
        row.add(expected, found)
    for pair, row, expected, found in zip(pairs, layers, first[1], second[1], strict=True):
        row.add(pair.first.real(expected), pair.second.real(found))


def _threshold(a: Side, b: Side) -> float:
    if a.is_quantized or b.is_quantized:
        return THRESHOLDS["quantized"]
    narrow = any(s.way == "compiled" and (s.options.float16 or s.options.bfloat16) for s in (a, b))
    return THRESHOLDS["narrow" if narrow else "float"]


def _made_by(value: Value) -> str:
    return "" if value.producer is None else value.producer.op


def _row_dict(row: Row) -> dict[str, Any]:
    d = row.difference
    known = {"name": row.name, "operator": row.operator, "shape": list(row.shape)}
    sqnr = {"sqnr_db": d.sqnr, "equal": d.noise == 0, "max_abs": d.error, "max_rel": d.relative}
    return {**known, **sqnr, "argmax": d.agreeing / d.rows if d.rows else None}
