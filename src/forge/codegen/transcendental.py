"""Elementary functions, written in loop IR."""

from __future__ import annotations

from collections.abc import Callable

from forge.tir.expr import Expr

HELPERS: dict[str, Callable[..., Expr]] = {}
