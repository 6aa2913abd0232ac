"""What tests of kernels share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels.emulated_tiles import load


@pytest.fixture
def products() -> Callable[[], int]:
    """How many products of emulated tile registers were computed since the test began."""
    library = load()
    before = library.forge_tile_products()
    return lambda: library.forge_tile_products() - before
