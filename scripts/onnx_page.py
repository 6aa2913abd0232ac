"""Writes ``docs/reference/onnx_operators.md``: the backend suite of ONNX, with us and with other runtimes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

COUNTS = Path(__file__).parent.parent / "tests" / "onnx_backend" / "counts.json"
KINDS = ("passed", "refused", "wrong", "crashed", "hung")
NAMES = {"reference": "onnx reference"}

HEADING = """# ONNX operators

`forge support onnx` lists all operators and their versions, `forge support model.onnx` what a model needs.

## The backend suite

All {cases:,} CPU cases of the suite in onnx {onnx}, counted by `python -m tests.onnx_backend --count`. They run in worker
processes, so that a crash or a hang is charged to its case; results are compared by exact element type and shape, and within the
tolerances of the case. *Refused*: an error was raised. *Wrong*: there was a result, and not the expected one.

- Ours: `compiled` has compiled the model before it sees an input, `interpreter` evaluates the operators' NumPy meanings, `frozen`
  does so with all inputs but the first as constants.
- `onnx reference` is the NumPy implementation in the onnx package, which made the expected results. onnxruntime is asked to take
  opsets newer than it was released for.

| runtime | version | passed | refused | wrong | crashed | hung |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
"""

LEFT = """
## What is left

| case | runtimes | outcome | reason |
| --- | --- | --- | --- |
"""


def onnx_page() -> str:
    """The text of the page, from what was counted last."""
    data = json.loads(COUNTS.read_text(encoding="utf-8"))
    return HEADING.format(**data) + _counts(data["runtimes"]) + LEFT + _left(data["left"])


def _counts(runtimes: dict[str, dict[str, Any]]) -> str:
    rows = []
    for runtime, count in runtimes.items():
        numbers = " | ".join(f"{count[kind]:,}" for kind in KINDS)
        rows.append(f"| {NAMES.get(runtime, runtime)} | {count['version']} | {numbers} |\n")
    return "".join(rows)


def _left(cases: list[dict[str, str]]) -> str:
    return "".join(f"| `{row['case']}` | {row['runtimes']} | {row['kind']} | {row['reason']} |\n" for row in cases)
