"""Examples in docstrings of functions of ``forge.nn`` say what the functions give, and each function has one."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from forge import nn
from forge.nn import functions

MODULES = [f"{functions.__name__}.{module.name}" for module in pkgutil.iter_modules(functions.__path__)]
ONLY_IN_EXPORTS = {"forge.nn.functions.collectives"}
"""Modules whose functions run in models only."""


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module), extraglobs={"nn": nn})
    assert result.failed == 0


def test_every_function_has_an_example() -> None:
    computed = {name: function for name in nn.op.__all__ if (function := getattr(nn.op, name)).__module__ not in ONLY_IN_EXPORTS}
    assert [name for name, function in computed.items() if ">>> " not in (function.__doc__ or "")] == []
