"""How far correct code may be from the interpreter.

Every operator has an accuracy class, from which its tolerance follows. What that comes to in the outputs of a graph is measured:
the interpreter makes errors of that size at random in every node that rounds, and later nodes carry them on. Correct code may be
``SLACK`` times as far off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from forge import dtypes
from forge.errors import ForgeError, OptionError
from forge.ir.graph import Graph
from forge.ir.interp import bind_symbols, evaluate
from forge.ir.nodes import Node, Value
from forge.ir.op import Accuracy
from forge.ir.quantized import NARROW, is_quantized
from forge.numerics.differences import Difference, difference

RELATIVE = {Accuracy.ROUNDING: 16, Accuracy.ACCUMULATING: 16}
TO_LARGEST = {Accuracy.ROUNDING: 4, Accuracy.ACCUMULATING: 64}
NARROW_RELATIVE = 3
"""Of types of 16 bits and less, which are computed in float32 and rounded a few times at most."""

OPERAND_ROUNDINGS = 2
"""Backward error of each operand, in units in the last place."""

SLACK = 4.0
"""A result may be this many times as far off as sampled errors moved it."""

RUNS = 3

MOVED = 0.25
"""Share of the quantized numbers that another point of rounding is taken to move by one step."""

_finfo: Any = ml_dtypes.finfo


def epsilon(dtype: str) -> float:
    """Returns the distance from 1 to the next number."""
    return float(_finfo(dtypes.numpy_dtype(dtype)).eps)


def tolerance(accuracy: Accuracy, dtype: str) -> tuple[float, float]:
    """Returns the errors allowed relative to the element, and relative to the largest element."""
    if dtypes.is_complex(dtype):
        dtype = dtypes.part(dtype)
    if accuracy is Accuracy.EXACT or not dtypes.is_float(dtype):
        return 0.0, 0.0
    if dtypes.bits(dtype) <= 16:
        return NARROW_RELATIVE * epsilon(dtype), epsilon(dtype) / 2
    return RELATIVE[accuracy] * epsilon(dtype), TO_LARGEST[accuracy] * epsilon(dtype)


@dataclass(frozen=True)
class Tolerance:
    """Limits of a difference.

    Attributes:
        relative: the largest difference, relative to the largest element; None: no limit.
        sqnr: decibels of the ratio of signal to noise, at least; None: no limit. Neither: as the accuracy classes say.
    """

    relative: float | None = None
    sqnr: float | None = None

    @staticmethod
    def parse(given: float | str | None) -> Tolerance:
        """Reads a number, the relative difference, or a text: that or decibels, as in ``"60dB"``.

        Raises:
            OptionError: it is neither, or negative.
        """
        if given is None:
            return Tolerance()
        text = str(given).strip().lower()
        try:
            number = float(text.removesuffix("db"))
        except ValueError:
            number = -1.0
        if isinstance(given, bool) or not 0 <= number < np.inf:
            raise OptionError(f"tolerance: got {given!r}; expected the largest difference relative to the largest element, "
                              "as in 1e-3, or decibels of the ratio of signal to noise, as in 60dB")
        return Tolerance(sqnr=number) if text.endswith("db") else Tolerance(relative=number)

    @property
    def is_given(self) -> bool:
        return self.relative is not None or self.sqnr is not None

    def admits(self, found: Difference) -> bool:
        """Whether values that are so far apart agree, by limits that were given."""
        too_far = self.relative is not None and found.relative > self.relative
        return not too_far and not (self.sqnr is not None and found.sqnr < self.sqnr)


class Judge:
    """Says which outputs of one graph are wrong, for one sample.

    Args:
        graph: without bound values.
        inputs: of the graph, in order.
        expected: its outputs, as the interpreter computes them.
        limits: where the classes of accuracy do not count.
        moves_rounding: whether quantized numbers may be rounded at another point, and be a step off.
    """

    def __init__(
        self, graph: Graph, inputs: Sequence[Any], expected: Sequence[Any], limits: Tolerance, moves_rounding: bool = False
    ) -> None:
        self.graph, self.inputs, self.expected, self.limits, self.moves = graph, inputs, expected, limits, moves_rounding
        self._bounds: list[float] | None = None

    @property
    def bounds(self) -> list[float]:
        """By output: the largest difference relative to its largest element that rounding explains."""
        if self._bounds is None:
            self._bounds = _bounds(self.graph, self.inputs, self.expected, self.moves)
        return self._bounds

    def wrong(self, found: Sequence[Any]) -> list[tuple[int, Difference]]:
        """Returns the numbers of the outputs that are too far off, with their differences."""
        differences = [difference(one, other) for one, other in zip(self.expected, found, strict=True)]
        return [(k, d) for k, d in enumerate(differences) if d.noise and not self._admits(k, d)]

    def _admits(self, number: int, found: Difference) -> bool:
        return self.limits.admits(found) if self.limits.is_given else found.relative <= self.bounds[number]


def _bounds(graph: Graph, inputs: Sequence[Any], expected: Sequence[Any], moves: bool) -> list[float]:
    bounds = [tolerance(Accuracy.ROUNDING, value.dtype)[1] if is_inexact(value) else 0.0 for value in graph.outputs]
    for seed in range(RUNS):
        noise = _Noise(np.random.default_rng(seed), moves)
        try:
            moved = noise.interpret(graph, inputs)
        except ForgeError:  # sizes that errors decide
            return [np.inf] * len(bounds)
        bounds = [max(b, SLACK * difference(e, m).relative) for b, e, m in zip(bounds, expected, moved, strict=True)]
    return bounds


@dataclass(frozen=True)
class _Noise:
    rng: np.random.Generator
    moves_rounding: bool

    def interpret(self, graph: Graph, inputs: Sequence[Any], symbols: Mapping[str, int] | None = None) -> list[Any]:
        """Outputs, with errors in every node."""
        env = dict(symbols or {})
        values: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
        for value in graph.inputs:
            bind_symbols(value, values[value], env)

        def run_region(region: Graph, operands: Sequence[Any]) -> list[Any]:
            return self.interpret(region, operands, env)

        for node in graph.nodes:
            operands = [None if v is None else values[v] for v in node.operands]
            results = self._results(node, operands, env, run_region)
            for value, result in zip(node.results, results, strict=True):
                values[value] = result
                bind_symbols(value, result, env)
        return [values[v] for v in graph.outputs]

    def _results(self, node: Node, operands: list[Any], env: Mapping[str, int], run_region: Any) -> list[Any]:
        accuracy = _accuracy(node)
        if self.moves_rounding and _rounds(node):
            return [self._moved(r) for r in evaluate(node, operands, env, run_region)]
        if accuracy is Accuracy.EXACT or not any(map(is_inexact, node.results)):
            return evaluate(node, operands, env, run_region)
        shifted = [x if v is None or not is_inexact(v) else self._shifted(x, OPERAND_ROUNDINGS * epsilon(_real(v)))
                   for v, x in zip(node.operands, operands)]
        results = evaluate(node, shifted, env, run_region)
        return [self._own_error(accuracy, v, r) if is_inexact(v) else r for v, r in zip(node.results, results)]

    def _own_error(self, accuracy: Accuracy, value: Value, result: np.ndarray) -> np.ndarray:
        relative, to_largest = tolerance(accuracy, value.dtype)
        sizes = np.abs(result)
        return self._shifted(result, relative, to_largest * float(np.max(sizes, initial=0.0, where=np.isfinite(sizes))))

    def _shifted(self, array: np.ndarray, relative: float, absolute: float = 0.0) -> np.ndarray:
        wide = np.asarray(array, np.complex128 if np.iscomplexobj(array) else np.float64)
        signs = self.rng.choice([-1.0, 1.0], wide.shape)
        with np.errstate(all="ignore"):
            moved = wide + signs * (relative * np.abs(wide) + absolute)
            return np.where(np.isfinite(wide) & (wide != 0), moved, wide).astype(array.dtype)

    def _moved(self, array: np.ndarray) -> np.ndarray:
        """Integers, some of them the next ones."""
        name = dtypes.canonical(array.dtype)
        if not dtypes.is_integer(name):
            return array
        low, high = dtypes.integer_range(name)
        steps = self.rng.choice([-1, 0, 1], array.shape, p=[MOVED / 2, 1 - MOVED, MOVED / 2])
        moved: np.ndarray = np.clip(array.astype(np.int64) + steps, low, high).astype(array.dtype)
        return moved


def _rounds(node: Node) -> bool:
    """Whether it makes quantized numbers of real ones."""
    source, result = node.operands[0] if node.operands else None, node.results[0] if node.results else None
    if source is None or result is None or not is_inexact(source):
        return False
    return is_quantized(node) or dtypes.bits(getattr(result.type, "dtype", "float32")) <= NARROW


def _accuracy(node: Node) -> Accuracy:
    first = node.operands[0] if node.operands else None
    return node.op_def.accuracy_on(getattr(first.type, "dtype", "") if first is not None else "")


def is_inexact(value: Value) -> bool:
    """Whether a value has real or complex numbers."""
    dtype = getattr(value.type, "dtype", "")
    return dtypes.is_float(dtype) or dtypes.is_complex(dtype)


def _real(value: Value) -> str:
    return dtypes.part(value.dtype) if dtypes.is_complex(value.dtype) else value.dtype
