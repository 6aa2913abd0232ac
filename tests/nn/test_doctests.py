"""Examples in docstrings of ``forge.nn`` are right, and each function of tensors has one."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from forge import nn

MODULES = [module.name for module in pkgutil.walk_packages(nn.__path__, f"{nn.__name__}.")]
FUNCTIONS = "forge.nn.functions."
ONLY_IN_EXPORTS = "forge.nn.functions.collectives"


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module), extraglobs={"nn": nn})
    assert result.failed == 0


def test_every_function_has_an_example() -> None:
    functions = [function for name in nn.op.__all__ if (function := getattr(nn.op, name)).__module__.startswith(FUNCTIONS)]
    computed = [function for function in functions if function.__module__ != ONLY_IN_EXPORTS]
    assert len(computed) > 100
    assert [function.__name__ for function in computed if ">>> " not in function.__doc__] == []
