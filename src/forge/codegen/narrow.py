"""Floats narrower than 32 bits: their bits to float32 and back, in integer operations."""

from __future__ import annotations

from collections.abc import Callable

from forge.tir.expr import Expr

HELPERS: dict[str, Callable[..., Expr]] = {}
