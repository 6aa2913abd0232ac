"""All operators that have a converter."""

from __future__ import annotations

from forge.frontends.support import CONVERTER, Coverage
from forge.frontends.torch import converters
from forge.frontends.torch.registry import REGISTRY


def coverage() -> list[Coverage]:
    converters.load_all()
    return [Coverage(row.domain, row.op, (row.since,), CONVERTER) for row in REGISTRY.rows()]
