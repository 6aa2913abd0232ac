"""What becomes of damaged models, in any format: a module, or a clear error, in little time and memory."""

from __future__ import annotations

import faulthandler
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tests.frontends.onnx.fuzz.worker import SECONDS, Finding, attempt

MEMORY = 4 << 30
"""Bytes of address space."""
SILENT = 120
"""Seconds of wall time after which a model that Python cannot interrupt ends the run, with a trace of where it is."""


def outcome(load: Callable[[], Any]) -> str:
    """What became of a model.

    Raises:
        Finding: it is neither a module nor a clear error, or took too long.
    """
    faulthandler.dump_traceback_later(SILENT, exit=True)
    begin = time.process_time()
    found = attempt("import", load)
    if not isinstance(found, str):
        attempt("print", lambda: str(found))
    if (seconds := time.process_time() - begin) > SECONDS:
        raise Finding(f"hang: {seconds:.1f} s")
    return found if isinstance(found, str) else "model"


def outcomes(mutants: Iterable[tuple[str, Callable[[], Any]]]) -> tuple[Counter[str], list[str]]:
    """How many mutants had which outcome, and what was found; each is what it is called, and what loads it.

    The timer of `outcome`, which ends the process, does not run on: other tests follow in it.
    """
    counts, findings = Counter[str](), []
    try:
        for label, load in mutants:
            try:
                counts[outcome(load)] += 1
            except Finding as finding:
                findings.append(f"{label}: {finding}")
    finally:
        faulthandler.cancel_dump_traceback_later()
    return counts, findings
