"""Models that are damaged are loaded, or refused with an error of Forge; `mutants` has more of them."""

from __future__ import annotations

import pytest

from forge.frontends.keras import converters
from tests.frontends.keras.mutants import run

EACH = 250


@pytest.mark.sampled(10)
@pytest.mark.parametrize("part", range(20))
def test_mutants(part: int) -> None:
    converters.load_all()
    counts, findings = run(range(part * EACH, (part + 1) * EACH), 0)
    assert not findings and counts["model"] > EACH / 10 and EACH - counts["model"] > EACH / 4
