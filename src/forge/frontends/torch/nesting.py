"""Modules that are nested deeply: tracing them takes more calls of Python in each other than calling them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from forge.errors import ImportModelError

if TYPE_CHECKING:
    import torch

FRAMES = 30
"""Calls of Python that torch makes for a module in another; 13 were counted."""

MAX_NESTING = 2000
"""Modules in each other; torch traces 1000 of them on a stack of 8 MiB with room to spare."""


@contextmanager
def deep_enough(model: torch.nn.Module, where: str) -> Iterator[None]:
    """Within it, Python allows the calls that tracing ``model`` takes.

    Raises:
        ImportModelError: its modules are nested more than `MAX_NESTING` deep.
    """
    depth = nesting(model)
    if depth > MAX_NESTING:
        raise ImportModelError(f"{where}: got a model of more than {MAX_NESTING} modules in each other; expected fewer")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + FRAMES * depth)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def nesting(model: torch.nn.Module) -> int:
    """How many modules are in each other; each is counted where it is first found, as some hold those that hold them."""
    depth, level, seen = 0, [model], {id(model)}
    while level:
        depth += 1
        inner = {id(child): child for module in level for child in module.children() if id(child) not in seen}
        seen.update(inner)
        level = list(inner.values())
    return depth
