"""How far correct machine code may be from the interpreter, measured on the graph itself.

Correct code evaluates every operator with a mixed forward and backward error: the exact result of operands that are a few
roundings off, itself off by its accuracy class. Rewrites (other orders of summation, folded scales, fused multiply-add) stay
within that, for the operators that they replace. Here the interpreter makes such errors at random in every node, in
regions too, and carries them through all later ones: exact operators pass them on, discontinuous ones decide otherwise. What an
element of an output does under them is what it may be off.

- A node whose operands are small multiples of a power of two, and which adds and multiplies only, makes no error.
- An element that these errors change altogether (a decision that went the other way, an ill-conditioned value) tells nothing:
  it is *excluded*, and counted. ``Verdict.informative`` is false where that are too many.
- Nothing else is forgiven: an element may differ by its class's tolerance from what the interpreter makes of the contents that
  the compiled code itself stored for the operands, plus ``SLACK`` times what the errors move it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from forge import dtypes
from forge.ir.graph import Graph
from forge.ir.interp import bind_symbols, concrete_attrs, evaluate
from forge.ir.nodes import Node, Value
from forge.ir.op import Accuracy, Kind
from forge.ops.core.op import Op
from tests.ops.compare import epsilon, tolerance

SLACK = 2.0
"""A result may be this many times as far off as the sampled errors moved it."""

OPERAND_ROUNDINGS = 2
"""Backward error of each operand, in units in the last place."""

RANDOM_RUNS = 4

MAX_EXCLUDED = 0.05
"""Share of the elements of a graph's outputs that may be excluded in an informative graph."""

SUMS = frozenset(
    "add subtract multiply sum mean cumsum nn.matmul nn.dense nn.batch_matmul nn.bias_add nn.conv1d nn.conv2d nn.conv3d "
    "nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d".split()
)
"""Operators that add and multiply only: their error is relative to the sum of the magnitudes of what they add."""

DIVISIONS = frozenset("floor_divide floor_mod mod trunc_divide".split())
"""Operators that decide by a quotient, which is right for operands that need no rounding."""

QUANTUM = 64
"""Multiples of 1/QUANTUM are added and multiplied without error as long as sums are small."""


@dataclass(frozen=True)
class Noise:
    """The errors of one run: of random signs, or all upwards or downwards."""

    rng: np.random.Generator
    sign: float = 0.0

    def shift(self, array: np.ndarray, relative: float, absolute: float | np.ndarray = 0.0) -> np.ndarray:
        """``array`` with an error of that size in each element, of complex ones in both parts."""
        wide = widened(array)
        signs: Any = self.sign if self.sign else self.rng.choice([-1.0, 1.0], wide.shape)
        if np.iscomplexobj(wide):
            signs = signs + 1j * (self.sign if self.sign else self.rng.choice([-1.0, 1.0], wide.shape))
        with np.errstate(all="ignore"):
            moved = (wide + signs * (relative * np.abs(wide) + absolute)).astype(array.dtype)
        return np.asarray(np.where(np.isfinite(wide), moved, array), array.dtype).reshape(array.shape)


def noises() -> list[Noise]:
    """The errors that are sampled."""
    steady = [Noise(np.random.default_rng(0), sign) for sign in (1.0, -1.0)]
    return [*steady, *(Noise(np.random.default_rng(k)) for k in range(1, 1 + RANDOM_RUNS))]


Contents = dict[Value, Any]


def interpret(graph: Graph, inputs: Sequence[Any], noise: Noise | None = None, stored: Mapping[Value, Any] | None = None,
              symbols: Mapping[str, int] | None = None) -> Contents:
    """The results of all nodes: of ``stored`` operands where they are given, and with the errors of ``noise``."""
    stored = stored or {}
    env = dict(symbols or {})
    values: Contents = dict(zip(graph.inputs, inputs, strict=True))
    for value in graph.inputs:
        bind_symbols(value, values[value], env)

    def run_region(region: Graph, operands: Sequence[Any]) -> list[Any]:
        inner = interpret(region, operands, noise, None, env)
        return [inner[v] for v in region.outputs]

    computed = dict(values)
    for node in graph.nodes:
        operands = [None if v is None else values[v] for v in node.operands]
        results = noisy_results(node, operands, env, run_region, noise)
        for value, result in zip(node.results, results, strict=True):
            computed[value] = result
            values[value] = stored.get(value, result)
            bind_symbols(value, values[value], env)
    return computed


