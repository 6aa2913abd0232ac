"""What the interpreter gives for the cases: ``python -m tests.frontends.tflite.record [--all] [NAME ...]``; needs ai-edge-litert.

Its reference kernels' results, and of quantised ones those of its fast kernels where they differ, are kept in one file, so that the
tests need no interpreter. Cases that are there already are kept, but for those whose names begin with a NAME, and with ``--all``.
"""

from __future__ import annotations

import argparse
import io
import lzma
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.frontends.tflite.case import Case, Range
from tests.frontends.tflite.cases import CASES

REFERENCE, PLAIN, FAST = "reference", "plain", "fast"
"""Kinds of kernels: "plain" ones are the interpreter's own, "fast" ones are XNNPACK's where it has any."""
WITHOUT_REFERENCE = ("ELU", "CEIL", "ROUND", "SEGMENT_SUM", "SUM")
"""Operators that the reference resolver does not have; its SUM of integers wraps them, and gives other numbers than any mean of them."""
FILE = Path(__file__).parent / "recorded.npz.xz"


@dataclass(frozen=True)
class Recorded:
    """What the interpreter's kernels give: reference ones, and fast ones."""

    reference: list[np.ndarray]
    fast: list[np.ndarray]


def kept() -> dict[str, Recorded]:
    """What the file has."""
    if not FILE.exists():
        return {}
    found: dict[str, Recorded] = {}
    with np.load(io.BytesIO(lzma.decompress(FILE.read_bytes())), allow_pickle=False) as stored:
        for key in stored.files:
            name, _, position = key.rpartition(":")
            if not position.endswith("+"):
                one = found.setdefault(name, Recorded([], []))
                one.reference.append(stored[key])
                one.fast.append(stored[key] + stored[key + "+"] if key + "+" in stored.files else stored[key])
    return found


def keep(recorded: Mapping[str, Recorded]) -> None:
    arrays: dict[str, np.ndarray] = {}
    for name in sorted(recorded, key=lambda name: (name.split("-")[1], name)):
        for k, (one, other) in enumerate(zip(recorded[name].reference, recorded[name].fast)):
            arrays[f"{name}:{k}"] = one
            if one.dtype.kind in "iu" and not np.array_equal(one, other):
                arrays[f"{name}:{k}+"] = other - one
    data = io.BytesIO()
    np.savez(data, **arrays)  # type: ignore[arg-type]
    FILE.write_bytes(lzma.compress(data.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def shapes_and_ranges(case: Case, recorded: Mapping[str, Recorded]) -> tuple[list[tuple[int, ...]], list[Range]]:
    """What the model of a case declares of its outputs."""
    own, floats = recorded.get(case.name), recorded.get(case.float_name)
    shapes = [] if own is None else [one.shape for one in own.reference]
    ranges = [] if floats is None else [(float(one.min(initial=0)), float(one.max(initial=0))) for one in floats.reference]
    return shapes, ranges


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


def record(case: Case, recorded: dict[str, Recorded]) -> Recorded:
    """The interpreter's results for a case; shapes of the outputs are known when it has run once."""
    _, ranges = shapes_and_ranges(case, recorded)
    data, inputs = case.made([], ranges)
    reference = PLAIN if case.row.op in WITHOUT_REFERENCE else REFERENCE
    first = run(data, inputs, reference)
    data, _ = case.made([one.shape for one in first], ranges)
    return Recorded(run(data, inputs, reference), run(data, inputs, PLAIN if case.row.op == "DEQUANTIZE" else FAST))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true", help="all cases anew")
    arguments = parser.parse_args()
    known: dict[str, Any] = kept()
    recorded: dict[str, Recorded] = {}
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
