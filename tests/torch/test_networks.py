"""The networks of ``benchmarks/`` and architectures of transformers, small, under ``torch.compile(fullgraph=True)``."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks import architectures, models  # noqa: E402
from benchmarks.torch_compile import REAL, made  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [*models.MODELS, *(f"real:{name}" for name in REAL)])
def test_small_networks(name: str) -> None:
    torch.compiler.reset()
    network, args, kwargs = made(name, small=True)
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):  # else Dynamo leaves recurrent layers to eager PyTorch
        wanted = tensors(network(*args, **kwargs))
        got = tensors(torch.compile(network, backend="forge", fullgraph=True)(*args, **kwargs))
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * float(b.abs().max()))


def tensors(results: Any) -> list[Any]:
    return [leaf for leaf in architectures.leaves(results) if isinstance(leaf, torch.Tensor)]
