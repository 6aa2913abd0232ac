"""The cases of the onnx package's backend suite, and the lists that say what is expected of them."""

from __future__ import annotations

import fnmatch
import os
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NODES = "FORGE_ONNX_NODES"
"""The environment variable that names a folder of cases of single nodes, in files."""

RUNTIMES = ("interpreter", "frozen", "compiled", "exported")


@dataclass(frozen=True)
class Exclusion:
    """Cases that need not pass, and why."""

    runtimes: tuple[str, ...]
    pattern: str
    reason: str

    def covers(self, runtime: str, case: str) -> bool:
        return runtime in self.runtimes and fnmatch.fnmatchcase(case, self.pattern)


@cache
def collect() -> dict[str, Any]:
    """All cases by name: those of single nodes, made in memory, and those in files. Takes some seconds."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        from tests.onnx_backend.stored import stored_cases, stored_nodes

        made = {case.name: case for case in collect_testcases(None)}
        nodes = stored_nodes(Path(os.environ[NODES]), made) if NODES in os.environ else ()
        return made | {case.name: case for case in [*stored_cases(), *nodes]}


def case_names() -> list[str]:
    """Names of all cases, sorted."""
    return sorted(collect())


def pass_list(runtime: str) -> set[str]:
    """Cases that must pass."""
    return set((HERE / f"{runtime}.txt").read_text().split())


def write_pass_list(runtime: str, names: set[str]) -> None:
    (HERE / f"{runtime}.txt").write_text("".join(f"{name}\n" for name in sorted(names)))


def exclusions() -> list[Exclusion]:
    """``excluded.txt``: lines ``runtime | pattern | reason``; the runtime ``*`` stands for all."""
    found = []
    for line in (HERE / "excluded.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            runtime, pattern, reason = (part.strip() for part in line.split("|", 2))
            found.append(Exclusion(RUNTIMES if runtime == "*" else (runtime,), pattern, reason))
    return found


def may_pass(runtime: str, case: str) -> bool:
    """Whether a case need not pass, but does on some machines."""
    return (reason_for(runtime, case) or "").startswith("on some machines: ")


def reason_for(runtime: str, case: str) -> str | None:
    """Why the case need not pass; None when it must."""
    return next((e.reason for e in exclusions() if e.covers(runtime, case)), None)
