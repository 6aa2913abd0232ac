"""Cases of functions of ``forge.nn``, and how one is judged.

The function is called at once with constants, and in a method of a module with sizes known and unknown, which runs in the
interpreter and compiled. Results are compared with those of another library, element types included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import forge
from forge import dtypes, nn
from forge.ir.interp import run_graph
from forge.ir.op import Accuracy
from forge.nn import spec
from forge.nn.nested import flattened
from tests.ops.compare import mismatch


@dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        own: the call with tensors of ``forge.nn``.
        other: the same with arrays of NumPy.
        inputs: contents of the tensors.
        fixed: sizes that stay known where others are not; so does 1.
        exact: results are equal, not only close.
        grows: ``other`` is right for other sizes, too, which the compiled function gets then.
    """

    own: Callable[..., Any]
    other: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]
    fixed: frozenset[int]
    exact: bool
    grows: bool


def case(
    own: Callable[..., Any], other: Callable[..., Any], *inputs: Any, fixed: Sequence[int] = (), exact: bool = False,
    grows: bool = True,
) -> Case:  # fmt: skip
    """A case; equal sizes that are not ``fixed`` have one name."""
    return Case(own, other, tuple(map(np.asarray, inputs)), frozenset(fixed), exact, grows)


def function_of(name: str) -> str:
    """The function that the case called ``name`` is of."""
    return name.split("/")[0]


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Numbers around 0."""
    values = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return np.asarray(values).astype(dtypes.numpy_dtype(dtype))


def uniform(*shape: int, low: float = 0.1, high: float = 0.9, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Numbers between two."""
    values = np.random.default_rng([seed, *shape]).uniform(low, high, shape)
    return np.asarray(values).astype(dtypes.numpy_dtype(dtype))


def integers(*shape: int, low: int = 0, high: int = 9, dtype: str = "int64", seed: int = 0) -> np.ndarray:
    """Integers from ``low`` to below ``high``."""
    return np.asarray(np.random.default_rng([seed, *shape]).integers(low, high, shape)).astype(dtype)


def bools(*shape: int, seed: int = 0) -> np.ndarray:
    return integers(*shape, high=2, seed=seed).astype(bool)


class Calling(nn.Module):
    """The case as methods."""

    def __init__(self, of: Case) -> None:
        self.own = of.own

    def known(self, **inputs: nn.Tensor) -> Any:
        return self.own(*inputs.values())

    def unknown(self, **inputs: nn.Tensor) -> Any:
        return self.own(*inputs.values())


def exported(of: Case) -> forge.IRModule:
    """Its methods ``known`` and ``unknown``, by sizes of inputs."""

    def named(shape: tuple[int, ...]) -> list[int | str]:
        return [size if is_known(size, of) else f"n{size}" for size in shape]

    methods = {
        method: {
            f"x{k}": spec.Tensor(shaped(x.shape), dtypes.canonical(x.dtype)) for k, x in enumerate(of.inputs)
        } for method, shaped in (("known", list), ("unknown", named))
    }  # fmt: skip
    return Calling(of).export(methods)


def check(of: Case) -> None:
    """Judges the case everywhere."""
    expected = [np.asarray(leaf) for leaf in listed(of.other(*of.inputs))]
    judge(of, "constants", [t.numpy() for t in flattened(of.own(*map(nn.Tensor.from_const, of.inputs)))[0]], expected)
    ir = exported(of)
    for method in ("known", "unknown"):
        judge(of, f"{method}, interpreter", run_graph(ir[method], list(of.inputs)), expected)
    run = forge.compile(ir)
    for method in ("known", "unknown"):
        judge(of, f"{method}, compiled", listed(run[method](*of.inputs)), expected)
    if of.grows:
        inputs = [grown(x, of) for x in of.inputs]
        judge(of, "larger, compiled", listed(run["unknown"](*inputs)), [np.asarray(x) for x in listed(of.other(*inputs))])


def grown(x: np.ndarray, of: Case) -> np.ndarray:
    """The elements of ``x`` again and again, in a tensor whose unknown sizes are larger."""
    return np.resize(x, [size if is_known(size, of) else 2 * size + 1 for size in x.shape])


