"""Rows of operators, in folders as the operators in ``forge.ops``; ``sweep`` and ``sweep_variants`` make more of them."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from typing import Any


def written() -> list[Any]:
    """The rows that stand in the families' folders, in order of operators: random graphs depend on no file names."""
    return sorted(_rows(3), key=lambda case: str(case.op))


def made() -> list[Any]:
    """The rows that are made from what operators declare."""
    return _rows(2)


def _rows(depth: int) -> list[Any]:
    names = sorted(m.name for m in walk_packages(__path__, "tests.ops.cases.") if not m.ispkg and m.name.count(".") == depth + 1)
    return [case for name in names for case in import_module(name).CASES]
