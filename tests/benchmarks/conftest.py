"""Benchmarks turn the compile cache off for their process, which is that of the tests here."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def cache_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a benchmark sets, the next test has what was set before."""
    monkeypatch.setenv("FORGE_CACHE", os.environ["FORGE_CACHE"])
