"""Kinds of targets: the first word of a target's text. Backends that serve others add theirs."""

from __future__ import annotations

KINDS: set[str] = {"llvm"}
