"""The measured accuracy of elementwise functions: ``accuracy.json``, and the page made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

STORE = Path(__file__).parent / "accuracy.json"
ALL = 1 << 32

HEADING = """# Accuracy

How exact elementwise functions are, what [sums](#sums) lose, and [what changes bits](#what-changes-bits).

## Elementwise functions

Errors of compiled code in units in the last place (ulp) of the result's type: the distance between the numbers around the true
result, subnormal ones included. Half an ulp is the best that rounding can do. The truth comes from code that shares nothing with
Forge: for float32 and narrower types the vector functions of glibc in double precision, for float64 mpmath with 60 digits.

- float32: over the number of *values* given, 4,294,967,296 being all there are. `at` is where the largest error occurs; *wrong*
  counts results whose NaN, infinity or sign of zero is not the true one. Two operands: random pairs, half of them of every
  magnitude, half where results are ordinary.
- float64: the largest error of random numbers of every magnitude and in the usual ranges.
- float16 and bfloat16 are computed in float32 and rounded once: the largest error over all 65,536 values. `erf`, `tanh`,
  `sigmoid`, `nn.gelu`, `nn.silu`, `nn.softplus` and `nn.mish` of bfloat16 have shorter formulas of their own.

`python -m benchmarks.accuracy --write` measures again, and `python -m scripts.write_docs` writes this page from
`benchmarks/accuracy.json`; tests hold compiled code to these numbers. The results of `nn.gelu`, `nn.silu` and `nn.mish` have all
their digits for negative operands too; at minus infinity they are NaN, as in PyTorch.

| function | float32 | at | mean | wrong | values | float64 | float16 | bfloat16 |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""

BITS = """
## Sums

The error of long sums does not grow with the number of terms n. Bounds are relative to the sum of the terms' absolute values, in
units u of half a place after 1: 2^-24 for float32, 2^-53 for float64. Errors are mostly far smaller, as roundings cancel.
`python -m pytest tests/ops/test_long_sums.py` compares 2^24 terms with float64.

- `sum`, `mean`, norms, losses, `variance`, `logsumexp`, `nn.softmax`, normalizations, pools over whole images: an accumulator
  adds at most 256 terms, or blocks of 128, whose totals keep what rounding takes from them (two-sum); then come its lanes. 256
  u and one more for each halving. Windows that overlap are added axis by axis: as many u as they have steps along all axes.
- `cumsum`, `logcumsumexp`: the same, in blocks of 32 terms or vectors; at most 256 terms in order. 256 u.
- `prod`, `cumprod`: every factor rounds, in whatever order. float32 of more than 256 factors is multiplied in float64: 1 u.
  float64: n u, as there is no wider type.
- `nn.dense`, `nn.matmul`: K in parts of at most 512 terms, of constant weights at most 4096 for an accumulator; a part is added
  to those before. More than 32 parts of `nn.matmul`, or a number that is a symbol, are blocks, as above.
- `nn.attention`: keys in blocks, whose sums are rescaled whenever a larger score comes, and added in order: 256 u and one more
  for each 256 keys. At 131,072 keys, all values alike, 270 u were measured.
- Convolutions: an accumulator adds what is under a window in order, channel by channel: n u, where n is the size of one filter,
  which does not grow with the data. Windows over most of an image are products, as above.
- `scatter_nd` and `scatter_elements` that add or multiply do so in the order of updates: n u, as in eager PyTorch. In float64,
  1 u, where there are 256 times as many updates as elements of the result, or more than 4096, or a number that is a symbol,
  for at most 16,384 elements: larger results in wider numbers take up to twice the time.
- `segment_reduce`: in float64, 1 u, unless there are known to be fewer than 256 rows for each segment; then n u.

float16 and bfloat16 are added in float32 and rounded once. Integers wrap, and lose nothing else.

## What changes bits

The same model, inputs and processor give the same bits, run for run. For models whose operators do not mix the elements of a
batch, tests (`tests/driver/test_bits.py`) hold compiled code to this:

- The number of threads changes no bits, nor does what else runs meanwhile.
- The place of an element in a batch and the other elements change no bits.
- In a model that was compiled for a batch of any size (a symbol), the size changes no bits, with one exception: a matrix
  product (`nn.dense`, `nn.matmul`) of a single row, as a batch of 1 has it, runs as a product of a matrix and a vector and adds
  in another order. Batches of 2 and more agree with each other, to the bit.

These do change bits, within the accuracy that each operator states:

- A batch size that is fixed when the model is compiled: loops are then shaped for it. Where bits must not depend on it, compile
  once with a symbol.
- Another target, optimization level, tuning, or version of Forge.
- The floating-point environment of the thread that calls: rounding mode, and whether subnormal numbers are flushed
  (`torch.set_flush_denormal`). It holds in every thread of the call. Exceptions are masked meanwhile, and the caller's flags are
  as before afterwards.
"""


@dataclass(frozen=True)
class Errors:
    """Errors of one function in one element type.

    Attributes:
        largest: in ulp.
        at: the operands where it occurs.
        mean: over all values, in ulp.
        wrong: how many results are NaN, infinite or zero of the wrong kind.
        values: how many were measured.
    """

    largest: float
    at: tuple[float, ...]
    mean: float
    wrong: int
    values: int


Results = dict[str, dict[str, Errors]]
"""By function, then by element type."""


def load(path: Path | None = None) -> Results:
    """What ``accuracy.json``, or a file like it, holds."""
    path = path or STORE
    if not path.is_file():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))
    return {name: {dtype: _errors(e) for dtype, e in by_type.items()} for name, by_type in stored.items()}


def _errors(stored: dict[str, Any]) -> Errors:
    return Errors(**{**stored, "at": tuple(stored["at"])})


def save(results: Mapping[str, Mapping[str, Errors]], order: Mapping[str, object]) -> None:
    """Writes ``results``, functions in the order of ``order``."""
    stored = {name: {dtype: asdict(e) for dtype, e in results[name].items()} for name in order if name in results}
    STORE.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def bound(errors: Errors) -> float:
    """The documented bound: the largest error, rounded up to a tenth."""
    return -(-round(errors.largest * 1000) // 100) / 10


def page() -> str:
    """The text of ``docs/reference/accuracy.md``."""
    return HEADING + "".join(_row(name, by_type) for name, by_type in load().items()) + BITS


def _row(name: str, by_type: Mapping[str, Errors]) -> str:
    single = by_type["float32"]
    at = ", ".join(f"{v:.9g}" for v in single.at)
    others = (f"{by_type[t].largest:.3g}" if t in by_type else "" for t in ("float64", "float16", "bfloat16"))
    cells = [f"`{name}`", f"{single.largest:.2f}", at, f"{single.mean:.3f}", str(single.wrong), f"{single.values:,}", *others]
    return f"| {' | '.join(cells)} |\n"


def summary(operator: str) -> str:
    """The measured accuracy of an operator in a few words; empty where nothing is measured."""
    texts = [_words(name.partition(" ")[2], types["float32"]) for name, types in load().items() if name.split(" ")[0] == operator]
    return "; ".join(texts)


def _words(attributes: str, errors: Errors) -> str:
    things = "pairs of float32" if len(errors.at) > 1 else "float32 values"
    extent = f"all {things}" if errors.values == ALL else f"{errors.values:,} {things}"
    return f"at most {bound(errors):.1f} ulp over {extent}" + (f" for `{attributes}`" if attributes else "")
