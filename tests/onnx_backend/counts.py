"""Numbers of cases that each runtime passes, refuses, answers wrongly, crashes or hangs on: ``counts.json``,
for docs/reference/onnx_operators.md."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx

import forge
from tests.onnx_backend import cases
from tests.onnx_backend.peers import PACKAGES, version_of
from tests.onnx_backend.pool import KINDS, Outcome

OURS = ("interpreter", "frozen", "compiled")
"""Ways to run a model that are counted: those of ``cases.RUNTIMES`` in which nobody else's code takes part."""
FILE = Path(__file__).parent / "counts.json"
HEADER = f"{'runtime':12} {'version':12}" + "".join(f"{kind:>9}" for kind in KINDS)


@dataclass(frozen=True)
class Count:
    """Numbers of cases by what became of them, with the version of the runtime."""

    version: str
    passed: int = 0
    refused: int = 0
    wrong: int = 0
    crashed: int = 0
    hung: int = 0

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], version: str) -> Count:
        return cls(version, **Counter(o.kind for o in outcomes))


def version(runtime: str) -> str | None:
    """The version of one of our ways to run a model, or of a peer; None where it is not installed."""
    return version_of(runtime) if runtime in PACKAGES else forge.__version__


def line(runtime: str, count: Count) -> str:
    """One row below ``HEADER``."""
    return f"{runtime:12} {count.version:12}" + "".join(f"{getattr(count, kind):9}" for kind in KINDS)


def kept() -> dict[str, Count]:
    """What was counted last, by runtime."""
    return {runtime: Count(**numbers) for runtime, numbers in _read()["runtimes"].items()}


def left() -> list[dict[str, str]]:
    """The cases that one of our ways to run did not pass, what became of them, and why."""
    found: list[dict[str, str]] = _read()["left"]
    return found


def keep(runtime: str, version: str, outcomes: Mapping[str, Outcome]) -> Count:
    """Writes into ``counts.json`` what became of all cases; for one of our ways to run, of some: the others are as before."""
    data = _read()
    if runtime in OURS:
        kinds = {row["case"]: row["kind"] for row in data["left"] if runtime in row["runtimes"].split(", ")}
        kinds.update({case: o.kind for case, o in outcomes.items()})
        data["left"] = _left(data["left"], runtime, {case: kind for case, kind in kinds.items() if kind != "passed"})
        others = Counter(kind for kind in kinds.values() if kind != "passed")
        count = Count(version, len(cases.case_names()) - others.total(), **others)
    else:
        count = Count.of(outcomes.values(), version)
    data |= {"onnx": onnx.__version__, "cases": len(cases.case_names())}
    counts = data["runtimes"] | {runtime: asdict(count)}
    data["runtimes"] = {name: counts[name] for name in (*OURS, *PACKAGES) if name in counts}
    FILE.write_text(json.dumps(data, indent=1) + "\n")
    return count


def _read() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(FILE.read_text())
    return data


def _left(rows: list[dict[str, str]], runtime: str, kinds: Mapping[str, str]) -> list[dict[str, str]]:
    """``rows`` with those of ``runtime`` replaced; a case has a row for each kind of outcome."""
    runtimes: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        runtimes[row["case"], row["kind"]] = set(row["runtimes"].split(", ")) - {runtime}
    for case, kind in kinds.items():
        runtimes.setdefault((case, kind), set()).add(runtime)
    found = []
    for (case, kind), names in sorted(runtimes.items()):
        listed = ", ".join(n for n in OURS if n in names)
        if names:
            found.append({"case": case, "kind": kind, "runtimes": listed, "reason": _reason(names, case)})
    return found


def _reason(runtimes: set[str], case: str) -> str:
    return next((reason for r in sorted(runtimes) if (reason := cases.reason_for(r, case))), "")