def noisy_results(node: Node, operands: list[Any], env: Mapping[str, int], run_region: Any, noise: Noise | None) -> list[Any]:
    """The results of ``node``, with the errors that it may make."""
    rounds = noise is not None and accuracy_of(node) is not Accuracy.EXACT and any(map(is_rounded, node.results))
    if noise is None or not rounds or is_errorless(node, operands, env):
        return evaluate(node, operands, env, run_region)
    if node.op in SUMS:
        result = evaluate(node, operands, env, run_region)[0]
        name = node.results[0].dtype
        added = np.asarray(magnitude(node, operands, env))
        return [noise.shift(result, tolerance(accuracy_of(node), name)[0], OPERAND_ROUNDINGS * epsilon(name) * added)]
    shifted: dict[Value, Any] = {}
    for value, operand in zip(node.operands, operands, strict=True):
        if value is not None and value not in shifted:
            shifted[value] = noise.shift(operand, OPERAND_ROUNDINGS * epsilon(value.dtype)) if is_rounded(value) else operand
    results = evaluate(node, [None if v is None else shifted[v] for v in node.operands], env, run_region)
    return [_with_own_error(node, r, noise) for r in results]


def accuracy_of(node: Node) -> Accuracy:
    """The accuracy class of the operator on its first operand."""
    dtype = getattr(node.operands[0].type, "dtype", "") if node.operands and node.operands[0] is not None else ""
    return node.op_def.accuracy_on(dtype)


def is_rounded(value: Value) -> bool:
    return is_inexact(getattr(value.type, "dtype", ""))


def is_inexact(dtype: str) -> bool:
    return dtypes.is_float(dtype) or dtypes.is_complex(dtype)


def widened(array: np.ndarray) -> np.ndarray:
    """``array`` in the widest type of its kind."""
    return np.asarray(array, np.complex128 if np.iscomplexobj(array) else np.float64)


def _with_own_error(node: Node, result: Any, noise: Noise) -> Any:
    name = dtypes.canonical(result.dtype)
    if not is_inexact(name) or not result.size:
        return result
    relative, to_largest = tolerance(accuracy_of(node), name)
    absolute = np.full(result.shape, to_largest * largest(widened(result)))
    if isinstance(node.op_def, Op) and node.op_def.kind is Kind.ELEMENTWISE:
        absolute[np.asarray(result == 0)] = 0.0
    return noise.shift(result, relative, absolute)


def largest(wide: np.ndarray) -> float:
    return float(np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide)))


def is_errorless(node: Node, operands: Sequence[Any], env: Mapping[str, int]) -> bool:
    """Whether every order of the additions gives the same, because nothing needs rounding."""
    if node.op not in SUMS | DIVISIONS or any(x is None or not _is_coarse(x) for x in operands):
        return False
    if node.op in DIVISIONS:
        return True
    with np.errstate(all="ignore"):
        exact = np.asarray(_reference(node, _wide(operands), env))
        narrow = exact.astype(dtypes.numpy_dtype(node.results[0].dtype))
    bits = 52 if dtypes.bits(node.results[0].dtype) == 64 else 23
    small = largest(magnitude(node, operands, env)) * QUANTUM**2 < 2**bits
    return small and bool(np.array_equal(narrow.astype(np.float64), exact))


def magnitude(node: Node, operands: Sequence[Any], env: Mapping[str, int]) -> np.ndarray:
    """The sum of the magnitudes of what a node of ``SUMS`` adds for each element of its result."""
    wide = [np.abs(x) if isinstance(x, np.ndarray) and x.dtype.kind in "fc" else x for x in _wide(operands)]
    if node.op == "subtract":
        return np.asarray(wide[0] + wide[1])
    with np.errstate(all="ignore"):
        return np.asarray(_reference(node, wide, env))


def _reference(node: Node, operands: Sequence[Any], env: Mapping[str, int]) -> Any:
    return node.op_def.reference(concrete_attrs(node.attrs, env), *node.op_def.arguments(operands))[0]


def _wide(operands: Sequence[Any]) -> list[Any]:
    """The operands, those of rounded types in a wide one; others are axes and sizes."""
    return [x if x is None or not is_inexact(dtypes.canonical(x.dtype)) else widened(x) for x in operands]


def _is_coarse(array: np.ndarray) -> bool:
    if np.iscomplexobj(array):
        return False
    scaled = np.asarray(array, np.float64) * QUANTUM
    return bool(np.all(scaled == np.rint(scaled)))


@dataclass
class Verdict:
    """What is wrong with the outputs of a graph, and how many of their elements could be judged."""

    problems: list[str] = field(default_factory=list)
    elements: int = 0
    excluded: int = 0

    @property
    def informative(self) -> bool:
        return self.excluded <= MAX_EXCLUDED * self.elements


