"""Tensors in tuples, lists and dictionaries, as methods take and return them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_LEAF = object()
Structure = Any
"""The nested value with ``_LEAF`` in the place of all else."""


def flattened(nested: Any) -> tuple[list[Any], Structure]:
    """What is inside of ``nested``, in order, and how it is nested."""
    leaves: list[Any] = []

    def walk(part: Any) -> Structure:
        if isinstance(part, dict):
            return {name: walk(inner) for name, inner in part.items()}
        if isinstance(part, tuple) and hasattr(part, "_fields"):
            return type(part)(*map(walk, part))
        if isinstance(part, list | tuple):
            return type(part)(map(walk, part))
        leaves.append(part)
        return _LEAF

    return leaves, walk(nested)


def rebuilt(leaves: Sequence[Any], structure: Structure) -> Any:
    """The nested value of that structure with ``leaves`` in it."""
    return _rebuilt(iter(leaves), structure)


def _rebuilt(leaves: Iterator[Any], structure: Structure) -> Any:
    if structure is _LEAF:
        return next(leaves)
    if isinstance(structure, dict):
        return {name: _rebuilt(leaves, inner) for name, inner in structure.items()}
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*(_rebuilt(leaves, inner) for inner in structure))
    return type(structure)(_rebuilt(leaves, inner) for inner in structure)
