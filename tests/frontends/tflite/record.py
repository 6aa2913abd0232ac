"""What the interpreter gives for the cases: ``python -m tests.frontends.tflite.record [--all] [NAME ...]``; needs ai-edge-litert.

Its reference kernels' results, and of quantized ones those of its fast kernels where they differ, are kept in one file, so that
the tests need no interpreter. Cases that are there already are kept, but for those whose names begin with a NAME; ``--all``
records all anew.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.frontends.tflite.case import Case, Range
from tests.frontends.tflite.cases import CASES

REFERENCE, PLAIN, FAST = "reference", "plain", "fast"
"""Kinds of kernels: "plain" ones are the interpreter's own, "fast" ones are XNNPACK's where it has any."""
WITHOUT_REFERENCE = ("ELU", "CEIL", "ROUND", "SEGMENT_SUM", "SUM")
"""Operators that the reference resolver does not have; its SUM of quantized integers lets them wrap."""
ABOUT = "about"
"""The entry of the file that has shapes and ranges."""
FILE = Path(__file__).parent / "recorded.npz.xz"


MAX_FLOATS = 64
"""Of float results, so many elements are kept, equally far apart; of integers, whose shares of equal ones are tested, all."""


@dataclass(frozen=True)
class Result:
    """An output of reference kernels.

    Attributes:
        range: of all its numbers, and 0.
        elements: those that are kept: each ``step``-th.
        fast: these by the interpreter's fast kernels; of integers only.
    """

    shape: tuple[int, ...]
    range: Range
    elements: np.ndarray
    fast: np.ndarray

    @property
    def step(self) -> int:
        return -(-math.prod(self.shape) // max(self.elements.size, 1)) or 1


def result(reference: np.ndarray, fast: np.ndarray) -> Result:
    step = -(-reference.size // MAX_FLOATS) or 1 if reference.dtype.kind in "fc" else 1
    one, other = (v.reshape(-1)[::step] for v in (reference, fast))
    real = reference.real
    extent = (float(real.min(initial=0)), float(real.max(initial=0))) if real.dtype.kind in "fiu" else (0.0, 0.0)
    return Result(reference.shape, extent, one, other if one.dtype.kind in "iu" else one)


def kept() -> dict[str, list[Result]]:
    """What the file has: results of cases by their names."""
    if not FILE.exists():
        return {}
    found: dict[str, list[Result]] = {}
    with np.load(io.BytesIO(lzma.decompress(FILE.read_bytes())), allow_pickle=False) as stored:
        described = json.loads(bytes(stored[ABOUT]))
        for name, outputs in described.items():
            for k, (shape, extent) in enumerate(outputs):
                one = stored[f"{name}:{k}"]
                other = one + stored[f"{name}:{k}+"] if f"{name}:{k}+" in stored.files else one
                found.setdefault(name, []).append(Result(tuple(shape), tuple(extent), one, other))
    return found


def keep(recorded: Mapping[str, Sequence[Result]]) -> None:
    described = {name: [(one.shape, one.range) for one in outputs] for name, outputs in recorded.items()}
    arrays = {ABOUT: np.frombuffer(json.dumps(described).encode(), np.uint8)}
    for name in sorted(recorded, key=lambda name: (name.split("-")[1], name)):
        for k, one in enumerate(recorded[name]):
            arrays[f"{name}:{k}"] = one.elements
            if one.elements.dtype.kind in "iu" and not np.array_equal(one.elements, one.fast):
                arrays[f"{name}:{k}+"] = one.fast - one.elements
    data = io.BytesIO()
    np.savez(data, **arrays)  # type: ignore[arg-type]
    FILE.write_bytes(lzma.compress(data.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def shapes_and_ranges(case: Case, recorded: Mapping[str, Sequence[Result]]) -> tuple[list[tuple[int, ...]], list[Range]]:
    """What the model of a case declares of its outputs."""
    return [one.shape for one in recorded.get(case.name, ())], [one.range for one in recorded.get(case.float_name, ())]


def run(data: bytes, inputs: Sequence[np.ndarray], kind: str) -> list[np.ndarray]:
    """The outputs of the interpreter with one kind of kernels."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = (
        OpResolverType.AUTO if kind == FAST else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if kind == PLAIN
        else OpResolverType.BUILTIN_REF)
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    for entry, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(entry["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(entry["index"]) for entry in interpreter.get_output_details()]


def record(case: Case, recorded: Mapping[str, Sequence[Result]]) -> list[Result]:
    """The interpreter's results for a case; shapes of the outputs are known when it has run once."""
    _, ranges = shapes_and_ranges(case, recorded)
    data, inputs = case.made([], ranges)
    reference = PLAIN if case.row.op in WITHOUT_REFERENCE else REFERENCE
    first = run(data, inputs, reference)
    data, _ = case.made([one.shape for one in first], ranges)
    fast = run(data, inputs, PLAIN if case.row.op == "DEQUANTIZE" else FAST)
    return [result(one, other) for one, other in zip(run(data, inputs, reference), fast, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true", help="all cases anew")
    arguments = parser.parse_args()
    known = kept()
    recorded: dict[str, list[Result]] = {}
    for case in CASES:
        again = arguments.all or case.name not in known or any(case.name.startswith(name) for name in arguments.names)
        try:
            recorded[case.name] = record(case, recorded) if again else known[case.name]
        except (RuntimeError, ValueError) as error:
            sys.stdout.write(f"{case.name}: {str(error).strip()}\n")
    keep(recorded)
    sys.stdout.write(f"{len(recorded)} of {len(CASES)} cases; {FILE.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
