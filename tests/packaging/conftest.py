"""The checkout that tests of packaging install from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.index import copy_checkout


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout, so that building leaves nothing here; spaces are in its path."""
    path = tmp_path_factory.mktemp("sources") / "a checkout"
    copy_checkout(path)
    return path