class Judge:
    """Judges results of one graph for one set of inputs, from as many compilers as there are."""

    def __init__(self, graph: Graph, inputs: Sequence[Any]) -> None:
        self.graph, self.inputs = graph, inputs

    @cached_property
    def runs(self) -> list[Contents]:
        """Without errors and with them."""
        return [interpret(self.graph, self.inputs, noise) for noise in (None, *noises())]

    def judge(self, results: Sequence[np.ndarray]) -> Verdict:
        """The verdict on ``results``, the outputs of the graph."""
        verdict = Verdict([p for v, r in zip(self.graph.outputs, results, strict=True) if (p := _misfit(v, r))])
        if verdict.problems:
            return verdict
        stored = dict(zip(self.graph.outputs, results, strict=True))
        wanted = interpret(self.graph, self.inputs, None, stored)
        for value, result in stored.items():
            self._judge_one(verdict, value, result, wanted[value])
        return verdict

    def _judge_one(self, verdict: Verdict, value: Value, actual: np.ndarray, expected: np.ndarray) -> None:
        moved = [run[value] for run in self.runs]
        verdict.elements += expected.size
        shapes = {m.shape for m in moved} | {expected.shape}
        if len(shapes) > 1:
            verdict.excluded += expected.size
            return
        if actual.shape != expected.shape:
            verdict.problems.append(f"{describe(value)}: shape {actual.shape}; expected {expected.shape}")
            return
        judge = judge_inexact if is_inexact(value.dtype) else judge_discrete
        good, excluded = judge(actual, expected, moved, _tolerance(value))
        verdict.excluded += int(np.count_nonzero(excluded))
        bad = np.argwhere(~(good | excluded))
        if len(bad):
            place = tuple(int(k) for k in bad[0])
            verdict.problems.append(f"{describe(value)}: {len(bad)} of {expected.size} elements differ; at {place}: "
                                    f"{actual[place]!r}; expected {expected[place]!r}")


def _tolerance(value: Value) -> tuple[float, float]:
    """Of a result, beside what errors move it; they tell all that a sum may be off but for its last rounding."""
    if value.producer is None:
        return 0.0, 0.0
    relative, to_largest = tolerance(accuracy_of(value.producer), value.dtype)
    return relative, 0.0 if value.producer.op in SUMS else to_largest


def _misfit(value: Value, result: np.ndarray) -> str:
    """What is wrong with kind and known sizes of a result."""
    if result.dtype != dtypes.numpy_dtype(value.dtype) or result.ndim != value.rank:
        return f"{describe(value)}: got {result.dtype}{list(result.shape)}"
    fits = all(not isinstance(d, int) or d == size for d, size in zip(value.shape, result.shape, strict=True))
    return "" if fits else f"{describe(value)}: got shape {result.shape}"


def describe(value: Value) -> str:
    node = value.producer
    if node is None:
        return f"%{value.name}"
    types = ", ".join("-" if v is None else str(v.type) for v in node.operands)
    return f"%{value.name} = {node.op}({types}) {node.attrs}"


Tolerance = tuple[float, float]
Judged = tuple[np.ndarray, np.ndarray]


def judge_discrete(actual: np.ndarray, expected: np.ndarray, moved: Sequence[np.ndarray], _tolerance: Tolerance) -> Judged:
    """Where elements are right, and where they are decided by errors."""
    decided = np.zeros(expected.shape, bool)
    for other in moved:
        decided |= np.asarray(other != expected, bool)
    return np.asarray(actual == expected, bool), decided


def judge_inexact(actual: np.ndarray, expected: np.ndarray, moved: Sequence[np.ndarray], tolerances: Tolerance) -> Judged:
    """Where elements are right, and where errors leave too little of them to tell."""
    name = dtypes.canonical(expected.dtype)
    relative, to_largest = tolerances
    wide, got = widened(expected), widened(actual)
    others = [widened(m) for m in moved]
    usual = np.isfinite(wide)
    for other in others:
        usual = usual & np.isfinite(other)
    special = np.logical_and.reduce([_same(other, wide) for other in others])
    with np.errstate(all="ignore"):
        slack = SLACK * np.max([np.abs(other - wide) for other in others], axis=0)
        allowed = relative * np.abs(wide) + to_largest * largest(wide) + slack
        near = np.abs(got - wide) <= allowed
        limit = max(0.01, 32 * epsilon(name)) * np.maximum(np.abs(wide), _typical(wide))
        lost = np.where(usual, slack > limit, ~special)
    return np.where(usual, near, _same(got, wide) | _beside_infinity(got, wide, relative)), lost


def _beside_infinity(got: np.ndarray, wide: np.ndarray, relative: float) -> np.ndarray:
    """Where parts of complex numbers are the same, or finite and close."""
    if not np.iscomplexobj(wide):
        return np.zeros(wide.shape, bool)
    with np.errstate(all="ignore"):
        parts = [_same(a, e) | (np.isfinite(a) & (np.abs(a - e) <= relative * np.abs(e)))
                 for a, e in ((got.real, wide.real), (got.imag, wide.imag))]
    return np.asarray(parts[0] & parts[1])


def _typical(wide: np.ndarray) -> float:
    finite = np.abs(wide[np.isfinite(wide)])
    return float(finite.mean()) if finite.size else 0.0


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))
