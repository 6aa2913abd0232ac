"""What tests of compiled graphs share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def fresh() -> Iterator[None]:
    """PyTorch has compiled nothing yet, and draws the same random numbers."""
    import torch

    torch.manual_seed(0)
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gets an entry for every compilation."""
    from forge.torch import compiled

    found: list[str] = []
    original = vars(compiled)["compile_module"]

    def counted(module: Any, *args: Any, **kwargs: Any) -> Any:
        found.append(str(module.main))
        return original(module, *args, **kwargs)

    monkeypatch.setattr(compiled, "compile_module", counted)
    return found
