"""Functions of tensors, as ``forge.nn`` has them; filled family by family."""

from __future__ import annotations

from forge.nn.functions.arithmetic import *  # noqa: F403
