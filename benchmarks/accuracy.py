"""Largest error of each transcendental operator, in units in the last place, over float32 values.

    python -m benchmarks.accuracy --every 97

One compiled graph per operator takes every ``--every``-th float32 bit pattern (1: all of them; -NaN to NaN); the truth is NumPy
in float64. An ulp is the distance between the float32 values around the true one, subnormal ones included. Values whose truth
is not a finite float32 must give the same infinity or NaN, or are counted as wrong. ``--write`` stores the table in
``docs/accuracy.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forge import dims
from forge.driver import compile_module
from forge.ir.builder import Builder
from forge.ir.nodes import Module
from forge.ir.op import get_op
from forge.ir.types import TensorType
from forge.target import Target

OPERATORS = (
    "exp expm1 log log2 log10 log1p sqrt rsqrt reciprocal erf sigmoid tanh sin cos tan asin acos atan sinh cosh asinh acosh "
    "atanh nn.gelu nn.silu nn.softplus nn.softsign nn.mish nn.elu nn.selu"
).split()
PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"
CHUNK = 1 << 20
PATTERNS = 1 << 32
SMALLEST = 2.0**-149

HEADING = """# Accuracy of elementwise functions

Errors in float32, in units in the last place (ulp), over {count} float32 values ({share}), against NumPy in float64.
`at` is where the largest error occurs; *wrong* counts values where one side is infinite or NaN and the other is not.
Compiled for `{target}`; measured with `python -m benchmarks.accuracy --every {every} --write`.

`nn.gelu` follows its formula: 1 + erf(x / sqrt(2)) cancels where x is below -3, so that errors are small beside 1, but
large beside the result; results of `nn.silu` and `nn.mish` that are subnormal have fewer digits.

| operator | largest error (ulp) | at | mean error (ulp) | wrong |
| --- | --- | --- | --- | --- |
"""


@dataclass
class Errors:
    """What is known of one operator so far."""

    name: str
    largest: float = 0.0
    at: float = 0.0
    total: float = 0.0
    count: int = 0
    wrong: int = 0

    def add(self, x: np.ndarray, actual: np.ndarray, truth: np.ndarray) -> None:
        rounded = truth.astype(np.float32)
        finite = np.isfinite(rounded) & np.isfinite(actual)
        same = (actual == rounded) | (np.isnan(actual) & np.isnan(rounded))
        self.wrong += int(np.count_nonzero(~finite & ~same))
        errors = np.where(finite, np.abs(actual.astype(np.float64) - truth) / ulp(truth), 0.0)
        worst = int(np.argmax(errors))
        if errors[worst] > self.largest:
            self.largest, self.at = float(errors[worst]), float(x[worst])
        self.total += float(errors.sum())
        self.count += int(np.count_nonzero(finite))

    def row(self) -> str:
        mean = self.total / max(1, self.count)
        return f"| `{self.name}` | {self.largest:.2f} | {self.at:.9g} | {mean:.3f} | {self.wrong} |\n"


def ulp(truth: np.ndarray) -> np.ndarray:
    """The distance of float32 values at ``truth``."""
    exponents = np.frexp(np.where(np.isfinite(truth), truth, 1.0))[1]
    return np.asarray(np.maximum(np.ldexp(1.0, exponents - 24), SMALLEST))


def compiled(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """The operator as machine code, on vectors of any size."""
    builder = Builder()
    graph = builder.output(builder.call(name, builder.input(TensorType((dims.symbol("n"),), "float32"), "x")))
    graph.outputs[0].name = "y"
    runtime = compile_module(Module(graph), use_cache=False).runtime()
    return lambda x: np.asarray(runtime(x))


def reference(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """The operator's meaning, evaluated in float64."""
    op = get_op(name)
    attrs: Any = op.make_attrs({})
    return lambda x: np.asarray(op.reference([x.astype(np.float64)], attrs)[0])


def chunks(every: int) -> Iterator[np.ndarray]:
    """The float32 values of every ``every``-th bit pattern."""
    for first in range(0, PATTERNS, CHUNK * every):
        yield np.arange(first, min(first + CHUNK * every, PATTERNS), every, dtype=np.uint64).astype(np.uint32).view(np.float32)


def measure(names: Sequence[str], every: int) -> list[Errors]:
    found = []
    for name in names:
        run, truth, errors = compiled(name), reference(name), Errors(name)
        with np.errstate(all="ignore"):
            for x in chunks(every):
                errors.add(x, run(x), truth(x))
        found.append(errors)
        print(errors.row(), end="", flush=True)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--operators", default=",".join(OPERATORS), help="comma-separated")
    parser.add_argument("--every", type=int, default=97, help="take one of this many float32 values")
    parser.add_argument("--write", action="store_true", help="store the table in docs/accuracy.md")
    options = parser.parse_args(argv)
    errors = measure(options.operators.split(","), options.every)
    if options.write:
        share = "all" if options.every == 1 else f"every {options.every}th bit pattern"
        features = str(Target.parse("llvm"))
        count = f"{-(-PATTERNS // options.every):,}"
        head = HEADING.format(count=count, share=share, target=features, every=options.every)
        PAGE.write_text(head + "".join(e.row() for e in errors), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
