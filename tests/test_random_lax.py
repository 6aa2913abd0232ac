"""Random programs of jax: jax, the interpreter and compiled code agree within what rounding explains.

``FORGE_RANDOM_LAX=2000`` sets how many programs there are; ``python -m tests.random_lax_checks`` runs as many as are wanted.
"""

from __future__ import annotations

import os

import pytest

pytest.importorskip("jax")

from tests.random_lax_checks import check

COUNT = int(os.environ.get("FORGE_RANDOM_LAX", "240"))


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(COUNT))
def test_random_programs(seed: int) -> None:
    assert not check(seed, (0, 3))
