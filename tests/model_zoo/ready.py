"""A model that is ready to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NOISE = 0.02
"""Added to every parameter, in standard deviations of one."""


@dataclass
class Ready:
    """A model with its inputs by name, and in words how it was made."""

    model: Any
    inputs: dict[str, Any]
    recipe: str


def line(error: BaseException) -> str:
    """The first line of a message that says something, with the kind of error."""
    text = [part for part in str(error).strip().splitlines() if part.strip()]
    says = text[1 if "validation error" in text[0] and len(text) > 1 else 0].strip() if text else ""
    return f"{type(error).__name__}: {says[:200]}"