def is_known(size: int, of: Case) -> bool:
    return size == 1 or size in of.fixed


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, list | tuple) else [results]


def judge(of: Case, where: str, results: Sequence[Any], expected: Sequence[np.ndarray]) -> None:
    assert len(results) == len(expected), where
    for number, (result, wanted) in enumerate(zip(results, expected)):
        wrong = mismatch(result, wanted, Accuracy.EXACT if of.exact else Accuracy.ACCUMULATING)
        assert wrong is None, f"{where}, result {number}: {wrong}"


def convolution(x: np.ndarray, weight: np.ndarray, stride: int = 1, dilation: int = 1, groups: int = 1) -> np.ndarray:
    """By the definition, of any number of axes: ``(n, c, ...)`` and ``(o, c / groups, ...)``; nothing is padded."""
    rank = weight.ndim - 2
    spread = [dilation * (k - 1) + 1 for k in weight.shape[2:]]
    windows = np.lib.stride_tricks.sliding_window_view(x, spread, axis=tuple(range(2, 2 + rank)))
    windows = windows[(slice(None),) * 2 + (slice(None, None, stride),) * rank + (slice(None, None, dilation),) * rank]
    axes = [*range(2 + rank, 2 + 2 * rank)]
    parts = [
        np.tensordot(window, kernel, axes=([1, *axes], [1, *range(2, 2 + rank)]))
        for window, kernel in zip(np.split(windows, groups, axis=1), np.split(weight, groups, axis=0))
    ]
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)


def transposed_convolution(
    x: np.ndarray, weight: np.ndarray, stride: int = 1, padding: int = 0, extra: int = 0, dilation: int = 1, groups: int = 1
) -> np.ndarray:
    """By the definition: each element adds the kernel, times itself, to the result."""
    kernel = weight.shape[2:]
    sizes = [(n - 1) * stride + dilation * (k - 1) + 1 for n, k in zip(x.shape[2:], kernel)]
    result = np.zeros((x.shape[0], weight.shape[1] * groups, *sizes), x.dtype)
    for place in np.ndindex(*kernel):
        products = [
            np.moveaxis(np.tensordot(part, taps[(..., *place)], axes=([1], [0])), -1, 1)
            for part, taps in zip(np.split(x, groups, axis=1), np.split(weight, groups, axis=0))
        ]
        window = tuple(
            slice(dilation * k, dilation * k + (n - 1) * stride + 1, stride) for k, n in zip(place, x.shape[2:]))
        result[(slice(None), slice(None), *window)] += np.concatenate(products, axis=1)
    result = np.pad(result, [(0, 0), (0, 0), *[(0, max(extra - padding, 0))] * len(kernel)])
    ends = tuple(slice(padding, size - padding + extra) for size in sizes)
    return result[(slice(None), slice(None), *ends)]


def pooled(x: np.ndarray, kernel: Sequence[int], stride: int, fold: Callable[..., Any]) -> np.ndarray:
    """``fold`` of windows of ``(n, c, ...)``; nothing is padded."""
    rank = len(kernel)
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel, axis=tuple(range(2, 2 + rank)))
    windows = windows[(slice(None),) * 2 + (slice(None, None, stride),) * rank]
    return np.asarray(fold(windows, axis=tuple(range(-rank, 0))))


def padded(x: np.ndarray, *widths: int, value: float = 0.0) -> np.ndarray:
    """``(n, c, ...)`` with as many elements before and after."""
    return np.pad(x, [(0, 0), (0, 0), *((w, w) for w in widths)], constant_values=value)


def normalized(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    """``(x - mean) / sqrt(variance + eps)``."""
    return np.asarray((x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + np.asarray(eps, x.dtype)))


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    shifted = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis, keepdims=True))


def attention(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray | None = None, scale: float | None = None
) -> np.ndarray:
    """Of ``(batch, length, heads, size)``; a mask is bool or added."""
    groups = query.shape[2] // key.shape[2]
    key, value = (np.repeat(x, groups, axis=2) for x in (key, value))
    scores = np.einsum("bqhd,bkhd->bhqk", query, key) * (scale or 1 / math.sqrt(query.shape[3]))
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return np.asarray(np.einsum("bhqk,bkhd->bqhd", softmax(scores), value))
