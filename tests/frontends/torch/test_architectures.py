"""Architectures of transformers with small random configurations, exported and traced with dynamic sizes, next to torch.

``python -m benchmarks.architectures`` does the same with the real ones.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks import architectures  # noqa: E402
from forge.driver import compile_module  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("way", ["export", "trace"])
@pytest.mark.parametrize("name", architectures.ARCHITECTURES)
def test_architectures(name: str, way: str) -> None:
    network = architectures.network(name, small=True)
    run = compile_module(architectures.load(name, network, way).module).runtime()
    assert max(architectures.errors(name, network, run)) < architectures.TOLERANCE
