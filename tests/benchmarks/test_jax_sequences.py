"""The networks of sequences in flax: Forge computes what jax does."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax")
linen = pytest.importorskip("flax.linen")

import numpy as np  # noqa: E402

import forge  # noqa: E402
from benchmarks.jax_networks.sequences import SEQUENCES  # noqa: E402


@pytest.mark.parametrize("name", SEQUENCES)
def test_small_network(name: str) -> None:
    network, variables, arguments = SEQUENCES[name](True, 3)
    function = network.apply if isinstance(network, linen.Module) else network
    expected = jax.tree.leaves(jax.jit(function)(variables, *arguments))
    run = forge.compile(forge.from_jax(lambda *given: function(variables, *given), *arguments))
    found = jax.tree.leaves(run(*map(np.asarray, jax.tree.leaves(arguments))))
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * float(np.abs(other).max()))
