"""What became of each operator or module of a database, in a text file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from tests.torch_databases import cases, compare

FOLDER = Path(__file__).parent
OK, WRONG, NOT_EXPORTED, NO_SAMPLES, DIED = "ok", "wrong", "not exported", "no samples", "died"
STATES = (OK, WRONG, NOT_EXPORTED, NO_SAMPLES, DIED)
"""``ok``: all samples that torch exports agree; ``wrong``: one does not, or is refused."""


@dataclass(frozen=True)
class Database:
    """``operators`` or ``modules``, for one element type. A list may hold a part of the names."""

    kind: str
    dtype: str

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.kind}-{self.dtype}.txt"

    def names(self) -> list[str]:
        return cases.module_names() if self.kind == "modules" else cases.operator_names()

    def read(self) -> dict[str, str]:
        """States by name."""
        if not self.path.exists():
            return {}
        parts = [line.partition(": ") for line in self.path.read_text().splitlines() if not line.startswith("#")]
        return {name: state for name, _, state in parts}

    def write(self, states: dict[str, str]) -> None:
        lines = [f"{name}: {state}" for name, state in sorted(states.items())]
        text = f"# Written by python -m tests.torch_databases --update for torch {torch.__version__.partition('+')[0]}\n"
        self.path.write_text(text + "\n".join(lines) + "\n")

    def outcome(self, name: str, *, compiled: bool = True) -> tuple[str, str]:
        """The state of an operator or module, and how many samples agree, with the first message."""
        dtype = getattr(torch, self.dtype)
        found = cases.module_cases(name, dtype) if self.kind == "modules" else cases.operator_cases(name, dtype)
        outcomes = [compare.outcome(case, compiled=compiled) for case in found]
        exported = [o for o in outcomes if o != NOT_EXPORTED]
        wrong = [o for o in exported if o != OK]
        state = NO_SAMPLES if not outcomes else NOT_EXPORTED if not exported else WRONG if wrong else OK
        return state, f"({len(exported) - len(wrong)} of {len(exported)})" + (f": {wrong[0]}" if wrong else "")


def listed() -> list[Database]:
    """Those that have a list."""
    return [Database(*path.stem.split("-")) for path in sorted(FOLDER.glob("*-*.txt"))]
