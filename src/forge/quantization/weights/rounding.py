"""Codes for the rows of a weight: to the nearest, or so that later columns make up for the errors of earlier ones.

``compensated`` is GPTQ (Frantar et al., "GPTQ: accurate post-training quantization for generative pre-trained transformers",
2023): columns are rounded one by one, and what an error does to the results of the layer is taken from the columns that are left,
as the Gram matrix of the layer's inputs says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from forge.quantization.observed.ranges import MIN_SCALE

RATIOS = np.linspace(1, 0.5, 21)
"""Of the range of a block, with few bits: the one is chosen that gives the least squared error."""
SEARCHED_BITS = 4
COLUMNS = 128
"""Columns that are rounded before the rest of the weight is corrected for all of them."""
DAMPING = 0.01
"""Of the mean of the diagonal, added to it: inputs that samples lack, or that depend on others."""
SMALL = 64
"""Triangular matrices of this size are inverted as others are."""
CHUNK = 1 << 22
"""Elements that are rounded at a time."""


@dataclass(frozen=True)
class Steps:
    """The numbers that codes stand for: ``(code - zero) * scale``, with a scale and a zero point for each block, ``[..., 1]``.

    Attributes:
        zero: whole numbers, as float32.
        low, high: the least and the greatest code.
    """

    scale: np.ndarray
    zero: np.ndarray
    low: int
    high: int

    def codes(self, numbers: np.ndarray) -> np.ndarray:
        """Returns the codes of numbers, as float32."""
        found: np.ndarray = np.clip(np.rint(numbers / self.scale) + self.zero, self.low, self.high)
        return found

    def real(self, codes: np.ndarray) -> np.ndarray:
        found: np.ndarray = (codes - self.zero) * self.scale
        return found

    def error(self, numbers: np.ndarray, importance: np.ndarray | None) -> np.ndarray:
        """Sums the squared errors of each block, ``[..., 1]``, weighted by ``importance``."""
        squares = np.square(numbers - self.real(self.codes(numbers)))
        found: np.ndarray = (squares if importance is None else squares * importance).sum(axis=-1, keepdims=True)
        return found


Fit = Callable[[np.ndarray, np.ndarray | None], Steps]
"""Steps for blocks ``[..., G]`` and the importance of their elements, which broadcasts with them; None: all count alike."""


@dataclass(frozen=True)
class Rounded:
    """A weight ``[N, K]`` in blocks of ``group`` columns.

    Attributes:
        codes: ``[N, K]``, int16.
        scale, zero: ``[N, K / group]``; zero is int16.
        low: the least possible code.
    """

    codes: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    group: int
    low: int

    @property
    def real(self) -> np.ndarray:
        """float32"""
        blocks = self.codes.reshape(len(self.codes), -1, self.group)
        wide: np.ndarray = (blocks - self.zero[..., None]).astype(np.float32) * self.scale[..., None]
        return wide.reshape(self.codes.shape)


def fit_steps(bits: int, symmetric: bool) -> Fit:
    """Returns the way to find steps of ``bits``: around 0 without a zero point, or unsigned with one."""

    def fit(blocks: np.ndarray, importance: np.ndarray | None) -> Steps:
        make = _symmetric if symmetric else _with_zero
        best = make(blocks, bits, 1.0)
        if bits > SEARCHED_BITS:
            return best
        least = best.error(blocks, importance)
        for ratio in RATIOS[1:]:
            found = make(blocks, bits, float(ratio))
            error = found.error(blocks, importance)
            better = error < least
            least = np.where(better, error, least)
            best = replace(best, scale=np.where(better, found.scale, best.scale), zero=np.where(better, found.zero, best.zero))
        return best

    return fit


def _symmetric(blocks: np.ndarray, bits: int, ratio: float) -> Steps:
    most = (1 << (bits - 1)) - 1
    size = np.abs(blocks).max(axis=-1, keepdims=True)
    scale = np.maximum(size * (ratio / most), MIN_SCALE).astype(np.float32)
    return Steps(scale, np.zeros_like(scale), -most - (bits <= SEARCHED_BITS), most)


def _with_zero(blocks: np.ndarray, bits: int, ratio: float) -> Steps:
    most = (1 << bits) - 1
    low = np.minimum(blocks.min(axis=-1, keepdims=True), 0) * ratio
    high = np.maximum(blocks.max(axis=-1, keepdims=True), 0) * ratio
    scale = np.maximum((high - low) / most, MIN_SCALE).astype(np.float32)
    return Steps(scale, np.clip(np.rint(-low / scale), 0, most).astype(np.float32), 0, most)


def nearest(weight: np.ndarray, group: int, fit: Fit, importance: np.ndarray | None = None) -> Rounded:
    """Rounds each element of ``weight [N, K]`` to the nearest code.

    Args:
        importance: ``[K]``, of columns, where steps are chosen.
    """
    depth, parts = weight.shape[1], []
    weights = None if importance is None else importance.reshape(-1, group)
    rows = max(1, CHUNK // depth)
    for first in range(0, len(weight), rows):
        blocks = weight[first : first + rows].reshape(-1, depth // group, group).astype(np.float32)
        steps = fit(blocks, weights)
        codes, zero = steps.codes(blocks).reshape(-1, depth).astype(np.int16), steps.zero[..., 0].astype(np.int16)
        parts.append(Rounded(codes, steps.scale[..., 0], zero, group, steps.low))
    return joined(parts)


def compensated(weight: np.ndarray, gram: np.ndarray, group: int, fit: Fit, by_size: bool = False) -> Rounded:
    """Rounds the columns of ``weight [N, K]`` one by one, and corrects those that are left for the errors in the results.

    Args:
        gram: ``[K, K]``, sum of ``x x^T`` over the layer's inputs.
        group: columns of a block; a whole part of K. Its steps are chosen when its first column is reached.
        by_size: the columns of the largest inputs come first; steps are those of the real weight then.
    """
    diagonal = np.diagonal(gram)
    order = np.argsort(-diagonal, kind="stable") if by_size else np.arange(len(gram))
    factor = inverse_factor(gram[np.ix_(order, order)])
    left = np.ascontiguousarray(weight.T[order], np.float32)  # what the columns should be, with the errors so far made up for
    codes = np.empty(left.shape, np.int16)

    def chosen(block: int, numbers: np.ndarray) -> Steps:
        return fit(numbers, np.asarray(diagonal[block * group : (block + 1) * group], np.float32))

    real = np.split(np.asarray(weight, np.float32), len(gram) // group, axis=1)
    blocks = [chosen(block, numbers) for block, numbers in enumerate(real)] if by_size else []
    for first, last in _spans(len(left), group):
        errors = np.empty((last - first, left.shape[1]), np.float32)
        for k in range(first, last):
            if not by_size and k % group == 0:
                blocks.append(chosen(k // group, left[k : k + group].T))
            steps, column = blocks[int(order[k]) // group], left[k][:, None]
            found = steps.codes(column)
            codes[k] = found[:, 0]
            errors[k - first] = (column - steps.real(found))[:, 0] / factor[k, k]
            left[k + 1 : last] -= np.outer(factor[k, k + 1 : last], errors[k - first])
        left[last:] -= factor[first:last, last:].T @ errors
    scale, zero = (np.concatenate([getattr(steps, name) for steps in blocks], axis=1) for name in ("scale", "zero"))
    return Rounded(np.ascontiguousarray(codes[np.argsort(order)].T), scale, zero.astype(np.int16), group, blocks[0].low)


def inverse_factor(gram: np.ndarray) -> np.ndarray:
    """Returns the upper triangular U, float32, with ``U^T U`` the inverse of the damped matrix.

    With rows and columns in reverse order, the Cholesky factor of the matrix is that of ``R R^T``, with R upper triangular; U is
    its inverse.
    """
    matrix = np.array(gram[::-1, ::-1], np.float64)
    mean = float(np.trace(matrix)) / len(matrix) or 1.0
    damping = DAMPING * mean
    while True:
        matrix[np.diag_indices_from(matrix)] += damping
        try:
            upper = np.linalg.cholesky(matrix)[::-1, ::-1].astype(np.float32)
            break
        except np.linalg.LinAlgError:
            damping *= 10
    _invert_upper(upper)
    return upper


def _invert_upper(matrix: np.ndarray) -> None:
    """In place, by halves: ``[[A, B], [0, C]]`` becomes ``[[A', -A' B C'], [0, C']]``."""
    half = len(matrix) // 2
    if len(matrix) <= SMALL:
        matrix[:] = np.triu(np.linalg.inv(matrix))
        return
    first, second = matrix[:half, :half], matrix[half:, half:]
    _invert_upper(first)
    _invert_upper(second)
    matrix[:half, half:] = -(first @ matrix[:half, half:]) @ second


def _spans(depth: int, group: int) -> list[tuple[int, int]]:
    """Ranges of columns that are rounded together; none straddles a block of scales."""
    step = group if group >= COLUMNS else COLUMNS // group * group
    return [(first, min(first + COLUMNS, start + step, depth))
            for start in range(0, depth, step) for first in range(start, min(start + step, depth), COLUMNS)]


def joined(parts: Sequence[Rounded]) -> Rounded:
    """Returns the rows of several weights as those of one."""
    codes, scale, zero = (np.concatenate([getattr(p, name) for p in parts]) for name in ("codes", "scale", "zero"))
    return Rounded(codes, scale, zero, parts[0].group, parts[0].low)


def energy(rows: np.ndarray, matrices: np.ndarray | None) -> float:
    """Sums the squares of the results that a weight gives, or of the weight.

    Args:
        matrices: Gram matrices, one for each group of rows; None: of the weight.
    """
    if matrices is None:
        return error(rows, np.zeros_like(rows))
    parts = rows.reshape(len(matrices), -1, rows.shape[1])
    return sum(error(p, np.zeros_like(p), m) for p, m in zip(parts, matrices))


def error(rows: np.ndarray, real: np.ndarray, gram: np.ndarray | None = None) -> float:
    """Sums the squared differences of the results that two weights ``[N, K]`` give; without ``gram``, of the weights."""
    difference = rows - real
    products = difference if gram is None else difference @ gram.astype(np.float32)
    return float(np.sum(products * difference, dtype=np.float64))
